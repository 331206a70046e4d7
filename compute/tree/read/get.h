// Getter: gets the value of a key. Usually by one READ of one group.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/get_job.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"
#include "compute/tree/write/leaf_writer.h"

namespace gossamer {

class Getter {
 public:
  Getter(TreeContext& context, LeafLocker& leaves, LeafWriter& writer)
      : context_(context), leaves_(leaves), writer_(writer) {}

  // Returns the value of `key`.
  // Errors: NotFound; InvalidArgument; NodeUnreachable, with the loss noted in `op`; Corruption.
  // Cost: 1 RT for the home group, and the overflow group if the hint says so. 1 RT more for a key
  // in the overflow group without a hint, 1 RT more for a value block. Of a key that has expired, and
  // is still there, 3 RT to remove it. A stale path: 2 RT more if
  // the key is one hop away, 5 RT and one for each level in all if it is further (rule W7).
  // Sets `expires_at`, unless that is null: when the key expires, or 0: never.
  Task<Result<std::string>> Get(Op& op, KeyView key, uint64_t* expires_at = nullptr) {
    return Finish(op, key, nullptr, expires_at);
  }
  // The same as an operation of its own, with lost queue pairs replaced. Counted.
  Task<Result<std::string>> GetUntilDone(KeyView key, uint64_t* expires_at = nullptr);

 private:
  // Removes a key that may have expired. Returns true if it had: then it is absent.
  // Errors: as LeafWriter::WriteUntilDone.
  Task<Result<bool>> RemoveExpired(KeyView key);
  // A get whose first READs are on their way, or have ended.
  struct Begun {
    GetJob job;
    BufferLease buffers;  // laid out as UnitBuffers; behind that, a block that is READ along
    InlineBatch<GetJob::kMaxReads> batch;
  };
  // The way to the key's leaf so far.
  struct Route {
    NodeCache::Step path;
    bool has_path = false;   // `path` is to be used; without, the leaf is looked up
    bool is_afresh = false;  // found once without the cache
    // If the cache did not take the leaf's parent, it keeps no hint for this leaf.
    bool may_have_hint = true;
    // Where the leaf starts from whose sibling pointer this get came to that of `path`. Only such a
    // leaf may be read if it is frozen.
    std::optional<Key> left;
  };

  // Begins a get at the leaf that is cached. Returns false if there is none.
  bool Begin(KeyView key, Begun& begun);
  // Gets what is not plain. Goes on from `begun`, which has ended, unless it is null. Sets
  // `expires_at`, unless that is null.
  Task<Result<std::string>> Finish(Op& op, KeyView key, Begun* begun,
                                   uint64_t* expires_at = nullptr);
  Task<Result<std::string>> FinishUntilDone(Op& op, KeyView key, Begun* begun,
                                            uint64_t* expires_at = nullptr);
  // `is_counted`: the cache has counted this lookup before.
  Task<Status> FindPath(Op& op, KeyView key, bool is_counted, Route& route);
  // Forgets the route: the leaf is looked up again, by its parent as that is now.
  void LookUpAgain(Route& route);
  // The key is right of the leaf of `route.path`: moves the path toward it, by a hop or a fresh
  // descent. Without a path afterwards, group and trailer do not agree (yet).
  Task<Status> LeaveStaleLeaf(Op& op, KeyView key, const BufferLease& buffers, Route& route);
  Task<Status> HopRight(Op& op, KeyView key, const BufferLease& buffers, Route& route);
  // The value of `key` by its entry, which has a block; nullopt if that has changed since.
  Task<Result<std::optional<std::string>>> ReadBlock(Op& op, KeyView key, Entry entry,
                                                     uint64_t* expires_at);
  // The value of a key whose leaf cannot be read otherwise. Removes the key if it has expired.
  Task<Result<std::string>> GetUnderLock(Op& op, KeyView key, uint64_t* expires_at);
  // The same; nullopt if it has to be removed first.
  Task<Result<std::optional<std::string>>> TryUnderLock(Op& op, KeyView key, uint64_t* expires_at);

  TreeContext& context_;
  LeafLocker& leaves_;
  LeafWriter& writer_;
};

}  // namespace gossamer
