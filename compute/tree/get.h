// Getter: gets the value of a key. Usually by one READ of one group.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/locked_leaf.h"
#include "compute/tree/plain_get.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

// The value in the content of a block of a long key; nullopt if that is not `key`.
std::optional<std::string> ValueOfLongKey(std::string_view content, KeyView key);

class Getter {
 public:
  Getter(TreeContext& context, LeafLocker& leaves) : context_(context), leaves_(leaves) {}

  // Returns the value of `key`.
  // Errors: NotFound; InvalidArgument; NodeUnreachable, with the loss noted in `op`; Corruption.
  // Cost: 1 RT for the home group, and the overflow group if the hint says so. 1 RT more for a key
  // in the overflow group without a hint, 1 RT more for a value block. A stale path: 2 RT more if the key is
  // one hop away, 5 RT and one for each level in all if it is further (rule W7).
  Task<Result<std::string>> Get(Op& op, KeyView key) { return Go(op, key, nullptr); }
  // The same as an operation of its own, with lost queue pairs replaced. Counted.
  Task<Result<std::string>> GetUntilDone(KeyView key);

 private:
  // Where the key is in the leaf, and where in the buffers its units are read to.
  struct Units;
  // The first READs of a get.
  struct First {
    PlainGet plain;
    BufferLease buffers;  // laid out as UnitBuffers
    InlineBatch<2> batch;
  };
  enum class Hop : uint8_t { kMoved, kUndecided };
  struct Route {
    NodeCache::Step path;
    bool is_afresh = false;  // found once without the cache
    // If the cache did not take the leaf's parent, it keeps no hint for this leaf. The first batch brings both groups.
    bool may_have_hint = true;
    // Where the leaf starts from whose sibling pointer this get came to that of `path`. Only such a leaf may be read if it is
    // frozen.
    std::optional<Key> left;
  };

  // Prepares READs of the leaf that is cached. Returns false if the key is not plain.
  bool Prepare(KeyView key, First& first);
  // Returns false if the leaf is not cached. `is_counted`: the cache has counted this lookup before.
  bool FindCached(KeyView key, bool is_counted, NodeCache::Step& path) const;
  // The same as Get and GetUntilDone; goes on from `first`, which has ended, unless it is null.
  Task<Result<std::string>> Go(Op& op, KeyView key, First* first);
  Task<Result<std::string>> GoUntilDone(Op& op, KeyView key, First* first);
  Task<Status> FindPath(Op& op, KeyView key, Route& route);
  // Whether the frozen leaf of the route may be read. If so, notes that its merge is unfinished.
  bool MayReadFrozen(const Route& route) const;
  // Forgets the route: the leaf is looked up again, by its parent as that is now.
  void LookUpAgain(Route& route, bool& has_path);
  // The key is right of the leaf of `route.path`: moves the path toward it, by a hop or a fresh
  // descent. Undecided: group and trailer do not agree (yet).
  Task<Result<Hop>> LeaveStaleLeaf(Op& op, KeyView key, const Units& units, Route& route);
  Task<Result<Hop>> HopRight(Op& op, KeyView key, const Units& units, Route& route);
  // The value of `key` by its entry; nullopt if that has changed since.
  Task<Result<std::optional<std::string>>> ReadValue(Op& op, KeyView key, Entry entry);
  Task<Result<std::string>> GetUnderLock(Op& op, KeyView key);

  TreeContext& context_;
  LeafLocker& leaves_;
};

}  // namespace gossamer
