#include "compute/verify/history/data.h"

#include <cstring>

#include "common/random.h"

namespace gossamer::history {
namespace {

constexpr size_t kOrderBytes = 4;

// Appends `length` bytes that follow from `seed`.
void AppendBytes(uint64_t seed, size_t length, std::string& to) {
  SplitMix64 source(seed);
  while (length != 0) {
    const uint64_t word = source.Next();
    const size_t now = std::min(length, sizeof word);
    char bytes[sizeof word];
    std::memcpy(bytes, &word, sizeof word);
    to.append(bytes, now);
    length -= now;
  }
}

}  // namespace

std::string KeySpace::Text(uint32_t key) const {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(key >> shift));
  // If max_key_bytes is 8 or less, all keys have that length. Otherwise lengths vary.
  constexpr size_t kShortKey = 8;
  size_t more = max_key_bytes_ - kOrderBytes;
  if (max_key_bytes_ > kShortKey) more = SplitMix64::Mix(key + 1) % (more + 1);
  AppendBytes(key, more, text);
  return text;
}

std::optional<uint32_t> KeySpace::Number(std::string_view text) const {
  if (text.size() < kOrderBytes) return std::nullopt;
  uint32_t key = 0;
  for (size_t i = 0; i < kOrderBytes; ++i) key = key << 8 | static_cast<unsigned char>(text[i]);
  if (key >= size() || Text(key) != text) return std::nullopt;
  return key;
}

size_t ValueSpace::Length(ValueId id) const {
  SplitMix64 source(id);
  const uint64_t dice = source.Next();
  const uint64_t size = source.Next();
  if (dice % 100 < long_percent_) return 17 + size % (longest_ - 17 + 1);
  return dice / 100 % 4 == 0 ? 9 + size % 8 : 8;
}

std::string ValueSpace::Bytes(ValueId id) const {
  std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
  AppendBytes(id, Length(id) - sizeof id, bytes);
  return bytes;
}

std::optional<ValueId> ValueSpace::Id(std::string_view bytes) const {
  ValueId id = 0;
  if (bytes.size() < sizeof id) return std::nullopt;
  std::memcpy(&id, bytes.data(), sizeof id);
  if (id == kAbsent || Bytes(id) != bytes) return std::nullopt;
  return id;
}

}  // namespace gossamer::history
