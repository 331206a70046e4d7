#include "compute/verify/history/key_clusters.h"

#include <algorithm>
#include <cassert>

#include "compute/verify/history/same_hash.h"

namespace gossamer::history {
namespace {

constexpr uint32_t kNumberBytes = 3;               // of a region
constexpr uint32_t kHeadBytes = kNumberBytes + 1;  // the numbers of region and cluster
constexpr uint32_t kLast = KeyClusters::kClusterKeys - 1;
constexpr uint32_t kWordBytes = 8;
// Up to a multiple of 8, a word of the key's own, and the word that makes the hash.
constexpr uint32_t kLongestEnd = 3 * kWordBytes - 1;
static_assert(kLast + 1 <= kLongestEnd);

enum Kind : uint8_t { kLastByte, kChain, kStairs, kTails, kOneHash };
constexpr uint64_t kKinds = 5;

constexpr uint32_t LongestOfCertainEnds(uint64_t kind) {
  if (kind == kChain) return kLast;
  if (kind == kOneHash) return kLongestEnd;
  return kind == kStairs ? kLast + 1 : 1;
}

// From 0x00 to 0xff.
char Spread(uint32_t i) { return static_cast<char>(i * (255 / kLast)); }

// The extremes often.
uint32_t DrawLength(Random& draws, uint32_t most) {
  switch (draws.Below(3)) {
    case 0: return 0;
    case 1: return most;
    default: return static_cast<uint32_t>(draws.Below(most + 1));
  }
}

// Bytes of one kind: all 0x00, all 0xff, or any, the extremes often.
void AppendBytes(uint32_t length, Random& draws, std::string& text) {
  const uint64_t kind = draws.Below(4);
  if (kind == 0 || kind == 1) {
    text.append(length, kind == 0 ? '\0' : '\xff');
    return;
  }
  for (uint64_t word = 0; length != 0; --length, word >>= 8) {
    if (word == 0) word = draws.Next();
    const auto byte = static_cast<uint8_t>(word);
    text.push_back(byte < 0x20 ? '\0' : byte < 0x40 ? '\xff' : static_cast<char>(byte));
  }
}

}  // namespace

KeyClusters::KeyClusters(uint32_t keys, uint32_t max_key_bytes, uint64_t seed)
    : seed_(seed), max_key_bytes_(max_key_bytes) {
  assert(max_key_bytes >= 33 && keys <= uint32_t{1} << 20);
  constexpr uint64_t kOwnStream = ~uint64_t{0};
  Random draws(seed_, kOwnStream);
  region_clusters_ = 1u << 2 * draws.Below(4);
  const uint32_t regions = keys / (region_clusters_ * kClusterKeys) + 1;
  stride_ = (1u << 8 * kNumberBytes) / (regions + 1);
}

uint32_t KeyClusters::RegionBytes(Random& draws) const {
  return DrawLength(draws, max_key_bytes_ - kHeadBytes - kLongestEnd);
}

uint8_t KeyClusters::ClusterNumber(uint32_t cluster) const {
  if (region_clusters_ == 1) return 0;
  return static_cast<uint8_t>(cluster * 255 / (region_clusters_ - 1));
}

std::string KeyClusters::Text(uint32_t key) const {
  const uint32_t cluster = key / kClusterKeys;
  const uint32_t region = cluster / region_clusters_;
  std::string text;
  text.reserve(max_key_bytes_);
  const uint32_t number = region * stride_;
  for (uint32_t i = kNumberBytes; i-- != 0;) text.push_back(static_cast<char>(number >> 8 * i));
  Random of_region(seed_, 2 * uint64_t{region});
  AppendBytes(RegionBytes(of_region), of_region, text);
  text.push_back(static_cast<char>(ClusterNumber(cluster % region_clusters_)));
  Random of_cluster(seed_, 2 * uint64_t{cluster} + 1);
  const uint64_t kind = of_cluster.Below(kKinds);
  const uint32_t most =
      max_key_bytes_ - static_cast<uint32_t>(text.size()) - LongestOfCertainEnds(kind);
  const uint32_t length = kind == kOneHash ? most : DrawLength(of_cluster, most);
  AppendBytes(length, of_cluster, text);
  AppendEnd(key, kind, of_cluster, text);
  return text;
}

void KeyClusters::AppendEnd(uint32_t key, uint64_t kind, Random& draws, std::string& text) const {
  constexpr char kFillers[] = {'\0', 'm', '\xfe'};
  const char filler = kFillers[draws.Below(std::size(kFillers))];
  const uint32_t i = key % kClusterKeys;
  switch (kind) {
    case kChain: text.append(i, filler == '\xfe' ? '\xff' : filler); break;
    case kStairs:
      text.append(kLast - i, filler);
      text.push_back('\xff');
      break;
    case kTails: {
      text.push_back(Spread(i));
      Random of_key(SplitMix64::Mix(seed_), key);
      const auto most = max_key_bytes_ - static_cast<uint32_t>(text.size());
      const uint32_t length = DrawLength(of_key, most);
      AppendBytes(length, of_key, text);
      break;
    }
    case kOneHash: {
      text.resize((text.size() + kWordBytes - 1) / kWordBytes * kWordBytes, filler);
      const std::string first = text + std::string(kWordBytes, '\0');
      text.push_back(Spread(i));
      text.append(kWordBytes - 1, filler);
      text = WithHashOf(first, text);
      break;
    }
    default: text.push_back(Spread(i)); break;
  }
}

std::optional<uint32_t> KeyClusters::ClusterOf(std::string_view text) const {
  if (text.size() < kHeadBytes) return std::nullopt;
  const auto byte = [&text](size_t i) { return uint32_t{static_cast<uint8_t>(text[i])}; };
  uint32_t number = 0;
  for (uint32_t i = 0; i < kNumberBytes; ++i) number = number << 8 | byte(i);
  if (number % stride_ != 0) return std::nullopt;
  const uint32_t region = number / stride_;
  Random of_region(seed_, 2 * uint64_t{region});
  const size_t at = kNumberBytes + RegionBytes(of_region);
  if (text.size() <= at) return std::nullopt;
  const uint32_t cluster = (byte(at) * (region_clusters_ - 1) + 254) / 255;
  if (ClusterNumber(cluster) != byte(at)) return std::nullopt;
  return (region * region_clusters_ + cluster) * kClusterKeys;
}

}  // namespace gossamer::history
