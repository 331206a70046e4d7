// LongList: the elements of a reply that may be long, made piece by piece.
//
// A client gets the pieces as they are, so nothing is copied, and each is freed once it is sent.
// They count as what the process holds for clients, and may have to wait for memory:
//
//   while (!list.MakeRoom(bytes)) …wait…
//   ReplyWriter(list.piece(), is_resp3).Bulk(key);
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "compute/gateway/connection/client_memory.h"

namespace gossamer::gateway {

class LongList {
 public:
  explicit LongList(ClientMemory& memory)
      : memory_(memory),
        most_bytes_(std::min(kMostBytes, memory.share() / 4)),
        held_(memory, ClientMemory::Use::kAnswers) {}

  // Whether elements of so many bytes in all would make a reply that no client gets.
  bool IsTooLong(size_t more) const { return bytes() + more > most_bytes_; }
  // Has the last piece take an element of so many bytes. Returns false if memory is short.
  bool MakeRoom(size_t bytes) {
    const size_t needed = bytes + kHeaderBytes;
    const bool is_first = pieces_.empty();
    if (!is_first && piece().capacity() - piece().size() >= needed) return true;
    const size_t capacity = std::max(is_first ? kFirstBytes : kPieceBytes, needed);
    const bool is_small = is_first && capacity == kFirstBytes;
    const bool may_begin = (is_small && memory_.HasRoom(ClientMemory::Use::kAnswers, capacity)) ||
                           held_.MayGrow(capacity);
    if (!may_begin) return false;
    if (!is_first) ended_bytes_ += piece().size();
    pieces_.emplace_back().reserve(capacity);
    held_.Set(held_.bytes() + piece().capacity());
    return true;
  }
  // The last one.
  std::string& piece() { return pieces_.back(); }
  // Forgets all.
  void Clear() {
    pieces_.clear();
    ended_bytes_ = 0;
    held_.Set(0);
    held_.EndGrowth();
  }
  std::deque<std::string> TakePieces() { return std::exchange(pieces_, {}); }

 private:
  // Of a reply: commands that bring a part of the keys are for more.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  // As the first piece may be small, short lists take little.
  static constexpr size_t kFirstBytes = 16 * 1024;
  static constexpr size_t kPieceBytes = 512 * 1024;
  static constexpr size_t kHeaderBytes = 32;  // at most, of an element

  size_t bytes() const { return ended_bytes_ + (pieces_.empty() ? 0 : pieces_.back().size()); }

  ClientMemory& memory_;
  const uint64_t most_bytes_;
  ClientMemory::Holding held_;
  std::deque<std::string> pieces_;
  size_t ended_bytes_ = 0;  // of all pieces but the last
};

}  // namespace gossamer::gateway
