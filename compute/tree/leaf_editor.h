// LeafEditor: a leaf whose lock is held, as it is read, changed and written back. No verbs here.
//
// Invariant: every known unit of the image is valid, and of one node version; nobody else changes the leaf meanwhile.
// One operation after the other is applied to the image, and those units that changed are written together: operations
// that were combined so are one change each to whoever reads. An entry stays in its unit (rule W3): where it would
// move, or does not fit, `Apply` says so and changes nothing.
//
// Thread-safety: none. Cost: no allocation; a checksum for each unit looked at and each unit changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "gossamer/counters.h"
#include "proto/leaf.h"

namespace gossamer {

enum class WriteMode : uint8_t { kPut, kInsert, kUpdate, kDelete };

// One write, and what came of it.
struct LeafWrite {
  WriteMode mode = WriteMode::kPut;
  uint64_t hash = 0;    // KeyHash of the key
  uint32_t unit = 0;    // the key's home group in this store's leaves
  Entry entry;          // of a delete, the key alone
  bool is_new = false;  // The key is probably not there yet.

  // What came of it, once it has been applied and the leaf was written.
  OperationClass kind = OperationClass::kUpdate;
  Status status = Ok();  // NotFound, AlreadyExists: nothing was changed
  std::optional<BlockRef> replaced;
};

class LeafEditor {
 public:
  enum class Applied : uint8_t {
    kChanged,
    kRefused,  // `status` says why; nothing to write
    kUnread,   // the overflow group must be known first
    kNoRoom,   // it fits neither into its home nor into the overflow group
    kLater,    // not together with what was applied before (rule W3)
  };

  LeafEditor(std::span<std::byte> image, RemotePtr leaf, const LeafGeometry& geometry)
      : image_(image), leaf_(leaf), geometry_(geometry) {}

  // Says that the bytes of unit `number` were read under the lock. False if they are not valid, or not of the version
  // of the units known so far.
  bool Accept(uint32_t number);
  // Takes over the units in `units`, which were handed over with the lock.
  void AcceptHandedOver(uint32_t units);
  bool knows(uint32_t number) const { return (known_ >> number & 1) != 0; }
  uint32_t known() const { return known_; }
  // Units that were changed and not written yet.
  uint32_t changed() const { return changed_; }
  // A known unit.
  const GroupView& Unit(uint32_t number) const {
    return *std::launder(reinterpret_cast<const GroupView*>(&views_[number * sizeof(GroupView)]));
  }
  std::span<std::byte> bytes(uint32_t number) const {
    return image_.subspan(geometry_.unit_offset(number), geometry_.unit_bytes());
  }

  // Adds the entries of all units, which are known, in the units' order. They refer to the image.
  void AppendTo(std::vector<Entry>& entries) const;

  // The entry of `key`, whose home group is known. Unread: it may be in the overflow group, which is not.
  struct Found {
    bool unread = false;
    std::optional<Entry> entry;
    uint32_t unit = 0;  // where it is
  };
  Found Find(KeyView key, uint32_t home) const;

  // Whether the key of `write`, whose home group is known, belongs to this leaf. (Not below it: a leaf's low fence
  // never changes, so that whoever was once led here was led right, or too far left.)
  bool Admits(const LeafWrite& write) const { return Unit(write.unit).Admits(write.entry.key); }
  // Applies `write`, whose home group is known.
  Applied Apply(LeafWrite& write);
  // What was changed has been written.
  void Written() {
    changed_ = 0;
    removed_count_ = 0;
  }

 private:
  static constexpr size_t kMaxRemoved = 8;

  void SetView(uint32_t number, const GroupView& view) {
    std::construct_at(reinterpret_cast<GroupView*>(&views_[number * sizeof(GroupView)]), view);
  }
  // In unit `number`, replaces what is stored for `key`, or removes it, or adds it. False if it does not fit.
  bool Rewrite(uint32_t number, bool overflowed, KeyView key, const std::optional<Entry>& entry);
  bool Add(uint32_t number, bool overflowed, const Entry& entry);
  void Overwrite(const Found& old, const Entry& entry);

  std::span<std::byte> image_;
  RemotePtr leaf_;
  LeafGeometry geometry_;
  // Of the known units, one GroupView each; the others are not made, as there may be many.
  alignas(GroupView) std::array<std::byte, kMaxUnits * sizeof(GroupView)> views_;
  uint32_t known_ = 0;
  uint32_t changed_ = 0;
  // Hashes of keys removed since the last write: they must not come back in another unit before that.
  std::array<uint64_t, kMaxRemoved> removed_{};
  size_t removed_count_ = 0;
};

}  // namespace gossamer
