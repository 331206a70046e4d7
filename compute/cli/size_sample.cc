#include "compute/cli/size_sample.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>

#include "common/random.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/cli/line_reader.h"
#include "gossamer/store.h"

namespace gossamer::cli {
namespace {

constexpr uint32_t kNumberBytes = 8;
constexpr uint32_t kMostDigits = 18;
constexpr size_t kBatch = 1024;
constexpr uint64_t kSeed = 1;
// Of a file: keys that tell how its keys are spread, and ranges that the sample consists of. Each
// range has enough leaves that those at its ends do not matter, and there are enough ranges that
// they are like the whole.
constexpr size_t kPivots = 65'536;
constexpr size_t kMostRanges = 128;
constexpr uint64_t kRecordsOfRange = 1500;

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

std::string KeyOf(const RecordShape& shape, KeyNumber number) {
  std::string key(shape.key_bytes, 'k');
  const uint64_t base = shape.consecutive_keys ? 10 : 256;
  const char zero = shape.consecutive_keys ? '0' : '\0';
  const uint32_t bytes =
      std::min(shape.key_bytes, shape.consecutive_keys ? kMostDigits : kNumberBytes);
  const uint32_t begin = shape.consecutive_keys ? shape.key_bytes - bytes : 0;
  for (uint32_t i = begin + bytes; i-- > begin; number /= base) {
    key[i] = static_cast<char>(zero + static_cast<char>(number % base));
  }
  return key;
}

void Arrange(std::vector<SampleRecord>& records, Arrival arrival) {
  Random random(kSeed);
  switch (arrival) {
    case Arrival::kRandom: Shuffle(std::span(records), random); break;
    case Arrival::kAscending:
    case Arrival::kSorted: std::ranges::stable_sort(records, {}, &SampleRecord::key); break;
    case Arrival::kDescending:
      std::ranges::stable_sort(records, std::ranges::greater(), &SampleRecord::key);
      break;
    case Arrival::kFile: break;
  }
}

// Calls `each` with the key and the length of the value of each line.
Status ReadRecords(const std::string& name, LineForm form, uint32_t max_key_bytes,
                   const std::function<void(std::string_view key, size_t value_bytes)>& each) {
  BOOST_OUTCOME_TRY(file, InputFile::Open(name));
  if (file.size() == 0) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--keys={}: give a file that has lines; it is read twice, so it "
                                 "cannot be a pipe",
                                 name));
  }
  StoreParameters parameters;
  parameters.max_key_bytes = max_key_bytes;
  LineReader reader(file.fd(), MaxLineBytes(parameters));
  Progress progress({.verb = "reading", .unit = "lines"});
  std::string bytes;
  const auto at_line = [&](const std::string& problem) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("{} line {}: {}", name, reader.number(), problem));
  };
  while (true) {
    switch (reader.Advance()) {
      case LineReader::Next::kLine: break;
      case LineReader::Next::kStopped:
      case LineReader::Next::kEnd: return Ok();
      case LineReader::Next::kTooLong: return at_line("longer than any key and value");
      case LineReader::Next::kFailed: return at_line("reading failed: " + reader.error());
    }
    bytes.clear();
    const Result<LoadBatch::Line> line = DecodeLine(reader.line(), form, parameters, bytes);
    if (!line) return at_line(line.error().message);
    each(std::string_view(bytes).substr(0, line.value().key_bytes), line.value().value_bytes);
    if (reader.number() % kBatch == 0) progress.Update(reader.number());
  }
}

// Ranges of keys, each with both of its ends.
class KeyRanges {
 public:
  // `pivots`: keys of which there is about one in each range of as many keys. The ranges hold
  // `part` of all keys, which are `records`.
  KeyRanges(std::vector<std::string> pivots, double part, uint64_t records) {
    std::ranges::sort(pivots);
    const size_t ranges = std::clamp<size_t>(records / kRecordsOfRange, 1, kMostRanges);
    for (size_t i = 0; i < ranges; ++i) {
      const size_t begin = i * pivots.size() / ranges;
      const size_t end = (i + 1) * pivots.size() / ranges;
      const auto steps = static_cast<size_t>(std::ceil(part * static_cast<double>(end - begin)));
      const size_t last = std::min(begin + steps, pivots.size() - 1);
      if (!ends_.empty() && ends_.back() >= pivots[begin]) continue;
      begins_.push_back(pivots[begin]);
      ends_.push_back(pivots[last]);
    }
  }

  bool Has(std::string_view key) const {
    const auto behind = std::ranges::upper_bound(begins_, key) - begins_.begin();
    return behind != 0 && key <= ends_[static_cast<size_t>(behind - 1)];
  }

 private:
  std::vector<std::string> begins_;
  std::vector<std::string> ends_;
};

Status PutSorted(Session& session, const std::vector<SampleRecord>& records, std::string_view value,
                 double fill) {
  std::vector<KeyValueView> pairs;
  for (size_t done = 0; done < records.size(); done += pairs.size()) {
    pairs.clear();
    for (size_t i = done; i < std::min(done + kBatch, records.size()); ++i) {
      pairs.push_back({records[i].key, value.substr(0, records[i].value_bytes)});
    }
    BOOST_OUTCOME_TRYV(session.LoadSorted(pairs, fill).status);
  }
  return outcome::success();
}

Status PutAll(Session& session, const std::vector<SampleRecord>& records,
              std::optional<double> sorted_fill) {
  const size_t longest = std::ranges::max(records, {}, &SampleRecord::value_bytes).value_bytes;
  const std::string value(longest, 'v');
  if (sorted_fill) return PutSorted(session, records, value, *sorted_fill);
  for (const SampleRecord& record : records) {
    BOOST_OUTCOME_TRYV(
        session.Put(record.key, std::string_view(value).substr(0, record.value_bytes)));
  }
  return outcome::success();
}

// More than the sample takes, whatever its parameters. Memory that is not used is not touched.
uint64_t MemoryFor(const std::vector<SampleRecord>& records) {
  uint64_t bytes = uint64_t{32} << 20;
  for (const SampleRecord& record : records) bytes += 1024 + 2 * uint64_t{record.value_bytes};
  return bytes;
}

}  // namespace

uint64_t KeysOf(const RecordShape& shape) {
  if (!shape.consecutive_keys) return uint64_t{1} << std::min<uint32_t>(8 * shape.key_bytes, 63);
  uint64_t keys = 1;
  for (uint32_t digit = 0; digit < std::min(shape.key_bytes, kMostDigits); ++digit) keys *= 10;
  return keys;
}

Sample SampleOf(const RecordShape& shape, uint64_t records, uint64_t all_records, Arrival arrival) {
  assert(records != 0 && records <= all_records && arrival != Arrival::kFile);
  Random random(kSeed);
  std::vector<KeyNumber> numbers(records);
  if (shape.consecutive_keys) {
    std::iota(numbers.begin(), numbers.end(), 0);
  } else {
    numbers = RandomNumbers(shape, records, all_records, random);
  }
  Sample sample{{}, all_records, shape.value_bytes};
  for (const KeyNumber number : numbers) {
    sample.records.push_back({KeyOf(shape, number), shape.value_bytes});
  }
  Arrange(sample.records, arrival);
  return sample;
}

Result<Sample> SampleOfFile(const std::string& name, LineForm form, uint32_t max_key_bytes,
                            std::optional<uint32_t> value_bytes, uint64_t records,
                            Arrival arrival) {
  Sample sample;
  std::vector<std::string> pivots;
  Random random(kSeed);
  const auto counted = [&](size_t length) -> size_t { return value_bytes ? *value_bytes : length; };
  BOOST_OUTCOME_TRYV(
      ReadRecords(name, form, max_key_bytes, [&](std::string_view key, size_t length) {
        sample.longest_value = std::max(sample.longest_value, counted(length));
        // Each key is among the pivots with the same probability (Vitter '85, algorithm R).
        const uint64_t number = sample.all_records++;
        if (pivots.size() < kPivots) {
          pivots.emplace_back(key);
        } else if (const uint64_t at = random.Below(number + 1); at < kPivots) {
          pivots[at] = key;
        }
      }));
  const bool takes_all = sample.all_records <= records;
  const double part = static_cast<double>(records) / static_cast<double>(sample.all_records);
  const KeyRanges ranges(std::move(pivots), std::min(part, 1.0), records);
  // Some keys may be there very often.
  const uint64_t most = 2 * records;
  BOOST_OUTCOME_TRYV(
      ReadRecords(name, form, max_key_bytes, [&](std::string_view key, size_t length) {
        if (sample.records.size() >= most || !(takes_all || ranges.Has(key))) return;
        sample.records.push_back({std::string(key), counted(length)});
      }));
  Arrange(sample.records, arrival);
  return sample;
}

Result<RecordBytes> MeasureRecords(const StoreParameters& parameters,
                                   const std::vector<SampleRecord>& records,
                                   std::optional<double> sorted_fill) {
  assert(!records.empty());
  LocalOptions options;
  options.memory_bytes = MemoryFor(records);
  options.parameters = parameters;
  BOOST_OUTCOME_TRY(store, Store::OpenLocal(options));
  BOOST_OUTCOME_TRY(session, store->NewSession());
  BOOST_OUTCOME_TRYV(PutAll(*session, records, sorted_fill));
  session->WaitAll();
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
    return static_cast<double>(all) / static_cast<double>(records.size());
  };
  RecordBytes bytes;
  bytes.leaves = of_each(leaf_bytes);
  bytes.blocks = of_each(block_bytes);
  bytes.internal_nodes = of_each(internal_bytes);
  bytes.client_cache = of_each(session->counters().cache.bytes);
  bytes.with_block = of_each(report.blocks);
  return bytes;
}

}  // namespace gossamer::cli
