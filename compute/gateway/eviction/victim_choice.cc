#include "compute/gateway/eviction/victim_choice.h"

#include <algorithm>
#include <optional>

namespace gossamer::gateway {
namespace {

// Coldness may be negative, ranks are not.
constexpr int kLeastColdness = -65'536;

uint64_t RankOf(int coldness) { return static_cast<uint64_t>(coldness - kLeastColdness); }
int ColdnessOf(uint64_t rank) { return static_cast<int>(rank) + kLeastColdness; }

bool HasExpiredBy(const EvictionCandidate& candidate, uint64_t now_ms) {
  return !candidate.expiry.is_never() && candidate.expiry.at_ms() <= now_ms;
}

}  // namespace

int RecentColdness::Add(size_t group, std::span<const int> coldness, double share) {
  std::vector<int> sorted;
  {
    const std::lock_guard guard(mutex_);
    std::vector<int>& recent = recent_[group];
    for (const int one : coldness) {
      if (recent.size() < kMost) {
        recent.push_back(one);
      } else {
        recent[next_[group]++ % kMost] = one;
      }
    }
    sorted = recent;
  }
  if (sorted.empty()) return std::numeric_limits<int>::max();
  const auto behind = static_cast<size_t>((1 - share) * static_cast<double>(sorted.size()));
  const auto place = sorted.begin() + static_cast<ptrdiff_t>(std::min(behind, sorted.size() - 1));
  std::ranges::nth_element(sorted, place);
  return *place;
}

void VictimChoice::Choose(std::span<EvictionCandidate> candidates) {
  std::vector<EvictionCandidate*> all;
  std::vector<EvictionCandidate*> fitting;
  for (EvictionCandidate& one : candidates) {
    one.goes = HasExpiredBy(one, circumstances_.now_ms);
    const bool may_go = !one.goes && (heat_ != nullptr || !one.expiry.is_never());
    if (!may_go) continue;
    all.push_back(&one);
    const bool fits =
        one.is_own && std::ranges::binary_search(circumstances_.wanted_blocks, one.block_bytes);
    if (fits) fitting.push_back(&one);
  }
  const std::vector<EvictionCandidate*>& chosen = fitting.empty() ? all : fitting;
  heat_ == nullptr ? ChooseSoonest(chosen) : ChooseColdest(chosen);
}

size_t VictimChoice::Take(std::vector<Ranked>& ranked, double share) {
  const double wanted = static_cast<double>(ranked.size()) * std::clamp(share, 0.0, 1.0);
  const double fraction = static_cast<double>(random_.Next() >> 11) * 0x1p-53;
  const size_t count = std::min(static_cast<size_t>(wanted + fraction), ranked.size());
  const auto end = ranked.begin() + static_cast<ptrdiff_t>(count);
  std::ranges::partial_sort(ranked, end, std::ranges::greater(), &Ranked::rank);
  for (auto one = ranked.begin(); one != end; ++one) one->candidate->goes = true;
  return count;
}

size_t VictimChoice::TakeColdest(size_t group, std::vector<Ranked>& ranked, double share) {
  std::vector<int> coldness;
  for (const Ranked& one : ranked) coldness.push_back(ColdnessOf(one.rank));
  const int least = recent_.Add(group, coldness, share);
  std::ranges::sort(ranked, std::ranges::greater(), &Ranked::rank);
  // Many may be as cold as each other: of those a share goes.
  const auto most = static_cast<size_t>(share * static_cast<double>(ranked.size())) + 1;
  const auto goes = [&](size_t place) {
    const int one = ColdnessOf(ranked[place].rank);
    return one > least || (one == least && place < most);
  };
  size_t count = 0;
  while (count < ranked.size() && goes(count)) ranked[count++].candidate->goes = true;
  return count;
}

void VictimChoice::ChooseSoonest(const std::vector<EvictionCandidate*>& candidates) {
  std::vector<Ranked> ranked;
  for (EvictionCandidate* one : candidates) ranked.push_back({one, ~one->expiry.at_ms()});
  const size_t taken = Take(ranked, kShare);
  if (taken != 0) latest_ms_ = ranked[taken - 1].candidate->expiry.at_ms();
}

void VictimChoice::ChooseColdest(const std::vector<EvictionCandidate*>& candidates) {
  const bool has_others = circumstances_.compute_servers > 1;
  std::vector<Ranked> unknown;  // or of others
  std::array<std::vector<Ranked>, KeyHeat::kGroups> known;
  for (EvictionCandidate* one : candidates) {
    const std::optional<int> coldness = heat_->ColdnessOf(one->key_hash);
    if (coldness && (one->is_own || !has_others)) {
      known[heat_->GroupOf(one->key_hash)].push_back({one, RankOf(*coldness)});
    } else {
      unknown.push_back({one, random_.Next()});
    }
  }
  const size_t all_known = candidates.size() - unknown.size();
  const bool spares_unknown =
      has_others && all_known * 2 * circumstances_.compute_servers >= candidates.size();
  double share = kShare;
  if (!unknown.empty()) {
    const double wanted = kShare * static_cast<double>(candidates.size());
    const double share_of_unknown =
        spares_unknown ? kShareOfOthers : wanted / static_cast<double>(unknown.size());
    for (size_t i = Take(unknown, share_of_unknown); i-- > 0;) {
      taken_unknown_.push_back(unknown[i].candidate->key_hash);
    }
    const double rest = std::max(wanted - static_cast<double>(unknown.size()), 0.0);
    if (!spares_unknown) share = all_known == 0 ? 0 : rest / static_cast<double>(all_known);
  }
  std::ranges::sort(taken_unknown_);
  for (size_t group = 0; group < KeyHeat::kGroups; ++group) {
    if (known[group].empty() || share == 0) continue;
    // All that fit are to be judged by each other: one of them must go.
    const size_t taken = circumstances_.wanted_blocks.empty()
                             ? TakeColdest(group, known[group], share)
                             : Take(known[group], share);
    if (taken != 0) coldest_[group] = ColdnessOf(known[group][taken - 1].rank);
  }
}

bool VictimChoice::StillGoes(uint64_t key_hash, Expiry expiry) {
  if (heat_ == nullptr) return !expiry.is_never() && expiry.at_ms() <= latest_ms_;
  const std::optional<int> coldness = heat_->ColdnessOf(key_hash);
  if (!coldness || std::ranges::binary_search(taken_unknown_, key_hash)) return true;
  return *coldness >= coldest_[heat_->GroupOf(key_hash)];
}

}  // namespace gossamer::gateway
