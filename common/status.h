// Forwards to the public header, under the path that the project's own sources include.
#pragma once

#include "gossamer/status.h"  // IWYU pragma: export
