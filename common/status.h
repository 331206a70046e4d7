// Status codes, errors and results, a public header under the path that the project's own sources include it by.
#pragma once

#include "gossamer/status.h"  // IWYU pragma: export
