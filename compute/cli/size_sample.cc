#include "compute/cli/size_sample.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "gossamer/store.h"

namespace gossamer::cli {
namespace {

constexpr uint32_t kNumberBytes = 8;
constexpr size_t kBatch = 1024;
constexpr uint64_t kSeed = 1;

// The bytes of a key by which it differs from the others, as a number in the order of the keys.
using KeyNumber = uint64_t;

std::vector<KeyNumber> NumbersOf(const RecordShape& shape, uint64_t records) {
  std::vector<KeyNumber> numbers(records);
  std::iota(numbers.begin(), numbers.end(), 0);
  if (shape.random_keys) {
    // An odd factor maps no two numbers of so many bits to one.
    constexpr uint64_t kOddFactor = 0x9e3779b97f4a7c15;
    const uint32_t unused_bits = 8 * (kNumberBytes - std::min(shape.key_bytes, kNumberBytes));
    for (KeyNumber& number : numbers) number = number * kOddFactor << unused_bits >> unused_bits;
  }
  if (shape.sorted_fill) {
    std::sort(numbers.begin(), numbers.end());
  } else {
    Random random(kSeed);
    for (size_t i = numbers.size(); i > 1; --i) {
      std::swap(numbers[i - 1], numbers[random.Below(i)]);
    }
  }
  return numbers;
}

void WriteKey(const RecordShape& shape, KeyNumber number, std::string& key) {
  key.assign(shape.key_bytes, 'k');
  const uint32_t bytes = std::min(shape.key_bytes, kNumberBytes);
  const uint32_t begin = shape.random_keys ? 0 : shape.key_bytes - bytes;
  for (uint32_t i = begin + bytes; i-- > begin; number >>= 8) key[i] = static_cast<char>(number);
}

Status PutAll(Session& session, std::span<const KeyValueView> pairs, const RecordShape& shape) {
  if (shape.sorted_fill) return session.LoadSorted(pairs, *shape.sorted_fill).status;
  std::vector<Status> results(pairs.size(), Status(outcome::success()));
  session.MultiPut(pairs, results);
  const auto failed =
      std::find_if(results.begin(), results.end(), [](const Status& put) { return !put; });
  return failed == results.end() ? Status(outcome::success()) : *failed;
}

Status PutSample(Session& session, const RecordShape& shape, uint64_t records) {
  const std::vector<KeyNumber> numbers = NumbersOf(shape, records);
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

uint64_t KeysOf(uint32_t key_bytes) { return uint64_t{1} << std::min<uint32_t>(8 * key_bytes, 63); }

Result<RecordBytes> MeasureRecords(const StoreParameters& parameters, const RecordShape& shape,
                                   uint64_t records) {
  LocalOptions options;
  options.memory_bytes = MemoryFor(shape, records);
  options.parameters = parameters;
  BOOST_OUTCOME_TRY(store, Store::OpenLocal(options));
  BOOST_OUTCOME_TRY(session, store->NewSession());
  BOOST_OUTCOME_TRYV(PutSample(*session, shape, records));
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
