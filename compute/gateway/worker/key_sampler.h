// KeySampler: draws a random key of the store, or of those with a prefix, each with about equal
// probability, for RANDOMKEY and SPOP.
//
// A descent halves the range of keys at the position in the middle of its first and its last key,
// goes on with one half by the toss of a coin, and ends at a range of few keys, of which it draws
// one. Halves of positions are not halves of keys: so a descent that came to n keys in d steps has
// the weight n * 2^d. That is an estimate of the number of keys, and right on average (Knuth '75,
// Estimating the Efficiency of Backtrack Programs). A descent is accepted in proportion to its
// weight, else another one begins. Of kMostDescents refused ones, one is drawn by its weight. Keys
// that only a descent of very many halvings comes to, such as the least powers of two, are drawn
// less often.
//
// Thread-safety: none.
// Cost: a scan of kFew keys for each halving: some log2(keys / kFew) for a descent. Two to three
// descents for a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compute/gateway/worker/walk_turns.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class KeySampler {
 public:
  // Of the keys of `range`, of which only the bounds count, always the same ones. nullopt if no key
  // was found. Ends early if `turns` says so. Errors: those of a scan.
  Task<Result<std::optional<std::string>>> Draw(Session& session, WalkTurns& turns,
                                                ScanOptions range);

 private:
  // Of so few keys, one scan reads all.
  static constexpr size_t kFew = 16;
  static constexpr int kMostDescents = 16;
  // A weight of so many times the average is always accepted.
  static constexpr double kCap = 2;
  // Weight of the last descent in the average, which follows a store that grows or shrinks.
  static constexpr double kNews = 1.0 / 16;

  // Keys from its first one to `to`.
  struct Range {
    std::string first, last;
    std::optional<std::string> to;
  };
  struct Descent {
    std::string key;
    double weight = 0;  // 0: others have deleted the keys meanwhile
  };

  // Of a scan that tells whether a range has more than kFew keys.
  static ScanOptions FewKeys(const ScanOptions& range);
  static Task<Result<std::vector<std::string>>> Read(Session& session, WalkTurns& turns,
                                                     const ScanOptions& options);
  Task<Result<Descent>> Descend(Session& session, WalkTurns& turns, const Range& all,
                                const ScanOptions& bounds);
  std::string& OneOf(std::vector<std::string>& keys) { return keys[random_() % keys.size()]; }
  double Fraction() { return std::uniform_real_distribution(0.0, 1.0)(random_); }

  std::mt19937_64 random_{std::random_device{}()};
  double average_weight_ = 0;
};

}  // namespace gossamer::gateway
