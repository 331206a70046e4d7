// LeafJob: the writes of one call that lie in one leaf, from the leaf's lock to its release.
//
// A single write is a job of one. LeafLocker finds, locks and reads the leaf, LeafWriter applies
// the writes to the leaf's image, LeafCommitter writes the image back and ends the lock. Each has
// steps that do not wait, for a caller that posts the verbs itself, and coroutines that wait as
// often as necessary.
//
// Thread-safety: none; it belongs to its operation. While it waits in a lock table's queue, the
// holder of the turn may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compute/allocation/allocated.h"
#include "compute/leaf/leaf_editor.h"
#include "compute/leaf/unit_buffers.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/tree_context.h"
#include "proto/leaf.h"

namespace gossamer {

// A leaf under its lock. While the lock is held, no other client writes the leaf: bytes read under
// it are current until its release, also when they are handed over with the lock.
struct LockedLeaf {
  LockedLeaf(RemoteLocks& locks, Op& op) : lock(locks, op) {}

  RemotePtr leaf() const { return path.node; }
  // A key in the leaf's range, as GroupView::Parse wants it.
  KeyView within() const { return key_inside.data() != nullptr ? key_inside : path.low.view(); }
  const GroupView& unit(uint32_t number) const { return editor->Unit(number); }
  LocalAddress image(uint32_t at = 0) const { return buffer + (LockedBuffers::kImage + at); }
  void UseBuffer(LocalAddress address) {
    buffer = address;
    lock.UseWords(buffer + LockedBuffers::kLockWord, buffer + LockedBuffers::kUnlockWord);
  }

  NodeCache::Step path;
  KeyView key_inside;  // if the path lacks the low fence
  RemoteLock lock;
  LocalAddress buffer;  // laid out as LockedBuffers
  BufferLease lease;    // of the buffer, unless that is a part of another's
  std::optional<LeafEditor> editor;
  std::optional<TrailerView> trailer;  // once the leaf was read whole
};

struct LeafJob : LockTable::Wish {
  // More puts or deletes than this read and write the leaf whole. Each of so few changes two units
  // at most.
  static constexpr size_t kFew = 4;
  static_assert(2 * kFew <= RemoteLock::kMaxWrites);

  enum class State : uint8_t {
    kOpen,     // nothing is posted
    kTried,    // the lock's CAS is in a batch, and not known to have ended
    kRefused,  // the lock was not taken
    kHeld,     // the lock was taken, or came along
    kEdited,   // likewise, and all writes are in the image
    kLate,     // likewise, under a lease that is perhaps not the present queue pair's
    kGranted,  // another job has done the writes along with its own
  };

  // `all` outlive the job; their keys ascend.
  LeafJob(RemoteLocks& locks, Op& op, std::span<LeafWrite> all) : writes(all), locked(locks, op) {}

  // All wishes in a lock table's queue are jobs.
  static LeafJob& From(LockTable::Wish& wish) { return static_cast<LeafJob&>(wish); }
  static const LeafJob& From(const LockTable::Wish& wish) {
    return static_cast<const LeafJob&>(wish);
  }
  // The path leads to its leaf.
  LeafWrite& first() const { return writes.front(); }
  // Whether its lock ends with a commit: of the writes, or without any.
  bool ends_with_commit() const { return state == State::kHeld || state == State::kEdited; }
  RemoteLock::After after_commit() const {
    return next_turn != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease;
  }

  State state = State::kOpen;
  // At least one. Of more than kFew puts or deletes, the first stands for all, and `is_whole` is
  // set.
  std::span<LeafWrite> writes;
  bool is_whole = false;  // needs the leaf whole
  // The stamp of the block that the only write's entry refers to.
  std::optional<AllocationStamp> block;
  LockedLeaf locked;

  // Of the caller: with the try, once that was added; then with the commit.
  Batch* batch = nullptr;
  RemoteLock::Taking taking{};
  uint32_t wanted = 0;  // bit set of the units to read, as in LeafLocker::WantedUnits

  // What came with a lock that was handed over, in the image.
  uint32_t known_units = 0;  // bit set
  bool knows_trailer = false;

  // What becomes of the leaf's lock and of its waiters, once the commit was prepared.
  bool has_changes = false;                // Without, the commit is the release alone.
  bool is_sparse = false;                  // The leaf has lost entries, and may be worth a merge.
  LockTable::WaiterList granted;           // Their writes are written along.
  LockTable::Waiter* next_turn = nullptr;  // gets the lock
};

}  // namespace gossamer
