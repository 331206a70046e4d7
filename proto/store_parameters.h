// What is fixed when a store is created, a public header under the path that the project's own sources include it by.
#pragma once

#include "gossamer/store_parameters.h"  // IWYU pragma: export
