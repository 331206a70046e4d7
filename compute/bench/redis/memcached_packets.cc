#include "compute/bench/redis/memcached_packets.h"

#include <array>
#include <cassert>

namespace gossamer::bench {
namespace {

constexpr char kRequestMagic = '\x80';
constexpr char kAnswerMagic = '\x81';

// Magic, opcode, bytes of the key (2), of the extras (1), a type (1), status (2), bytes behind the
// header (4), opaque (4), version (8).
constexpr size_t kHeaderBytes = 24;
constexpr size_t kOpcodeAt = 1;
constexpr size_t kKeyBytesAt = 2;
constexpr size_t kExtraBytesAt = 4;
constexpr size_t kStatusAt = 6;
constexpr size_t kBodyBytesAt = 8;
constexpr size_t kOpaqueAt = 12;

// Of a put: flags and when it expires.
constexpr size_t kPutExtraBytes = 8;

void Store(char* at, size_t bytes, uint64_t number) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(number >> 8 * (bytes - 1 - i));
}

uint64_t Load(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (const char one : bytes.substr(at, count)) number = number << 8 | static_cast<uint8_t>(one);
  return number;
}

}  // namespace

void AppendRequest(std::string& out, MemcachedOpcode opcode, std::string_view key,
                   std::string_view value, uint32_t opaque) {
  const bool is_put = opcode == MemcachedOpcode::kSet || opcode == MemcachedOpcode::kQuietSet;
  std::array<char, kHeaderBytes + kPutExtraBytes> head{};
  const size_t extra_bytes = is_put ? kPutExtraBytes : 0;
  head[0] = kRequestMagic;
  head[kOpcodeAt] = static_cast<char>(opcode);
  Store(&head[kKeyBytesAt], 2, key.size());
  head[kExtraBytesAt] = static_cast<char>(extra_bytes);
  Store(&head[kBodyBytesAt], 4, extra_bytes + key.size() + value.size());
  Store(&head[kOpaqueAt], 4, opaque);
  out.append(head.data(), kHeaderBytes + extra_bytes);
  out += key;
  out += value;
}

ReplyEnd FindPacketsEnd(std::string_view bytes) {
  constexpr size_t kMostBodyBytes = size_t{64} << 20;
  for (size_t at = 0;;) {
    const std::string_view rest = bytes.substr(at);
    if (!rest.empty() && rest[0] != kAnswerMagic) return {ReplyEnd::Kind::kGarbled, 0};
    if (rest.size() < kHeaderBytes) return {};
    const uint64_t key_bytes = Load(rest, kKeyBytesAt, 2);
    const uint64_t body_bytes = Load(rest, kBodyBytesAt, 4);
    const uint64_t extra_bytes = Load(rest, kExtraBytesAt, 1);
    if (body_bytes > kMostBodyBytes || key_bytes + extra_bytes > body_bytes) {
      return {ReplyEnd::Kind::kGarbled, 0};
    }
    if (rest.size() < kHeaderBytes + body_bytes) return {};
    at += kHeaderBytes + body_bytes;
    const auto opcode = static_cast<MemcachedOpcode>(rest[kOpcodeAt]);
    const bool has_more = opcode == MemcachedOpcode::kQuietGet ||
                          opcode == MemcachedOpcode::kQuietSet ||
                          (opcode == MemcachedOpcode::kStat && key_bytes != 0);
    if (!has_more) return {ReplyEnd::Kind::kWhole, at};
  }
}

MemcachedPacket PacketReader::Next() {
  assert(has_next());
  const size_t key_bytes = Load(rest_, kKeyBytesAt, 2);
  const size_t extra_bytes = Load(rest_, kExtraBytesAt, 1);
  const std::string_view body = rest_.substr(kHeaderBytes, Load(rest_, kBodyBytesAt, 4));
  const MemcachedPacket packet{static_cast<MemcachedOpcode>(rest_[kOpcodeAt]),
                               static_cast<uint16_t>(Load(rest_, kStatusAt, 2)),
                               static_cast<uint32_t>(Load(rest_, kOpaqueAt, 4)),
                               body.substr(extra_bytes, key_bytes),
                               body.substr(extra_bytes + key_bytes)};
  rest_.remove_prefix(kHeaderBytes + body.size());
  return packet;
}

}  // namespace gossamer::bench
