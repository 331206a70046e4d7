// EvictSome: what Session::AsyncEvict does.
#pragma once

#include "common/random.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree.h"
#include "gossamer/eviction.h"

namespace gossamer {

Task<Result<EvictedKeys>> EvictSome(Tree& tree, Random& random, EvictionChoice& choice);

}  // namespace gossamer
