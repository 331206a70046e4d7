#include "compute/verify/history/data.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <ranges>

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

// The first number from `first` up to `last` that is `far_enough`, as all behind it are; `last` if
// none is.
template <typename Predicate>
uint32_t FirstOf(uint32_t first, uint32_t last, const Predicate& far_enough) {
  const auto numbers = std::views::iota(first, last);
  return first +
         static_cast<uint32_t>(std::ranges::partition_point(numbers, std::not_fn(far_enough)) -
                               numbers.begin());
}

}  // namespace

KeySpace::KeySpace(uint32_t hot_keys, uint32_t max_key_bytes, uint64_t seed)
    : hot_keys_(hot_keys), max_key_bytes_(max_key_bytes) {
  if (max_key_bytes > kLongestLoose) clusters_.emplace(size(), max_key_bytes, seed);
}

std::string KeySpace::Text(uint32_t key) const {
  if (clusters_) return clusters_->Text(key);
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
  if (clusters_) {
    const std::optional<uint32_t> first = clusters_->ClusterOf(text);
    if (!first || *first >= size()) return std::nullopt;
    key = FirstOf(*first, std::min(*first + KeyClusters::kClusterKeys, size()),
                  [this, text](uint32_t at) { return Text(at) >= text; });
  } else {
    for (size_t i = 0; i < kOrderBytes; ++i) key = key << 8 | static_cast<unsigned char>(text[i]);
  }
  if (key >= size() || Text(key) != text) return std::nullopt;
  return key;
}

KeySpace::Range KeySpace::WithPrefix(std::string_view prefix) const {
  const uint32_t first =
      FirstOf(0, size(), [this, prefix](uint32_t at) { return Text(at) >= prefix; });
  const uint32_t last =
      FirstOf(first, size(), [this, prefix](uint32_t at) { return !Text(at).starts_with(prefix); });
  return {first, last};
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
