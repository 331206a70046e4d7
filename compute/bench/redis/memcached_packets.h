// Packets of memcached's binary protocol, in which keys are any bytes. Source: memcached's
// BinaryProtocolRevamped.
//
// Thread-safety: none. Cost: no allocation but of what is appended to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "compute/bench/redis/reply.h"

namespace gossamer::bench {

enum class MemcachedOpcode : uint8_t {
  kGet = 0x00,
  kSet = 0x01,
  kQuietGet = 0x09,  // an absent key has no answer
  kNoop = 0x0a,
  kStat = 0x10,
  kQuietSet = 0x11,  // only an error has an answer
};

inline constexpr uint16_t kMemcachedOk = 0;
inline constexpr uint16_t kMemcachedNotFound = 1;
inline constexpr uint16_t kMemcachedNoMemory = 0x82;

struct MemcachedPacket {
  MemcachedOpcode opcode = MemcachedOpcode::kNoop;
  uint16_t status = kMemcachedOk;  // of an answer
  uint32_t opaque = 0;             // as in the request
  std::string_view key;
  std::string_view value;
};

// Appends a request. A put (kSet, kQuietSet) has a value that does not expire.
void AppendRequest(std::string& out, MemcachedOpcode opcode, std::string_view key = {},
                   std::string_view value = {}, uint32_t opaque = 0);

// Where the answer at the start of `bytes` ends: behind the first packet that no other one of the
// same answer follows.
ReplyEnd FindPacketsEnd(std::string_view bytes);

// Goes through the packets of a whole answer.
class PacketReader {
 public:
  explicit PacketReader(std::string_view answer) : rest_(answer) {}
  bool has_next() const { return !rest_.empty(); }
  // Requires: has_next().
  MemcachedPacket Next();

 private:
  std::string_view rest_;
};

}  // namespace gossamer::bench
