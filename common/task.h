// Forwards to the public header, under the path that the project's own sources include.
#pragma once

#include "gossamer/task.h"  // IWYU pragma: export
