// Sequential B+trees side by side, each under a reader-writer lock, used by tasks on a pool of
// threads.
//
// A placement says in which tree a key is:
//   kRandom   in any of them. An insert goes to a random tree; a get asks all.
//   kFilters  likewise, and each tree has a Bloom filter: an insert goes to the tree whose filter
//             has the key, or else to a random one; a get asks the trees whose filters have the
//             key.
//   kHash     in the tree that a hash of the key chooses.
//
// Batches of one request are the thesis's single operations: a task for each insert, and for each
// get a task that pushes one search for each tree to be asked. Longer batches lock a tree once for
// all of their requests in it.
//
// With kRandom, a key that is inserted again may get into a second tree; with kFilters too, when
// two tasks insert a new key at a time. So each insert has a number, in the order of requests: the
// entry with the highest number is the key's, wherever the others are, and within a tree an older
// number never replaces a newer one. (The thesis keeps both entries as duplicates, and has an
// update that leaves the filter without the key, so that a filtered search misses it. Here every
// insert sets the filter, before the entry can be found.)
//
// Source: Troen, "Evaluating established B+-tree access methods in a parallel processing
// environment", master's thesis, NTNU, 2022.
// Thread-safety: none; one thread calls. Tasks run within a call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "common/random.h"
#include "compute/research/lab/bloom_filter.h"
#include "compute/research/lab/sequential_tree.h"
#include "compute/research/lab/task_group.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

enum class Placement { kRandom, kFilters, kHash };

template <uint32_t kFanout, Placement kPlacement>
class PartitionedTree {
 public:
  static constexpr bool kManyThreads = false;
  static constexpr bool kPartitioned = true;

  explicit PartitionedTree(const TreeSettings& settings)
      : workers_(settings.workers),
        gets_(settings.partitions),
        inserts_(settings.partitions),
        results_(settings.partitions),
        tasks_(settings.workers) {
    for (uint32_t i = 0; i < settings.partitions; ++i) {
      partitions_.push_back(
          std::make_unique<Partition>(settings.expected_keys / settings.partitions + 1));
    }
  }

  Status Execute(std::span<Request> requests, uint32_t batch) {
    BOOST_OUTCOME_TRYV(tasks_.Start());
    constexpr size_t kMostOneByOne = 65'536;  // so that the queue stays small
    const size_t most = batch <= 1 ? kMostOneByOne : batch;
    for (size_t first = 0; first < requests.size(); first += most) {
      const auto some = requests.subspan(first, std::min(most, requests.size() - first));
      batch <= 1 ? ExecuteOneByOne(some) : ExecuteBatch(some);
    }
    return Ok();
  }

  void Insert(Key key, Value value) { InsertStamped(key, {value, NextStamp()}); }

  std::optional<Value> Get(Key key) const {
    std::optional<Stamped> newest;
    for (uint32_t number = 0; number < Count(); ++number) {
      if (MayBeIn(number, key)) KeepNewer(newest, Search(number, key));
    }
    return newest ? std::optional(newest->value) : std::nullopt;
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    // Any partition may have the next entries: of each, as many as are asked for.
    std::vector<StampedEntry> all;
    std::vector<StampedEntry> some(found.size());
    for (const auto& partition : partitions_) {
      const std::shared_lock lock(partition->mutex);
      const size_t count = partition->tree.Scan(from, std::span(some));
      all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(count));
    }
    std::sort(all.begin(), all.end(), [](const StampedEntry& a, const StampedEntry& b) {
      return a.key != b.key ? a.key < b.key : a.value.stamp > b.value.stamp;
    });
    size_t count = 0;
    for (size_t i = 0; i < all.size() && count < found.size(); ++i) {
      if (i > 0 && all[i].key == all[i - 1].key) continue;
      found[count++] = {all[i].key, all[i].value.value};
    }
    return count;
  }

 private:
  // A value, and the number of its insert.
  struct Stamped {
    Value value;
    uint64_t stamp;
  };
  using Tree = SequentialTree<kFanout, Stamped>;
  using StampedEntry = EntryOf<Stamped>;

  struct alignas(64) Partition {
    explicit Partition(uint64_t expected_keys) : filter(UsesFilter() ? expected_keys : 0) {}

    mutable std::shared_mutex mutex;
    Tree tree;
    BloomFilter filter;
  };

  static constexpr bool UsesFilter() { return kPlacement == Placement::kFilters; }

  uint32_t Count() const { return static_cast<uint32_t>(partitions_.size()); }
  uint64_t NextStamp() { return ++last_stamp_; }

  static void KeepNewer(std::optional<Stamped>& newest, const std::optional<Stamped>& other) {
    if (other && (!newest || other->stamp > newest->stamp)) newest = other;
  }

  bool MayBeIn(uint32_t number, Key key) const {
    switch (kPlacement) {
      case Placement::kRandom: return true;
      case Placement::kFilters: return partitions_[number]->filter.MayHave(key);
      case Placement::kHash: return number == HashOf(key);
    }
  }

  uint32_t HashOf(Key key) const { return static_cast<uint32_t>(SplitMix64::Mix(key) % Count()); }

  // The partition that an insert goes to.
  uint32_t PartitionFor(Key key, uint64_t stamp) const {
    if constexpr (kPlacement == Placement::kHash) return HashOf(key);
    if constexpr (kPlacement == Placement::kFilters) {
      for (uint32_t number = 0; number < Count(); ++number) {
        if (MayBeIn(number, key)) return number;
      }
    }
    return static_cast<uint32_t>(SplitMix64::Mix(stamp) % Count());
  }

  std::optional<Stamped> Search(uint32_t number, Key key) const {
    const Partition& partition = *partitions_[number];
    const std::shared_lock lock(partition.mutex);
    return partition.tree.Get(key);
  }

  void InsertStamped(Key key, const Stamped& stamped) {
    Partition& partition = *partitions_[PartitionFor(key, stamped.stamp)];
    const std::lock_guard lock(partition.mutex);
    InsertLocked(partition, key, stamped);
  }

  // Requires (unchecked): the partition's mutex is held.
  static void InsertLocked(Partition& partition, Key key, const Stamped& stamped) {
    if constexpr (UsesFilter()) partition.filter.Add(key);
    partition.tree.Insert(key, stamped, [](Stamped& present, const Stamped& given) {
      if (given.stamp > present.stamp) present = given;
    });
  }

  // ---- one by one

  void ExecuteOneByOne(std::span<Request> requests) {
    newest_.assign(requests.size(), std::nullopt);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      if (request.is_insert) {
        const Stamped stamped{request.value, NextStamp()};
        tasks_.Push([this, key = request.key, stamped] { InsertStamped(key, stamped); });
      } else {
        tasks_.Push([this, key = request.key, i] { PushSearches(key, i); });
      }
    }
    tasks_.Wait();
    for (size_t i = 0; i < requests.size(); ++i) SetResult(requests[i], newest_[i]);
  }

  void PushSearches(Key key, size_t request) {
    for (uint32_t number = 0; number < Count(); ++number) {
      if (!MayBeIn(number, key)) continue;
      tasks_.Push([this, number, key, request] {
        const std::optional<Stamped> found = Search(number, key);
        if (!found) return;
        const std::lock_guard lock(result_mutexes_[request % result_mutexes_.size()]);
        KeepNewer(newest_[request], found);
      });
    }
  }

  static void SetResult(Request& request, const std::optional<Stamped>& found) {
    if (request.is_insert) return;
    request.found = found.has_value();
    if (found) request.value = found->value;
  }

  // ---- batches

  void ExecuteBatch(std::span<Request> requests) {
    const uint64_t stamp = last_stamp_ + 1;  // of the first request; gets leave theirs unused
    last_stamp_ += requests.size();
    DealOut(requests);
    for (uint32_t number = 0; number < Count(); ++number) {
      PushGets(requests, number);
      if (!UsesFilter()) PushInserts(requests, number, stamp);
    }
    if (UsesFilter()) PushInsertsByFilter(requests, stamp);
    tasks_.Wait();

    newest_.assign(requests.size(), std::nullopt);
    for (uint32_t number = 0; number < Count(); ++number) {
      const std::vector<uint32_t>& gets = GetsOf(number);
      for (size_t i = 0; i < gets.size(); ++i) KeepNewer(newest_[gets[i]], results_[number][i]);
    }
    for (size_t i = 0; i < requests.size(); ++i) SetResult(requests[i], newest_[i]);
  }

  // Which requests go to which partition. All partitions share one list of gets where all are
  // asked.
  void DealOut(std::span<const Request> requests) {
    for (std::vector<uint32_t>& gets : gets_) gets.clear();
    for (std::vector<uint32_t>& inserts : inserts_) inserts.clear();
    for (uint32_t i = 0; i < requests.size(); ++i) {
      const Key key = requests[i].key;
      if constexpr (kPlacement == Placement::kHash) {
        (requests[i].is_insert ? inserts_ : gets_)[HashOf(key)].push_back(i);
      } else if (requests[i].is_insert) {
        // Even slices, the first one to another partition in each batch.
        const uint64_t slice = uint64_t{i} * Count() / requests.size();
        inserts_[(slice + last_stamp_) % Count()].push_back(i);
      } else if (kPlacement == Placement::kRandom) {
        gets_[0].push_back(i);
      } else {
        for (uint32_t number = 0; number < Count(); ++number) {
          if (MayBeIn(number, key)) gets_[number].push_back(i);
        }
      }
    }
  }

  const std::vector<uint32_t>& GetsOf(uint32_t number) const {
    return gets_[kPlacement == Placement::kRandom ? 0 : number];
  }

  void PushGets(std::span<const Request> requests, uint32_t number) {
    results_[number].resize(GetsOf(number).size());
    if (GetsOf(number).empty()) return;
    tasks_.Push([this, requests, number] {
      const Partition& partition = *partitions_[number];
      const std::vector<uint32_t>& gets = GetsOf(number);
      const std::shared_lock lock(partition.mutex);
      for (size_t i = 0; i < gets.size(); ++i) {
        results_[number][i] = partition.tree.Get(requests[gets[i]].key);
      }
    });
  }

  void PushInserts(std::span<const Request> requests, uint32_t number, uint64_t stamp) {
    if (inserts_[number].empty()) return;
    tasks_.Push([this, requests, number, stamp] {
      Partition& partition = *partitions_[number];
      const std::lock_guard lock(partition.mutex);
      for (const uint32_t i : inserts_[number]) {
        InsertLocked(partition, requests[i].key, {requests[i].value, stamp + i});
      }
    });
  }

  // Where an insert goes depends on filters that other inserts change: each task inserts one by
  // one.
  void PushInsertsByFilter(std::span<const Request> requests, uint64_t stamp) {
    for (uint32_t worker = 0; worker < workers_; ++worker) {
      const size_t first = requests.size() * worker / workers_;
      const size_t past = requests.size() * (worker + 1) / workers_;
      tasks_.Push([this, requests, first, past, stamp] {
        for (size_t i = first; i < past; ++i) {
          if (requests[i].is_insert) InsertStamped(requests[i].key, {requests[i].value, stamp + i});
        }
      });
    }
  }

  const uint32_t workers_;
  std::vector<std::unique_ptr<Partition>> partitions_;
  uint64_t last_stamp_ = 0;

  // Of the call that runs. A partition's gets and inserts are places in the batch.
  std::vector<std::vector<uint32_t>> gets_;
  std::vector<std::vector<uint32_t>> inserts_;
  std::vector<std::vector<std::optional<Stamped>>> results_;  // [partition][place in its gets]
  std::vector<std::optional<Stamped>> newest_;                // [request]
  std::array<std::mutex, 64> result_mutexes_;  // of newest_, while searches run alone

  TaskGroup tasks_;  // the last member: it ends its threads before the others go
};

}  // namespace gossamer::lab
