// The traversal of separators alone: the cache of internal nodes (compute/cache) as it is when all
// nodes of a large store are cached, without the store.
//
// The cache has the level above the leaves of a store of 8-byte keys that were put in random order.
// Keys are looked up as gossamer's gets do it: one at a time by NodeCache::Reader::Find,
// many by FindLeaves.
#pragma once

#include <functional>
#include <span>

#include "common/status.h"
#include "compute/research/lab/catalogue.h"
#include "compute/research/lab/measure.h"

namespace gossamer::lab {

// As an entry of the catalogue, which is no tree: it has no checks, as each measurement checks a
// tenth of its lookups. It measures read-only runs with one thread.
const TreeEntry& Separators();

// As `measure` of a TreeEntry: fills one cache for all `runs`. Errors: Corruption if a lookup finds
// the wrong leaf.
Status MeasureSeparators(std::span<const RunOptions> runs,
                         const std::function<void(const Measurement&)>& take);

}  // namespace gossamer::lab
