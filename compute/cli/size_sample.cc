#include "compute/cli/size_sample.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/random.h"
#include "gossamer/store.h"

namespace gossamer::cli {
namespace {

constexpr uint32_t kNumberBytes = 8;
constexpr uint32_t kMostDigits = 18;
constexpr size_t kBatch = 1024;
constexpr uint64_t kSeed = 1;

// The bytes of a key by which it differs from the others, as a number in the order of the keys.
using KeyNumber = uint64_t;

// Of random keys: those that have the least numbers of all.
std::vector<KeyNumber> RandomNumbers(const RecordShape& shape, uint64_t records,
                                     uint64_t all_records, Random& random) {
  const auto bits = static_cast<int>(8 * std::min(shape.key_bytes, kNumberBytes));
  const double part = static_cast<double>(records) / static_cast<double>(all_records);
  const double range = std::ldexp(part, bits);
  const auto end = std::max(records, static_cast<uint64_t>(std::min(range, std::ldexp(1.0, 63))));
  std::vector<KeyNumber> numbers;
  if (end / 4 < records) {
    numbers.resize(end);
    std::iota(numbers.begin(), numbers.end(), 0);
    Shuffle(std::span(numbers), random);
    numbers.resize(records);
    return numbers;
  }
  std::unordered_set<KeyNumber> seen;
  while (numbers.size() < records) {
    const KeyNumber number = random.Below(end);
    if (seen.insert(number).second) numbers.push_back(number);
  }
  return numbers;
}

std::vector<KeyNumber> NumbersOf(const RecordShape& shape, uint64_t records, uint64_t all_records) {
  Random random(kSeed);
  std::vector<KeyNumber> numbers;
  if (shape.consecutive_keys) {
    numbers.resize(records);
    std::iota(numbers.begin(), numbers.end(), 0);
    Shuffle(std::span(numbers), random);
  } else {
    numbers = RandomNumbers(shape, records, all_records, random);
  }
  if (shape.sorted_fill) std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void WriteKey(const RecordShape& shape, KeyNumber number, std::string& key) {
  key.assign(shape.key_bytes, 'k');
  const uint64_t base = shape.consecutive_keys ? 10 : 256;
  const char zero = shape.consecutive_keys ? '0' : '\0';
  const uint32_t bytes =
      std::min(shape.key_bytes, shape.consecutive_keys ? kMostDigits : kNumberBytes);
  const uint32_t begin = shape.consecutive_keys ? shape.key_bytes - bytes : 0;
  for (uint32_t i = begin + bytes; i-- > begin; number /= base) {
    key[i] = static_cast<char>(zero + static_cast<char>(number % base));
  }
}

Status PutAll(Session& session, std::span<const KeyValueView> pairs, const RecordShape& shape) {
  if (shape.sorted_fill) return session.LoadSorted(pairs, *shape.sorted_fill).status;
  std::vector<Status> results(pairs.size(), Status(outcome::success()));
  session.MultiPut(pairs, results);
  const auto failed =
      std::find_if(results.begin(), results.end(), [](const Status& put) { return !put; });
  return failed == results.end() ? Status(outcome::success()) : *failed;
}

Status PutSample(Session& session, const RecordShape& shape, uint64_t records,
                 uint64_t all_records) {
  const std::vector<KeyNumber> numbers = NumbersOf(shape, records, all_records);
  const std::string value(shape.value_bytes, 'v');
  std::vector<std::string> keys(kBatch);
  std::vector<KeyValueView> pairs;
  for (size_t done = 0; done < numbers.size(); done += pairs.size()) {
    pairs.clear();
    for (size_t i = 0; i < std::min(kBatch, numbers.size() - done); ++i) {
      WriteKey(shape, numbers[done + i], keys[i]);
      pairs.push_back({keys[i], value});
    }
    BOOST_OUTCOME_TRYV(PutAll(session, pairs, shape));
  }
  session.WaitAll();
  return outcome::success();
}

// More than the sample takes, whatever its parameters. Memory that is not used is not touched.
uint64_t MemoryFor(const RecordShape& shape, uint64_t records) {
  constexpr uint64_t kLeastBytes = uint64_t{32} << 20;
  return kLeastBytes + records * (1024 + uint64_t{2} * shape.value_bytes);
}

}  // namespace

uint64_t KeysOf(const RecordShape& shape) {
  if (!shape.consecutive_keys) return uint64_t{1} << std::min<uint32_t>(8 * shape.key_bytes, 63);
  uint64_t keys = 1;
  for (uint32_t digit = 0; digit < std::min(shape.key_bytes, kMostDigits); ++digit) keys *= 10;
  return keys;
}

Result<RecordBytes> MeasureRecords(const StoreParameters& parameters, const RecordShape& shape,
                                   uint64_t records, uint64_t all_records) {
  LocalOptions options;
  options.memory_bytes = MemoryFor(shape, records);
  options.parameters = parameters;
  BOOST_OUTCOME_TRY(store, Store::OpenLocal(options));
  BOOST_OUTCOME_TRY(session, store->NewSession());
  BOOST_OUTCOME_TRYV(PutSample(*session, shape, records, all_records));
  BOOST_OUTCOME_TRY(report, store->Check([](uint64_t) {}));
  if (report.problem_count != 0) {
    return MakeError(Code::kCorruption,
                     "the sample's store is damaged: " + report.problems.front());
  }
  const uint64_t leaf_bytes = report.leaves * parameters.node_bytes;
  const uint64_t internal_bytes = report.internal_nodes * parameters.node_bytes;
  uint64_t block_bytes = 0;
  if (report.blocks != 0) {
    for (const auto& [server, use] : report.memory) block_bytes += use.live_bytes;
    // The first leaf of a store is not in the heap, whose live bytes these are.
    block_bytes -= leaf_bytes + internal_bytes - parameters.node_bytes;
  }
  const auto of_each = [&](uint64_t all) {
    return static_cast<double>(all) / static_cast<double>(records);
  };
  RecordBytes bytes;
  bytes.leaves = of_each(leaf_bytes);
  bytes.blocks = of_each(block_bytes);
  bytes.internal_nodes = of_each(internal_bytes);
  bytes.client_cache = of_each(session->counters().cache.bytes);
  return bytes;
}

}  // namespace gossamer::cli
