#include "compute/cli/size.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/checked_parameters.h"
#include "common/embedded_memory.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "proto/store_record.h"

namespace gossamer::cli {
namespace {

constexpr uint32_t kDefaultNodeBytes = StoreParameters().node_bytes;
constexpr uint32_t kDefaultInlineBytes = StoreParameters().inline_value_bytes;
// Smaller ones make a deep tree of many internal nodes, larger ones are emptier.
constexpr uint32_t kComparedNodeBytes[] = {512, 1024, 2048};
// Of all choices together.
constexpr uint64_t kMostSampleRecords = 90'000;
constexpr uint64_t kMostSampleBytes = uint64_t{48} << 20;
// Of each choice, from a file: its keys are of many kinds.
constexpr uint64_t kMostFileRecords = 240'000;

Error Bad(std::string sentence) { return MakeError(Code::kInvalidArgument, std::move(sentence)); }

Result<Arrival> ArrivalOf(const SizeOptions& options) {
  if (options.sorted && !options.order.empty() && options.order != "sorted") {
    return Bad("--sorted is --order=sorted, and --order=" + options.order +
               " is given, too: give one of them");
  }
  if (options.sorted) return Arrival::kSorted;
  if (options.order.empty()) return Arrival::kRandom;
  const auto* const found = std::ranges::find(kArrivalNames, options.order);
  if (found == kArrivalNames.end()) {
    return Bad("--order=" + options.order +
               " is none; give random, ascending, descending, sorted, or file");
  }
  const auto arrival = static_cast<Arrival>(found - kArrivalNames.begin());
  if (arrival != Arrival::kFile || !options.keys_file.empty()) return arrival;
  return Bad("--order=file is that of --keys=FILE: give a file");
}

Status CheckDescription(const SizeOptions& options) {
  if (options.records == 0) {
    return Bad(
        "--records=N is missing: how many records the store is to hold; or give --keys=FILE, "
        "which has them");
  }
  if (!options.key_bytes) {
    return Bad(
        "--key_bytes=K is missing: the length of a key; or give --keys=FILE, which has keys");
  }
  if (!options.value_bytes) return Bad("--value_bytes=V is missing: the length of a value");
  const uint32_t key_bytes = *options.key_bytes;
  if (key_bytes < 1 || key_bytes > kMaxKeyBytes) {
    return Bad(fmt::format("--key_bytes={}: give 1 to {}", key_bytes, kMaxKeyBytes));
  }
  if (key_bytes > options.max_key_bytes) {
    return Bad(
        fmt::format("--key_bytes={} is more than --max_key_bytes={}: give --max_key_bytes={}",
                    key_bytes, options.max_key_bytes, key_bytes));
  }
  RecordShape shape;
  shape.key_bytes = key_bytes;
  shape.consecutive_keys = options.consecutive_keys;
  const uint64_t keys = KeysOf(shape);
  if (options.records > keys) {
    return Bad(
        fmt::format("--records={}: there are only {} keys of --key_bytes={}; give fewer "
                    "records or longer keys",
                    options.records, keys, key_bytes));
  }
  return Ok();
}

Status CheckRecords(const SizeOptions& options) {
  if (options.keys_file.empty()) {
    BOOST_OUTCOME_TRYV(CheckDescription(options));
  } else if (options.key_bytes || options.consecutive_keys) {
    return Bad("--keys=FILE has the keys: give neither --key_bytes nor --consecutive_keys with it");
  }
  if (options.value_bytes.value_or(0) > kMaxValueBytes) {
    return Bad(
        fmt::format("--value_bytes={}: a value has at most {} B ({}); spread longer ones "
                    "over several keys",
                    *options.value_bytes, kMaxValueBytes, ExactBytes(kMaxValueBytes)));
  }
  return Ok();
}

std::vector<uint32_t> InlineValueBytes(const SizeOptions& options, size_t longest_value) {
  if (options.inline_value_bytes) return {*options.inline_value_bytes};
  std::vector<uint32_t> compared;
  // Less than the default would save nothing: leaves have room for that in any case.
  if (longest_value <= kMaxInlineValueBytes) {
    compared.push_back(std::max(static_cast<uint32_t>(longest_value), kDefaultInlineBytes));
  }
  if (longest_value > kDefaultInlineBytes) compared.push_back(kDefaultInlineBytes);
  return compared;
}

// Adds the choices, without their bytes.
Status AddChoices(const SizeOptions& options, size_t longest_value, Sizing& sizing) {
  std::vector<uint32_t> node_sizes(std::begin(kComparedNodeBytes), std::end(kComparedNodeBytes));
  if (options.node_bytes) node_sizes = {*options.node_bytes};
  for (const uint32_t inline_value_bytes : InlineValueBytes(options, longest_value)) {
    for (const uint32_t node_bytes : node_sizes) {
      const Result<StoreParameters> parameters =
          CheckedParameters(node_bytes, options.max_key_bytes, inline_value_bytes);
      if (!parameters) {
        sizing.refused = parameters.error().message;
        continue;
      }
      SizeChoice choice;
      choice.parameters = parameters.value();
      choice.is_inline = longest_value <= inline_value_bytes;
      sizing.choices.push_back(choice);
    }
  }
  return sizing.choices.empty() ? Status(Bad(sizing.refused)) : Ok();
}

// Sets the choices, and what else is known before they are measured.
Result<Sample> Plan(const SizeOptions& options, Sizing& sizing) {
  BOOST_OUTCOME_TRYV(CheckRecords(options));
  BOOST_OUTCOME_TRY(arrival, ArrivalOf(options));
  sizing.arrival = arrival;
  Sample sample;
  if (!options.keys_file.empty()) {
    BOOST_OUTCOME_TRY(read, SampleOfFile(options.keys_file, options.form, options.max_key_bytes,
                                         options.value_bytes, kMostFileRecords, arrival));
    sample = std::move(read);
    BOOST_OUTCOME_TRYV(AddChoices(options, sample.longest_value, sizing));
  } else {
    BOOST_OUTCOME_TRYV(AddChoices(options, *options.value_bytes, sizing));
    const uint64_t choices = sizing.choices.size();
    const uint64_t fitting =
        kMostSampleBytes / choices / (*options.key_bytes + uint64_t{*options.value_bytes});
    const uint64_t records =
        std::max<uint64_t>(1, std::min({options.records, kMostSampleRecords / choices, fitting}));
    sample = SampleOf({*options.key_bytes, *options.value_bytes, options.consecutive_keys}, records,
                      options.records, arrival);
  }
  sizing.records = options.records != 0 ? options.records : sample.all_records;
  sizing.measured_records = sample.records.size();
  const auto of_each = [&](auto bytes_of) {
    const auto add = [&](uint64_t sum, const SampleRecord& record) {
      return sum + bytes_of(record);
    };
    const auto sum =
        std::accumulate(sample.records.begin(), sample.records.end(), uint64_t{0}, add);
    return static_cast<double>(sum) / static_cast<double>(sample.records.size());
  };
  sizing.key_bytes = of_each([](const SampleRecord& record) { return record.key.size(); });
  sizing.value_bytes = of_each([](const SampleRecord& record) { return record.value_bytes; });
  return sample;
}

// In steps of at most a sixteenth, for a number that is easy to read.
uint64_t RoundedUp(double bytes) {
  constexpr uint64_t kLeastStep = uint64_t{16} << 20;
  const auto whole = static_cast<uint64_t>(bytes);
  const uint64_t step = std::max(kLeastStep, std::bit_floor(whole) / 16);
  return (whole / step + 1) * step;
}

Status Extrapolate(uint64_t records, SizeChoice& choice) {
  const double used = choice.record.memory() * static_cast<double>(records);
  const double memory = used / (1 - kHeadroom);
  const double servers = memory / static_cast<double>(kMostMemoryBytes);
  if (servers >= kMaxMemoryServers) {
    return Bad(
        fmt::format("--records={}: they need more than {} memory servers of {}, which is the most; "
                    "give fewer records",
                    records, kMaxMemoryServers, HumanBytes(kMostMemoryBytes)));
  }
  choice.servers = 1 + static_cast<uint32_t>(servers);
  choice.memory_bytes = std::min(RoundedUp(memory / choice.servers), kMostMemoryBytes);
  choice.used_bytes = static_cast<uint64_t>(used);
  choice.client_cache_bytes =
      static_cast<uint64_t>(choice.record.client_cache * static_cast<double>(records));
  return Ok();
}

}  // namespace

size_t Recommend(const std::vector<SizeChoice>& choices) {
  constexpr double kMostFactor = 1.5;
  constexpr double kTenthLess = 0.9;
  const auto least = std::min_element(choices.begin(), choices.end(),
                                      [](const SizeChoice& one, const SizeChoice& other) {
                                        return one.record.memory() < other.record.memory();
                                      });
  const double most = kMostFactor * least->record.memory();
  // Smaller is better.
  const auto rank = [&](const SizeChoice& choice) {
    const double factor = choice.parameters.node_bytes == kDefaultNodeBytes ? kTenthLess : 1;
    const bool is_too_large = choice.record.memory() > most;
    const double round_trips = std::round(choice.get_round_trips * 10);  // in tenths
    return std::tuple(is_too_large, round_trips, factor * choice.record.memory());
  };
  const auto best = std::min_element(
      choices.begin(), choices.end(),
      [&](const SizeChoice& one, const SizeChoice& other) { return rank(one) < rank(other); });
  return static_cast<size_t>(best - choices.begin());
}

Result<Sizing> Size(const SizeOptions& options) {
  Sizing sizing;
  BOOST_OUTCOME_TRY(sample, Plan(options, sizing));
  const bool is_sorted = sizing.arrival == Arrival::kSorted;
  Progress progress({.verb = "measuring", .unit = "choices", .total = sizing.choices.size()});
  uint64_t measured = 0;
  for (SizeChoice& choice : sizing.choices) {
    BOOST_OUTCOME_TRY(record,
                      MeasureRecords(choice.parameters, sample.records,
                                     is_sorted ? std::optional(options.fill) : std::nullopt));
    choice.record = record;
    choice.get_round_trips = 1 + record.with_block;  // of values, or of long keys
    BOOST_OUTCOME_TRYV(Extrapolate(sizing.records, choice));
    progress.Update(++measured);
  }
  sizing.recommended = Recommend(sizing.choices);
  return sizing;
}

}  // namespace gossamer::cli
