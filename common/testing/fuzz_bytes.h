// FuzzBytes: reads choices from the bytes that a fuzzer made up. At their end every choice is 0.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gossamer {

// The bytes as text.
inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return size == 0 ? std::string_view()
                   : std::string_view(reinterpret_cast<const char*>(data), size);
}

// The same for the same text, in every program and on every machine: std::hash does not promise
// that.
inline uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

class FuzzBytes {
 public:
  explicit FuzzBytes(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  // From 0 to `end` - 1. Requires: `end` is not 0.
  uint32_t Below(uint32_t end) {
    assert(end != 0);
    return Byte() % end;
  }
  // Little-endian, of its size in bytes.
  template <typename Number>
  Number Whole() {
    Number number = 0;
    const std::string_view bytes = Take(sizeof number);
    if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  // At most `size` bytes.
  std::string_view Take(size_t size) {
    const std::string_view taken = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace gossamer
