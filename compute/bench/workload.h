// The core workloads of YCSB (Cooper et al., SoCC'10), and one of updates alone.
//
//   workload   mix                                   distribution   for example
//   a          50 % read, 50 % update                zipfian        session store
//   b          95 % read,  5 % update                zipfian        photo tags
//   c          100 % read                            zipfian        user profiles
//   d          95 % read,  5 % insert                latest         status updates
//   e          95 % scan,  5 % insert                zipfian        threads (1 to 100 keys a scan)
//   f          50 % read, 50 % read-modify-write     zipfian        user records
//   u          100 % update                          zipfian        (not of YCSB)
//
// A `Workload` is the immutable description. An `OperationStream` is one thread's sequence drawn
// from it: the same for the same seed and thread. Hot path: `Next` neither allocates nor locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/random.h"
#include "compute/bench/zipfian.h"

namespace gossamer::bench {

enum class BenchOperation : uint8_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };
inline constexpr size_t kBenchOperations = 5;
constexpr std::string_view BenchOperationName(BenchOperation kind) {
  constexpr std::array<std::string_view, kBenchOperations> kNames = {"read", "update", "insert",
                                                                     "scan", "read_modify_write"};
  return kNames[static_cast<size_t>(kind)];
}

enum class Distribution : uint8_t { kUniform, kZipfian, kLatest };

// nullopt for an unknown name.
std::optional<Distribution> ParseDistribution(std::string_view name);
std::string_view DistributionName(Distribution distribution);

struct Workload {
  char name = 'c';
  std::array<uint32_t, kBenchOperations> percent{};  // indexed by BenchOperation; sum 100
  Distribution distribution = Distribution::kZipfian;
  // kZipfian draws from this many ranks and hashes them onto the records.
  uint64_t ranks = ScrambledZipfian::kRanks;
  uint32_t max_scan_length = 100;

  bool has_inserts() const { return percent[static_cast<size_t>(BenchOperation::kInsert)] != 0; }
};

// nullopt for anything but "a" to "f" and "u".
std::optional<Workload> FindWorkload(std::string_view name);

// The part of one process of a benchmark of several. Of a list of things, each has a run of
// neighbours.
struct Share {
  uint32_t processes = 1;
  uint32_t rank = 0;  // below `processes`

  // Requires (unchecked): total * processes fits 64 bits.
  uint64_t First(uint64_t total) const { return total * rank / processes; }
  uint64_t Past(uint64_t total) const { return total * (rank + 1) / processes; }
};

// The existing records, shared by all threads of a process. Records are inserted in id order but
// finish in any order. Reads choose among the first `acknowledged` records, all of which exist: an
// absent key is an error, never an accident of timing. (A failed insert holds `acknowledged` back.)
//
// Processes insert without asking each other: behind the loaded ids, each has every `processes`-th.
// So a process knows the loaded records and its own inserts. It numbers them by *places* 0, 1,
// 2, ...; of a single process the place is the id.
class RecordIds {
 public:
  // `loaded` ids exist (at least one); this process adds at most `max_inserts`.
  RecordIds(uint64_t loaded, uint64_t max_inserts, Share share = {});

  uint64_t loaded() const { return loaded_; }
  uint64_t max_inserts() const { return max_inserts_; }
  uint64_t IdAt(uint64_t place) const {
    return place < loaded_ ? place : loaded_ + (place - loaded_) * share_.processes + share_.rank;
  }

  // The records at all places below this have been inserted. At least `loaded`.
  uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_acquire); }
  uint64_t TakeNext() { return IdAt(next_.fetch_add(1, std::memory_order_relaxed)); }
  void Acknowledge(uint64_t id);

 private:
  bool IsDone(uint64_t place) const;

  const uint64_t loaded_;
  const uint64_t max_inserts_;
  const Share share_;
  std::atomic<uint64_t> next_;
  std::atomic<uint64_t> acknowledged_;
  std::unique_ptr<std::atomic<uint64_t>[]> done_;  // one bit for each insert
};

struct DrawnOperation {
  BenchOperation kind;
  uint32_t scan_length;  // of a scan
  uint64_t id;
};

class OperationStream {
 public:
  // `ids` must outlive the stream.
  OperationStream(const Workload& workload, double theta, uint64_t seed, uint32_t thread,
                  RecordIds& ids);

  DrawnOperation Next();

 private:
  uint64_t ExistingPlace();
  uint64_t ZipfianPlace(uint64_t records);

  const Workload workload_;
  RecordIds& ids_;
  // Places at the end of the run, plus as many again as the run inserts.
  const uint64_t expected_places_;
  Random random_;
  ScrambledZipfian zipfian_;
  Latest latest_;
};

}  // namespace gossamer::bench
