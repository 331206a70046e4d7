// Worker: operations of many keys.
#include <algorithm>
#include <string>
#include <vector>

#include "compute/verify/stress/now.h"
#include "compute/verify/stress/worker.h"

namespace gossamer::stress {

Task<void> Worker::ReadBatch(Session& session, Random& random) {
  constexpr uint64_t kMostReads = 100;
  std::vector<uint32_t> keys(2 + random.Below(kMostReads - 1));
  std::vector<std::string> texts;
  for (uint32_t& key : keys) {
    key = PickHot(random);
    texts.push_back(keys_.Text(key));
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  Values values;
  const int64_t start = NowNs();
  co_await session.AsyncMultiGet(views, values);
  const int64_t end = NowNs();
  for (size_t i = 0; i < keys.size(); ++i) EndRead(keys[i], values[i], start, end);
}

std::vector<uint32_t> Worker::PickForBatch(Random& random) {
  constexpr uint64_t kMostWrites = 40;
  const uint64_t count = 2 + random.Below(kMostWrites - 1);
  const uint64_t first = random.Below(keys_.hot_keys());
  std::vector<uint32_t> keys;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t hot = std::min<uint64_t>(first + random.Below(count), keys_.hot_keys() - 1);
    const uint32_t key = KeySpace::HotKey(static_cast<uint32_t>(hot));
    if (!MayWrite(key)) continue;
    being_written_.push_back(key);
    keys.push_back(key);
  }
  return keys;
}

Task<void> Worker::WriteBatch(Session& session, Random& random) {
  const uint64_t dice = random.Below(4);
  const bool is_delete = dice == 0;
  const bool is_load = dice == 1;
  const OperationKind kind = is_delete ? OperationKind::kDelete : OperationKind::kPut;
  std::vector<uint32_t> keys = PickForBatch(random);
  if (is_load) std::ranges::sort(keys);

  std::vector<std::string> texts(keys.size());
  std::vector<std::string> values(keys.size());
  std::vector<KeyValueView> pairs;
  std::vector<std::string_view> views;
  std::vector<Event*> logged;
  for (size_t i = 0; i < keys.size(); ++i) {
    const ValueId id = NewValue(keys[i], kind);
    logged.push_back(&BeginWrite(keys[i], kind, id));
    texts[i] = keys_.Text(keys[i]);
    if (!is_delete) values[i] = values_.Bytes(id);
    pairs.push_back({texts[i], values[i]});
    views.emplace_back(texts[i]);
  }
  std::vector<Status> results(keys.size(), Ok());
  size_t known = keys.size();
  if (is_delete) {
    co_await session.AsyncMultiDelete(views, results);
  } else if (is_load) {
    const SortedLoad load = co_await session.AsyncLoadSorted(pairs, 1.0);
    if (!load.status) {
      results[load.loaded] = load.status;
      known = load.loaded + 1;
    }
  } else {
    co_await session.AsyncMultiPut(pairs, results);
  }
  for (size_t i = 0; i < known; ++i) EndWrite(*logged[i], keys[i], results[i]);
  // Of the pairs behind the first that failed, some may be stored: what became of them stays
  // unknown.
  for (size_t i = known; i < keys.size(); ++i) {
    being_written_.erase(std::find(being_written_.begin(), being_written_.end(), keys[i]));
  }
}

}  // namespace gossamer::stress
