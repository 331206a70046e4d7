// gossamer-bench-baselines: Redis, LMDB or Gossamer under the load of gossamer-bench, and scans.
// scripts/research/compare runs it.

#include <fmt/core.h>
#include <gflags/gflags.h>
#include <time.h>

#include <charconv>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/program/flags_main.h"
#include "common/random.h"
#include "common/text/progress.h"
#include "common/text/size_text.h"
#include "compute/bench/keys.h"
#include "compute/bench/plan.h"
#include "compute/research/baselines/baseline.h"

DEFINE_string(engine, "", "redis, lmdb or gossamer");
DEFINE_string(socket, "", "redis: the unix socket of a running server");
DEFINE_string(directory, "", "lmdb: an empty directory, best on a RAM file system");
DEFINE_string(map_bytes, "16GiB", "lmdb: bound of its file");
DEFINE_uint64(records, 1'000'000, "records to put, in random order");
DEFINE_uint64(operations, 1'000'000, "gets of uniformly random records");
DEFINE_uint64(in_flight, 64, "operations under way at a time; lmdb: puts in a transaction");
DEFINE_string(scans, "",
              "lengths of scans, with a comma between them: as many scans of each length from "
              "random records as read the keys of all --operations");
DEFINE_uint64(key_bytes, 8, "length of keys, 4 to what Gossamer takes at most");
DEFINE_uint64(value_bytes, 8, "length of values");
DEFINE_uint64(seed, 42, "of the gets and the values");

namespace gossamer::bench {

double OwnCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr ProgramInfo kProgram{
    "gossamer-bench-baselines",
    "gossamer-bench-baselines --engine=redis --socket=PATH [flags]\n"
    "gossamer-bench-baselines --engine=lmdb --directory=PATH [flags]\n"
    "gossamer-bench-baselines --engine=gossamer [flags]\n"
    "\n"
    "Puts and gets the records of gossamer-bench in another store, by one "
    "thread, and\nprints the figures as JSON.\n",
    __FILE__};

// Keys and values that stay in place while operations use them: a ring of two groups.
class Records {
 public:
  Records(const KeyCodec& codec, size_t group, size_t value_bytes, uint64_t seed)
      : codec_(codec),
        group_(group),
        seed_(seed),
        keys_(2 * group),
        values_(2 * group, std::string(value_bytes, '\0')) {
    pairs_.reserve(group);
    names_.reserve(group);
  }

  size_t group() const { return group_; }

  void BeginGroup() {
    first_ = first_ == 0 ? group_ : 0;
    pairs_.clear();
    names_.clear();
  }
  void AddPair(uint64_t id) {
    const size_t at = first_ + pairs_.size();
    FillValue(id, seed_, values_[at]);
    pairs_.push_back({codec_.Encode(id, keys_[at]), values_[at]});
  }
  void AddName(uint64_t id) { names_.push_back(codec_.Encode(id, keys_[first_ + names_.size()])); }

  const std::vector<Pair>& pairs() const { return pairs_; }
  const std::vector<std::string_view>& names() const { return names_; }

 private:
  const KeyCodec codec_;
  const size_t group_;
  const uint64_t seed_;
  size_t first_ = 0;
  std::vector<KeyBuffer> keys_;
  std::vector<std::string> values_;
  std::vector<Pair> pairs_;
  std::vector<std::string_view> names_;
};

// Runs `total` operations, `group` at a time, and reports their time.
Result<Json> Measure(const char* verb, uint64_t total, size_t group, Baseline& baseline,
                     const std::function<Status(uint64_t first, uint64_t past)>& do_group) {
  constexpr uint64_t kLookEvery = 8192;
  ProgressOptions options;
  options.verb = verb;
  options.unit = "operations";
  options.total = total;
  Progress progress(options);
  uint64_t next_look = kLookEvery;
  const Result<double> cpu_before = baseline.CpuSeconds();
  if (!cpu_before) return cpu_before.error();
  const Clock::time_point start = Clock::now();
  for (uint64_t done = 0; done < total; done += group) {
    BOOST_OUTCOME_TRYV(do_group(done, std::min<uint64_t>(done + group, total)));
    if (done < next_look) continue;
    progress.Update(done);
    next_look = done + kLookEvery;
  }
  BOOST_OUTCOME_TRYV(baseline.Finish());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Result<double> cpu_after = baseline.CpuSeconds();
  if (!cpu_after) return cpu_after.error();
  return Json{{"operations", total},
              {"seconds", seconds},
              {"cpu_seconds", cpu_after.value() - cpu_before.value()},
              {"ops_per_second", seconds > 0 ? static_cast<double>(total) / seconds : 0}};
}

Result<std::unique_ptr<Baseline>> Open(uint64_t map_bytes) {
  if (FLAGS_engine == "redis") return OpenRedis(FLAGS_socket, FLAGS_value_bytes);
  if (FLAGS_engine == "gossamer") {
    const uint64_t memory = MemoryFor(FLAGS_records, static_cast<uint32_t>(FLAGS_key_bytes),
                                      static_cast<uint32_t>(FLAGS_value_bytes));
    return OpenGossamer(memory, FLAGS_key_bytes, FLAGS_value_bytes);
  }
  return OpenLmdb(FLAGS_directory, map_bytes, FLAGS_value_bytes);
}

// Scans of `length`, one after the other.
Result<Json> Scan(uint64_t length, const KeyCodec& codec, Random& random, Baseline& baseline) {
  const uint64_t scans = std::max<uint64_t>(FLAGS_operations / length, 1);
  uint64_t keys = 0;
  const std::string verb = fmt::format("scanning {}", length);
  Result<Json> json = Measure(verb.c_str(), scans, 1, baseline, [&](uint64_t, uint64_t) -> Status {
    KeyBuffer buffer;
    BOOST_OUTCOME_TRY(found,
                      baseline.Scan(codec.Encode(random.Below(FLAGS_records), buffer), length));
    keys += found;
    return Ok();
  });
  if (!json) return json.error();
  json.value()["length"] = length;
  json.value()["keys"] = keys;
  json.value()["keys_per_second"] =
      static_cast<double>(keys) / json.value()["seconds"].get<double>();
  return json;
}

Result<Json> Run(Baseline& baseline, std::span<const uint64_t> scan_lengths) {
  // Redis has two groups in flight.
  const size_t group =
      FLAGS_engine == "redis" ? std::max<uint64_t>(FLAGS_in_flight / 2, 1) : FLAGS_in_flight;
  Records records(KeyCodec(static_cast<uint32_t>(FLAGS_key_bytes)), group, FLAGS_value_bytes,
                  FLAGS_seed);
  Json json;
  json["schema"] = 1;
  json["engine"] = FLAGS_engine;
  json["version"] = baseline.version();
  json["description"] = baseline.description();
  Result<Json> load = Measure("putting", FLAGS_records, group, baseline,
                              [&](uint64_t first, uint64_t past) -> Status {
                                records.BeginGroup();
                                for (uint64_t id = first; id < past; ++id) records.AddPair(id);
                                return baseline.Put(records.pairs());
                              });
  if (!load) return load.error();
  json["load"] = load.value();
  Random random(FLAGS_seed);
  Result<Json> run = Measure("getting", FLAGS_operations, group, baseline,
                             [&](uint64_t first, uint64_t past) -> Status {
                               records.BeginGroup();
                               for (uint64_t i = first; i < past; ++i)
                                 records.AddName(random.Below(FLAGS_records));
                               return baseline.Get(records.names());
                             });
  if (!run) return run.error();
  json["run"] = run.value();
  if (baseline.found() != FLAGS_operations) {
    return MakeError(Code::kNotFound, fmt::format("only {} of {} gets found a value as put",
                                                  baseline.found(), FLAGS_operations));
  }
  for (const uint64_t length : scan_lengths) {
    Result<Json> scans =
        Scan(length, KeyCodec(static_cast<uint32_t>(FLAGS_key_bytes)), random, baseline);
    if (!scans) return scans.error();
    json["scans"].push_back(scans.value());
  }
  json["scanned"] = baseline.scanned();
  return json;
}

// nullopt: not a list of lengths.
std::optional<std::vector<uint64_t>> ParseLengths(std::string_view text) {
  std::vector<uint64_t> lengths;
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    const bool goes_on = text.starts_with(',') && text.size() > 1;
    if (error != std::errc() || length == 0 || (!text.empty() && !goes_on)) return std::nullopt;
    if (goes_on) text.remove_prefix(1);
    lengths.push_back(length);
  }
  return lengths;
}

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (FLAGS_engine != "redis" && FLAGS_engine != "lmdb" && FLAGS_engine != "gossamer") {
    return UsageError(kProgram, "--engine is redis, lmdb or gossamer");
  }
  if ((FLAGS_engine == "redis" && FLAGS_socket.empty()) ||
      (FLAGS_engine == "lmdb" && FLAGS_directory.empty())) {
    return UsageError(kProgram,
                      FLAGS_engine == "redis" ? "--socket is missing" : "--directory is missing");
  }
  if (FLAGS_key_bytes < kMinBenchKeyBytes || FLAGS_key_bytes > kMaxBenchKeyBytes) {
    return UsageError(kProgram, fmt::format("--key_bytes={} is not from {} to {}", FLAGS_key_bytes,
                                            kMinBenchKeyBytes, kMaxBenchKeyBytes));
  }
  if (FLAGS_records == 0 || FLAGS_in_flight == 0 ||
      !KeyCodec(static_cast<uint32_t>(FLAGS_key_bytes)).HasKeysFor(FLAGS_records)) {
    return UsageError(kProgram, "no such records: see --key_bytes, --records, --in_flight");
  }
  const Result<uint64_t> map_bytes = ParseSizeFlag("map_bytes", FLAGS_map_bytes);
  if (!map_bytes) return UsageError(kProgram, map_bytes.error().message);

  const std::optional<std::vector<uint64_t>> scan_lengths = ParseLengths(FLAGS_scans);
  if (!scan_lengths) return UsageError(kProgram, "--scans: give lengths, as in 100,10000");

  const Result<std::unique_ptr<Baseline>> baseline = Open(map_bytes.value());
  if (!baseline) return Failure(kProgram, baseline.error().ToString());
  const Result<Json> json = Run(*baseline.value(), *scan_lengths);
  if (!json) return Failure(kProgram, json.error().ToString());
  std::cout << json.value().dump(2) << std::endl;
  return kExitSuccess;
}

}  // namespace
}  // namespace gossamer::bench

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::bench::kProgram, argc, argv, gossamer::bench::Main);
}
