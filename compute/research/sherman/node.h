// Nodes of the tree in remote memory: 1 KiB each, of keys and values of 8 bytes (Sherman's
// two-level versions).
//
//   offset  bytes
//        0      1  front node version (FNV), 4 bits
//        1      1  level; 0: a leaf
//        2      2  entries of an internal node
//        4      4  not used
//        8     16  fences: keys of the node are in [low, high); kNoBound as `high`: no upper bound
//       24      8  sibling: the next node of the level
//       32      8  internal nodes: the child for keys below the first entry's
//       40    972  leaf: 54 entries of 18 bytes, in no order
//       40    976  internal node: 61 entries of 16 bytes, in order of their keys
//     1023      1  rear node version (RNV), 4 bits
//
// A leaf's entry has a front entry version (FEV, 4 bits, and a bit that says that the entry is
// used), key, value, and a rear entry version (REV, 4 bits). Each version has a byte of its own.
//
// A whole node is written with FNV and RNV one higher, an entry with FEV and REV one higher. A
// reader takes a node whose FNV and RNV are equal, and of it an entry whose FEV and REV are equal,
// and reads again otherwise.
//
// A node keeps its address, level and low fence for good: a split moves the upper half to a new
// right sibling. So a pointer that is out of date leads to the right node or to one left of it, and
// siblings lead on (a B-link tree).
//
// Thread-safety: none; these are copies in local buffers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "proto/remote_ptr.h"

namespace gossamer::sherman {

// A key's 8 bytes as a big-endian number, so that keys have their bytes' order.
enum class Key : uint64_t {};
inline constexpr Key kLeastKey{0};
inline constexpr Key kNoBound{~uint64_t{0}};
enum class Value : uint64_t {};

inline constexpr uint32_t kNodeBytes = 1024;
static_assert(kNodeBytes % kNodeAlignment == 0, "nodes have RemotePtrs");

// The next of the 16 versions.
constexpr uint8_t NextVersion(uint8_t version) { return (version + 1) & 0xf; }

struct NodeHeader {
  uint8_t front_version;
  uint8_t level;
  uint16_t entries;
  uint32_t unused;
  Key low;
  Key high;
  uint64_t sibling;
  uint64_t leftmost;

  bool Covers(Key key) const { return low <= key && (key < high || high == kNoBound); }
  RemotePtr sibling_pointer() const { return RemotePtr::FromWord(sibling); }
};
static_assert(sizeof(NodeHeader) == 40);

struct LeafEntry {
  static constexpr uint8_t kVersion = 0xf;
  static constexpr uint8_t kUsed = 0x10;

  uint8_t front;
  std::array<std::byte, 8> key_bytes;
  std::array<std::byte, 8> value_bytes;
  uint8_t rear;

  bool is_used() const { return (front & kUsed) != 0; }
  bool is_consistent() const { return (front & kVersion) == rear; }
  Key key() const { return std::bit_cast<Key>(key_bytes); }
  Value value() const { return std::bit_cast<Value>(value_bytes); }
  void Set(Key key, Value value) {
    key_bytes = std::bit_cast<std::array<std::byte, 8>>(key);
    value_bytes = std::bit_cast<std::array<std::byte, 8>>(value);
    Bump(kUsed);
  }
  void Clear() { Bump(0); }

 private:
  void Bump(uint8_t used) {
    rear = NextVersion(rear);
    front = used | rear;
  }
};
static_assert(sizeof(LeafEntry) == 18 && alignof(LeafEntry) == 1);

struct InternalEntry {
  Key key;
  uint64_t child;
};
static_assert(sizeof(InternalEntry) == 16);

inline constexpr uint32_t kLeafEntries = 54;
inline constexpr uint32_t kInternalEntries = 61;

// What leaves and internal nodes have in common.
template <typename Entry, uint32_t kEntries>
struct NodeOf {
  NodeHeader header;
  std::array<Entry, kEntries> entries;
  std::array<std::byte, kNodeBytes - sizeof(NodeHeader) - sizeof(Entry) * kEntries - 1> unused;
  uint8_t rear_version;

  bool is_consistent() const { return header.front_version == rear_version; }
  void BumpVersion() { header.front_version = rear_version = NextVersion(rear_version); }

 protected:
  // Makes `sibling` an empty right neighbour at `pointer`, for keys from `separator` on.
  void LinkSibling(NodeOf& sibling, RemotePtr pointer, Key separator) {
    sibling = {};
    sibling.header = {.front_version = 0,
                      .level = header.level,
                      .entries = 0,
                      .unused = 0,
                      .low = separator,
                      .high = header.high,
                      .sibling = header.sibling,
                      .leftmost = 0};
    header.high = separator;
    header.sibling = pointer.word();
  }
};

struct LeafNode : NodeOf<LeafEntry, kLeafEntries> {
  // Null if the leaf does not have the key.
  LeafEntry* Find(Key key) {
    for (LeafEntry& entry : entries) {
      if (entry.is_used() && entry.key() == key) return &entry;
    }
    return nullptr;
  }
  // Null if the leaf is full.
  LeafEntry* FindUnused() {
    LeafEntry* const found =
        std::ranges::find_if(entries, [](const LeafEntry& entry) { return !entry.is_used(); });
    return found == entries.end() ? nullptr : found;
  }
  // Moves the upper half of a full leaf to `sibling`, which will be at `pointer`.
  void Split(LeafNode& sibling, RemotePtr pointer) {
    std::ranges::sort(entries, {}, [](const LeafEntry& entry) { return entry.key(); });
    constexpr uint32_t kLeft = kLeafEntries / 2;
    LinkSibling(sibling, pointer, entries[kLeft].key());
    for (uint32_t i = kLeft; i < kLeafEntries; ++i) {
      sibling.entries[i - kLeft].Set(entries[i].key(), entries[i].value());
      entries[i].Clear();
    }
  }
};

struct InternalNode : NodeOf<InternalEntry, kInternalEntries> {
  bool is_full() const { return header.entries == kInternalEntries; }
  // Whether its bytes are those of an internal node: what follows trusts them. The paper relies on
  // the versions; here this also finds nodes that were torn behind their versions' back.
  bool is_usable() const {
    if (header.level == 0 || header.entries > kInternalEntries || header.leftmost == 0)
      return false;
    const std::span used(entries.data(), header.entries);
    return std::ranges::is_sorted(used, std::ranges::less_equal(), &InternalEntry::key) &&
           std::ranges::none_of(used, [this](const InternalEntry& entry) {
             return entry.child == 0 || entry.key <= header.low || !header.Covers(entry.key);
           });
  }
  // How many separators are `key` or less: child `i` is for keys from separator `i` - 1 on.
  uint32_t ChildIndex(Key key) const {
    const auto* const end = entries.begin() + header.entries;
    return static_cast<uint32_t>(
        std::upper_bound(entries.begin(), end, key,
                         [](Key one, const InternalEntry& entry) { return one < entry.key; }) -
        entries.begin());
  }
  RemotePtr child(uint32_t index) const {
    return RemotePtr::FromWord(index == 0 ? header.leftmost : entries[index - 1].child);
  }
  // Requires: not full.
  void Insert(Key separator, RemotePtr child) {
    assert(!is_full());
    const uint32_t at = ChildIndex(separator);
    std::copy_backward(entries.begin() + at, entries.begin() + header.entries,
                       entries.begin() + header.entries + 1);
    entries[at] = {separator, child.word()};
    ++header.entries;
  }
  // Moves the upper half of a full node to `sibling`, which will be at `pointer`. The middle
  // separator becomes its low fence.
  void Split(InternalNode& sibling, RemotePtr pointer) {
    constexpr uint32_t kMiddle = kInternalEntries / 2;
    LinkSibling(sibling, pointer, entries[kMiddle].key);
    sibling.header.leftmost = entries[kMiddle].child;
    sibling.header.entries = kInternalEntries - kMiddle - 1;
    std::copy_n(entries.begin() + kMiddle + 1, sibling.header.entries, sibling.entries.begin());
    header.entries = kMiddle;
  }
};

static_assert(sizeof(LeafNode) == kNodeBytes && sizeof(InternalNode) == kNodeBytes);
static_assert(offsetof(LeafNode, rear_version) == kNodeBytes - 1 &&
              offsetof(InternalNode, rear_version) == kNodeBytes - 1);
static_assert(std::is_trivially_copyable_v<LeafNode> && std::is_trivially_copyable_v<InternalNode>);

}  // namespace gossamer::sherman
