// Session: the operations of a store, for one thread. See gossamer/store.h, which programs include,
// for limits of keys and values, thread-safety, and the errors that every call may return.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/counters.h"
#include "gossamer/eviction.h"
#include "gossamer/expiry.h"
#include "gossamer/modifier.h"
#include "gossamer/repair.h"
#include "gossamer/scan_cursor.h"
#include "gossamer/status.h"
#include "gossamer/task.h"
#include "gossamer/values.h"

namespace gossamer {

struct KeyValue {
  std::string key;
  std::string value;
  Expiry expiry = {};
};

// The same without storage of its own.
struct KeyValueView {
  std::string_view key;
  std::string_view value;
  Expiry expiry = {};
};

// What a key has, and when it expires.
struct ExpiringValue {
  std::string value;
  Expiry expiry;  // of At, or never
};

// What `LoadSorted` has done.
struct SortedLoad {
  // So many pairs, the first ones, are stored.
  size_t loaded = 0;
  Status status = outcome::success();  // the error of the pair behind them
  // So many pairs are stored in all. With an error, these may be more than the first ones.
  size_t stored = 0;
};

// Keys in [from, to) that start with `prefix`: at most `limit`, ascending, or descending with
// `reverse`. The defaults are all keys.
struct ScanOptions {
  std::string from;
  std::optional<std::string> to;
  std::string prefix;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  bool reverse = false;
  // Skip what cannot be reached or read, and list it in `ScanCursor::missing`. Ascending scans
  // only. Slower: one leaf at a time.
  bool salvage = false;
  // Leave the values out: they are empty. Those in blocks are not read.
  bool keys_only = false;
  // End where a bookmark can be made: behind `limit` keys or more. Usually that is the end of a
  // leaf; where keys share more than 18 bytes with all their neighbours, it is that of all leaves
  // of one parent, and so up to some thousands of keys. Ascending scans only.
  bool to_bookmark = false;
  // Not 0: go on at this bookmark of an earlier scan, of any client of the store. A bookmark may
  // get lost when nodes are merged. Then the range begins anew: keys come again, and none is left
  // out that was there throughout. Ascending only.
  uint64_t resume_at = 0;
};

// What `DeleteRange` or `DeleteExpired` has done.
struct RangeDeletion {
  uint64_t deleted = 0;                // keys
  Status status = outcome::success();  // with an error, some keys of the range may be left
};

// One thread's use of a store.
//
// Each operation is a coroutine, its asynchronous form, which a store implements. The synchronous
// form runs that coroutine to its end: operations spawned earlier progress meanwhile. The
// asynchronous form keeps many operations in flight on one thread:
//
//   session.Spawn([](gossamer::Session& s) -> gossamer::Task<void> {
//     gossamer::Result<std::string> value = co_await s.AsyncGet("key");
//     ...
//   }(session));
//   session.WaitAll();
class Session {
 public:
  virtual ~Session() = default;

  // NotFound if the key is absent.
  Result<std::string> Get(std::string_view key) { return RunToEnd(AsyncGet(key)); }
  // The same with the time when the key expires.
  Result<ExpiringValue> GetWithExpiry(std::string_view key) {
    return RunToEnd(AsyncGetWithExpiry(key));
  }
  // How long the key has still to live; nullopt if it never expires. NotFound if it is absent.
  Result<std::optional<std::chrono::milliseconds>> TimeToLive(std::string_view key);
  // Inserts or overwrites. `expiry`: when the key expires from then on. It never does unless that
  // is said.
  Status Put(std::string_view key, std::string_view value, Expiry expiry = {}) {
    return RunToEnd(AsyncPut(key, value, expiry));
  }
  // AlreadyExists if the key is there.
  Status Insert(std::string_view key, std::string_view value, Expiry expiry = {}) {
    return RunToEnd(AsyncInsert(key, value, expiry));
  }
  // NotFound if the key is absent.
  Status Update(std::string_view key, std::string_view value, Expiry expiry = {}) {
    return RunToEnd(AsyncUpdate(key, value, expiry));
  }
  // Says when the key expires, which keeps its value. NotFound if it is absent.
  Status Touch(std::string_view key, Expiry expiry) { return RunToEnd(AsyncTouch(key, expiry)); }
  // Replaces the value by what `modifier` makes of it: read-modify-write, as one operation among
  // all clients. A value that the tree's nodes hold is modified in the round trips of a put, and
  // many modifications of one key together.
  Status Modify(std::string_view key, ValueModifier& modifier) {
    return RunToEnd(AsyncModify(key, modifier));
  }
  // NotFound if the key is absent.
  Status Delete(std::string_view key) { return RunToEnd(AsyncDelete(key)); }
  // Results in the order of the keys.
  std::vector<Result<std::string>> MultiGet(std::span<const std::string_view> keys);
  // The same with the results in the caller's storage.
  void MultiGet(std::span<const std::string_view> keys, Values& values) {
    RunToEnd(AsyncMultiGet(keys, values));
  }
  // Many puts or deletes, each as `Put` or `Delete` would do it, with a result of its own. Of
  // several with one key, the last one decides. Writes to one leaf of the tree are done together,
  // in about two round trips.
  std::vector<Status> MultiPut(std::span<const KeyValue> pairs);
  std::vector<Status> MultiDelete(std::span<const std::string_view> keys);
  // The same with the results in the caller's storage: results[i] is that of pairs[i] or keys[i].
  // Requires: as many results.
  void MultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) {
    assert(results.size() == pairs.size());
    RunToEnd(AsyncMultiPut(pairs, results));
  }
  void MultiDelete(std::span<const std::string_view> keys, std::span<Status> results) {
    assert(results.size() == keys.size());
    RunToEnd(AsyncMultiDelete(keys, results));
  }
  // Many modifications, each as `Modify` would do it; of several of one key, one after the other in
  // this order. Those of many leaves go through one pipeline, in about two round trips.
  // Requires: as many results.
  void MultiModify(std::span<const KeyModifier> modifiers, std::span<Status> results) {
    assert(results.size() == modifiers.size());
    RunToEnd(AsyncMultiModify(modifiers, results));
  }
  // Puts pairs in ascending order of their keys; of several with one key, the last one decides.
  // Where many keys follow the keys of one leaf, as in an empty store or behind its last key, new
  // leaves are built from them, so that a load in chunks of thousands of pairs is much quicker than
  // puts. `fill`: how full these leaves get, above 0 and at most 1. Other operations may run
  // meanwhile.
  // Errors: as for puts. InvalidArgument, and nothing was done: a key is less than the one before
  // it, or a wrong `fill`.
  SortedLoad LoadSorted(std::span<const KeyValueView> pairs, double fill) {
    return RunToEnd(AsyncLoadSorted(pairs, fill));
  }
  virtual std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) = 0;
  // Deletes the keys of `range`, and gives back the memory of the leaves that this empties. Each
  // key is deleted as `Delete` would do it, the least first, but not all at one time: a key that
  // others put meanwhile may stay. So the call lasts as long as others append to the range more
  // quickly than it deletes. Calls `progress`, unless empty, now and then with the number of keys
  // deleted, and ends early if that returns false. It must not throw.
  // Errors: as for deletes, without NotFound.
  RangeDeletion DeleteRange(const KeyRange& range,
                            const std::function<bool(uint64_t deleted)>& progress) {
    return RunToEnd(AsyncDeleteRange(range, progress));
  }
  RangeDeletion DeletePrefix(std::string_view prefix) {
    return DeleteRange(KeyRange({}, std::nullopt, std::string(prefix)), {});
  }

  // Deletes all keys that have expired, and gives back the memory of the leaves that this empties.
  // To others they are absent already. A store does this by itself, in a thread, once enough of its
  // keys have expired. `progress` and errors: as for DeleteRange.
  RangeDeletion DeleteExpired(const std::function<bool(uint64_t deleted)>& progress) {
    return RunToEnd(AsyncDeleteExpired(progress));
  }

  // The same as coroutines. The bytes of `key` and `value` must live until the task ends.
  virtual Task<Result<std::string>> AsyncGet(std::string_view key) = 0;
  virtual Task<Result<ExpiringValue>> AsyncGetWithExpiry(std::string_view key) = 0;
  Task<Status> AsyncPut(std::string_view key, std::string_view value) {
    return AsyncPut(key, value, Expiry::Never());
  }
  Task<Status> AsyncInsert(std::string_view key, std::string_view value) {
    return AsyncInsert(key, value, Expiry::Never());
  }
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value) {
    return AsyncUpdate(key, value, Expiry::Never());
  }
  virtual Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) = 0;
  virtual Task<Status> AsyncInsert(std::string_view key, std::string_view value, Expiry expiry) = 0;
  virtual Task<Status> AsyncUpdate(std::string_view key, std::string_view value, Expiry expiry) = 0;
  Task<Status> AsyncTouch(std::string_view key, Expiry expiry);
  virtual Task<Status> AsyncModify(std::string_view key, ValueModifier& modifier) = 0;
  virtual Task<Status> AsyncDelete(std::string_view key) = 0;
  // The spans, too, must live until the task ends.
  virtual Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) = 0;
  virtual Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs,
                                   std::span<Status> results) = 0;
  virtual Task<void> AsyncMultiDelete(std::span<const std::string_view> keys,
                                      std::span<Status> results) = 0;
  virtual Task<void> AsyncMultiModify(std::span<const KeyModifier> modifiers,
                                      std::span<Status> results) = 0;
  virtual Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView> pairs, double fill) = 0;
  virtual Task<RangeDeletion> AsyncDeleteRange(KeyRange range,
                                               std::function<bool(uint64_t deleted)> progress) = 0;
  virtual Task<RangeDeletion> AsyncDeleteExpired(
      std::function<bool(uint64_t deleted)> progress) = 0;

  // Draws some leaves, and deletes those of their keys that `choice` picks, as `Delete` would do
  // it, unless it says otherwise once the key is locked. What has expired goes along. `choice` must
  // live until the task ends. Any part of the tree is drawn with about equal probability. Errors:
  // as for deletes, without NotFound.
  // Cost: 4 RT for each level of the tree, 1 RT for each of 8 leaves, and the deletes.
  virtual Task<Result<EvictedKeys>> AsyncEvict(EvictionChoice& choice) = 0;
  // Errors: NodeUnreachable. Cost: 1 RT for each memory server.
  virtual Task<Result<MemoryLevel>> AsyncMemoryLevel() = 0;
  // Gives the memory that this compute server keeps for its next writes back to the memory servers,
  // from where others get it.
  virtual Task<void> AsyncGiveBackMemory() = 0;
  // Waits, while other tasks of the session go on.
  virtual Task<void> AsyncSleep(std::chrono::microseconds time) = 0;

  // Starts a task, which runs here until it first waits. It goes on while the session is driven: by
  // `Poll`, `WaitAll` or a synchronous call.
  virtual void Spawn(Task<void> task) = 0;
  // Runs one step of every spawned task without blocking. Returns the number of tasks left.
  virtual size_t Poll() = 0;
  virtual void WaitAll() = 0;

  virtual Counters counters() const = 0;
  // The store's time, in milliseconds since 1970: the latest that it may be, as far as this compute
  // server knows. What expires by then is absent.
  virtual uint64_t StoreTimeMs() const = 0;

 protected:
  // What each synchronous call does. Returns: the task's value. Cost: the task's frame, and no
  // other.
  template <typename T>
  T RunToEnd(Task<T> task) {
    RunUntilDone(task.handle());
    return task.Take();
  }

 private:
  // Starts a coroutine, and drives the session until it is done, and until no work is left that it
  // has started in the background.
  virtual void RunUntilDone(std::coroutine_handle<> task) = 0;
};

inline std::vector<Result<std::string>> Session::MultiGet(std::span<const std::string_view> keys) {
  Values values;
  MultiGet(keys, values);
  std::vector<Result<std::string>> results;
  results.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    Result<std::string_view> value = values[i];
    if (value) {
      results.emplace_back(std::string(value.value()));
    } else {
      results.emplace_back(std::move(value.error()));
    }
  }
  return results;
}

inline Result<std::optional<std::chrono::milliseconds>> Session::TimeToLive(std::string_view key) {
  using Left = std::optional<std::chrono::milliseconds>;
  BOOST_OUTCOME_TRY(found, GetWithExpiry(key));
  if (found.expiry.is_never()) return Left();
  const auto left = static_cast<int64_t>(found.expiry.at_ms() - StoreTimeMs());
  return Left(std::max<int64_t>(left, 0));
}

inline Task<Status> Session::AsyncTouch(std::string_view key, Expiry expiry) {
  class Touch final : public ValueModifier {
   public:
    explicit Touch(Expiry expiry) : expiry_(expiry) {}
    Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
      was_there_ = value.has_value();
      return {Kind::kTouch, {}, expiry_};
    }
    bool wants_value() const override { return false; }
    bool was_there() const { return was_there_; }

   private:
    const Expiry expiry_;
    bool was_there_ = false;
  };
  Touch touch(expiry);
  BOOST_OUTCOME_CO_TRYV(co_await AsyncModify(key, touch));
  if (!touch.was_there()) co_return MakeError(Code::kNotFound);
  co_return Ok();
}

inline std::vector<Status> Session::MultiPut(std::span<const KeyValue> pairs) {
  std::vector<KeyValueView> views;
  views.reserve(pairs.size());
  for (const KeyValue& pair : pairs) views.push_back({pair.key, pair.value, pair.expiry});
  std::vector<Status> results(pairs.size(), Ok());
  MultiPut(views, results);
  return results;
}

inline std::vector<Status> Session::MultiDelete(std::span<const std::string_view> keys) {
  std::vector<Status> results(keys.size(), Ok());
  MultiDelete(keys, results);
  return results;
}

}  // namespace gossamer
