// The distributions of YCSB: which record an operation uses.
//
// `Zipfian` is the generator of Gray et al. ("Quickly generating billion-record synthetic
// databases", SIGMOD'94). It draws rank r of n with probability 1 / (r + 1)^theta / zeta(n),
// approximately: the first two ranks exactly, the rest by a continuous formula. `ScrambledZipfian`
// spreads the popular ranks over all records with the hash and constants of YCSB. By default it
// draws from 10^10 ranks, whatever the number of records, so that the skew is that of YCSB (at
// theta 0.99 the most popular record gets 3.8 % of the accesses). `Latest` favours the record
// inserted last.
//
// Thread-safety: immutable, except `Latest`, which belongs to one thread.
// Cost: one `pow` for each draw.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "common/random.h"

namespace gossamer::bench {

// The sum of 1 / i^theta for i in [1, n]: its first terms exactly, the rest by the Euler-Maclaurin
// formula, whose error here is below 1e-12.
// Requires: 0 <= theta < 1.
// Cost: some thousand `pow` at most.
inline double Zeta(uint64_t n, double theta) {
  assert(0 <= theta && theta < 1);
  constexpr uint64_t kExactTerms = 2'000;
  const uint64_t exact = std::min(n, kExactTerms);
  double sum = 0;
  for (uint64_t i = exact; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
  if (n == exact) return sum;
  const auto from = static_cast<double>(exact);
  const auto to = static_cast<double>(n);
  const auto term = [theta](double x) { return std::pow(x, -theta); };
  const auto slope = [theta](double x) { return -theta * std::pow(x, -theta - 1); };
  sum += (std::pow(to, 1 - theta) - std::pow(from, 1 - theta)) / (1 - theta);
  sum += (term(to) - term(from)) / 2;
  sum += (slope(to) - slope(from)) / 12;
  return sum;
}

class Zipfian {
 public:
  // Requires: `items` > 0 and 0 < theta < 1.
  Zipfian(uint64_t items, double theta)
      : items_(items),
        zeta_(Zeta(items, theta)),
        alpha_(1 / (1 - theta)),
        second_rank_(1 + std::pow(0.5, theta)) {
    assert(items > 0 && 0 < theta && theta < 1);
    const double zeta_of_two = Zeta(2, theta);
    eta_ = items_ <= 2 ? 1
                       : (1 - std::pow(2 / static_cast<double>(items), 1 - theta)) /
                             (1 - zeta_of_two / zeta_);
  }

  // A rank in [0, items). Rank 0 is the most popular.
  uint64_t Draw(Random& random) const {
    const double unit = random.Unit();
    const double scaled = unit * zeta_;
    if (scaled < 1 || items_ == 1) return 0;
    if (scaled < second_rank_ || items_ == 2) return 1;
    const double rank = static_cast<double>(items_) * std::pow(eta_ * unit - eta_ + 1, alpha_);
    return std::min(static_cast<uint64_t>(rank), items_ - 1);
  }

  uint64_t items() const { return items_; }

 private:
  uint64_t items_;
  double zeta_;
  double alpha_;
  double second_rank_;  // of `unit * zeta`: rank 1 lies below it
  double eta_;
};

// FNV-1a over the eight bytes of a number: YCSB's scrambling of ranks.
constexpr uint64_t FnvHash(uint64_t value) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (value & 0xff)) * 0x100000001b3;
    value >>= 8;
  }
  return hash;
}

class ScrambledZipfian {
 public:
  static constexpr uint64_t kRanks = 10'000'000'000;

  explicit ScrambledZipfian(double theta, uint64_t ranks = kRanks) : ranks_(ranks, theta) {}

  // A record in [0, records). Requires: records > 0.
  uint64_t Draw(Random& random, uint64_t records) const {
    assert(records != 0);
    return FnvHash(ranks_.Draw(random)) % records;
  }

 private:
  Zipfian ranks_;
};

// Recency is distributed as ranks are. The distribution is refitted when the number of records has
// grown by 1/1024, so that a draw between inserts costs no more than others.
class Latest {
 public:
  explicit Latest(double theta) : theta_(theta), ages_(1, theta) {}

  // A record in [0, records); records - 1 is the most popular. Requires: records > 0.
  uint64_t Draw(Random& random, uint64_t records) {
    assert(records != 0);
    if (records < ages_.items() || records > ages_.items() + ages_.items() / 1024) {
      ages_ = Zipfian(records, theta_);
    }
    return records - 1 - ages_.Draw(random);
  }

 private:
  double theta_;
  Zipfian ages_;
};

}  // namespace gossamer::bench
