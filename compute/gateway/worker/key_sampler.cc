#include "compute/gateway/worker/key_sampler.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <string_view>
#include <utility>

#include "proto/key.h"

namespace gossamer::gateway {
namespace {

// The first 8 bytes as a number.
uint64_t BigEndian(std::string_view bytes) { return __builtin_bswap64(FirstBytes(bytes)); }

// A position above `first` and not above `last`, near the middle by the 8 bytes that tell these
// apart. Of the positions there a short one, as it has to be no longer than keys may be. Requires:
// first < last.
std::string Middle(const std::string& first, const std::string& last) {
  assert(first < last);
  const auto differing = std::ranges::mismatch(first, last).in1;
  const auto common = static_cast<size_t>(differing - first.begin());
  const uint64_t low = BigEndian(std::string_view(first).substr(common));
  const uint64_t high = BigEndian(std::string_view(last).substr(common));
  if (low == high) return last;
  const uint64_t middle = low + (high - low) / 2 + 1;
  std::string position = last.substr(0, common);
  for (int shift = 56; shift >= 0; shift -= 8) {
    position += static_cast<char>(middle >> shift);
    if (middle >> shift << shift > low) break;
  }
  return position.size() > last.size() ? last : position;
}

}  // namespace

ScanOptions KeySampler::FewKeys(const ScanOptions& range) {
  ScanOptions options;
  options.from = range.from;
  options.to = range.to;
  options.prefix = range.prefix;
  options.keys_only = true;
  options.limit = kFew + 1;
  return options;
}

Task<Result<std::vector<std::string>>> KeySampler::Read(Session& session, WalkTurns& turns,
                                                        const ScanOptions& options) {
  std::vector<std::string> keys;
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  WalkTurns::Slice slice(turns);
  while (co_await cursor->AsyncNext()) {
    if (slice.IsOver()) co_await slice.Next();
    keys.emplace_back(cursor->key());
  }
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  co_return keys;
}

Task<Result<KeySampler::Descent>> KeySampler::Descend(Session& session, WalkTurns& turns,
                                                      const Range& all, const ScanOptions& bounds) {
  Range range = all;
  double weight = 1;
  while (range.first < range.last && !turns.must_end()) {
    std::string middle = Middle(range.first, range.last);
    ScanOptions half = FewKeys(bounds);
    half.reverse = random_() % 2 != 0;
    weight *= 2;
    half.from = half.reverse ? range.first : middle;
    if (half.reverse) range.to = std::move(middle);
    if (range.to) half.to = range.to;
    BOOST_OUTCOME_CO_TRY(keys, co_await Read(session, turns, half));
    if (keys.empty()) co_return Descent();
    if (keys.size() <= kFew) {
      weight *= static_cast<double>(keys.size());
      co_return Descent{std::move(OneOf(keys)), weight};
    }
    (half.reverse ? range.last : range.first) = std::move(keys.front());
  }
  co_return Descent();
}

Task<Result<std::optional<std::string>>> KeySampler::Draw(Session& session, WalkTurns& turns,
                                                          ScanOptions range) {
  using Drawn = std::optional<std::string>;
  ScanOptions options = FewKeys(range);
  BOOST_OUTCOME_CO_TRY(keys, co_await Read(session, turns, options));
  if (keys.empty()) co_return Drawn();
  if (keys.size() <= kFew) co_return Drawn(std::move(OneOf(keys)));
  Range all;
  all.first = keys.front();
  options.reverse = true;
  options.limit = 1;
  BOOST_OUTCOME_CO_TRY(last, co_await Read(session, turns, options));
  all.last = last.empty() ? all.first : last.front();
  Drawn drawn = all.first;
  double weights = 0;
  for (int i = 0; i < kMostDescents && !turns.must_end(); ++i) {
    BOOST_OUTCOME_CO_TRY(descent, co_await Descend(session, turns, all, range));
    const double weight = descent.weight;
    if (weight == 0) continue;
    const bool is_first = average_weight_ == 0;
    average_weight_ += (weight - average_weight_) * (is_first ? 1 : kNews);
    weights += weight;
    const bool is_accepted = Fraction() * kCap * average_weight_ < weight;
    if (is_accepted || Fraction() * weights < weight) drawn = std::move(descent.key);
    if (is_accepted) break;
  }
  co_return drawn;
}

}  // namespace gossamer::gateway
