// Remote pointers and server ids: the names of remote memory.
//
//   63            48 47                                     8 7          0
//   +---------------+----------------------------------------+------------+
//   | server id 16  | offset / 256, 40 bits                  | generation |
//   +---------------+----------------------------------------+------------+
//
// A pointer to a node has 8 bits of generation, because nodes are aligned to 256 B; a pointer to a
// value block has 6, because blocks are aligned to 64 B. The generation changes each time the
// memory is used again and is part of every
// checksum: a stale pointer never validates. The all-zero word is null: offset 0 holds the region
// header, never a node.
#pragma once

#include <compare>
#include <cstdint>

namespace gossamer {

enum class ServerId : uint16_t {};

constexpr uint16_t ToInteger(ServerId id) { return static_cast<uint16_t>(id); }

inline constexpr uint64_t kNodeAlignment = 256;
inline constexpr uint64_t kBlockAlignment = 64;
inline constexpr uint64_t kMaxOffset = (uint64_t{1} << 43) - 1;  // A root word has 43 bits for it.

// A pointer to memory aligned to `kAlignment` bytes; its low bits are the generation.
template <uint64_t kAlignment>
class AlignedPtr {
 public:
  static constexpr uint64_t kGenerations = kAlignment;

  constexpr AlignedPtr() = default;
  constexpr AlignedPtr(ServerId server, uint64_t offset, uint8_t generation)
      : word_(uint64_t{ToInteger(server)} << 48 | offset | generation) {}
  static constexpr AlignedPtr FromWord(uint64_t word) {
    AlignedPtr pointer;
    pointer.word_ = word;
    return pointer;
  }

  constexpr bool is_null() const { return word_ == 0; }
  constexpr uint64_t word() const { return word_; }
  constexpr ServerId server() const { return static_cast<ServerId>(word_ >> 48); }
  constexpr uint64_t offset() const { return word_ & kOffsetMask & ~(kAlignment - 1); }
  constexpr uint8_t generation() const { return static_cast<uint8_t>(word_ & (kAlignment - 1)); }
  // The pointer for the next use of this memory.
  constexpr AlignedPtr NextGeneration() const {
    return AlignedPtr(server(), offset(), static_cast<uint8_t>((generation() + 1) % kAlignment));
  }

  friend constexpr auto operator<=>(AlignedPtr, AlignedPtr) = default;

 private:
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << 48) - 1;
  uint64_t word_ = 0;
};

using RemotePtr = AlignedPtr<kNodeAlignment>;  // to a node
using BlockPtr = AlignedPtr<kBlockAlignment>;  // to a value block

static_assert(sizeof(RemotePtr) == 8 && sizeof(BlockPtr) == 8);

// The root word of the superblock: {server 16, level 5, offset 43 with generation}. Changed by CAS,
// read by fetch-add of 0 (rule R7).
class RootWord {
 public:
  static constexpr uint32_t kMaxLevel = 31;

  constexpr RootWord() = default;
  constexpr RootWord(RemotePtr pointer, uint32_t level)
      : word_(pointer.word() | uint64_t{level} << kLevelShift) {}
  static constexpr RootWord FromWord(uint64_t word) {
    RootWord root;
    root.word_ = word;
    return root;
  }

  constexpr uint64_t word() const { return word_; }
  constexpr uint32_t level() const { return (word_ >> kLevelShift) & kMaxLevel; }
  constexpr RemotePtr pointer() const {
    return RemotePtr::FromWord(word_ & ~(uint64_t{kMaxLevel} << kLevelShift));
  }

  friend constexpr bool operator==(RootWord, RootWord) = default;

 private:
  static constexpr int kLevelShift = 43;
  uint64_t word_ = 0;
};

}  // namespace gossamer
