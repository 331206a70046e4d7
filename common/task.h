// Task<T>, a public header under the path that the project's own sources include it by.
#pragma once

#include "gossamer/task.h"  // IWYU pragma: export
