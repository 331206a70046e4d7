// SimulatedClient: operations of many keys, and modifies, of one key or many.
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compute/verify/sim/client.h"
#include "compute/verify/sim/recorded_modifier.h"

namespace gossamer::simulator {

using history::OperationKind;

uint32_t SimulatedClient::LaneInBatch(uint32_t lane, size_t i) {
  constexpr uint32_t kFirstInBatch = 1000;  // behind the numbers of coroutines
  std::vector<uint32_t>& lanes = batch_lanes_[lane];
  while (lanes.size() <= i) {
    const Recorder::Lane of = scene_.recorder.lanes()[lane];
    const auto number = static_cast<uint32_t>((of.coroutine + 1) * kFirstInBatch + lanes.size());
    lanes.push_back(scene_.recorder.AddLane(of.client, of.session, number));
  }
  return lanes[i];
}

Task<void> SimulatedClient::DoBatch(OpenSession& session, uint32_t lane, PlannedBatch batch) {
  if (batch.operations.empty()) co_return;
  if (batch.kind == PlannedBatch::Kind::kGet) {
    co_await GetBatch(session, lane, std::move(batch));
  } else {
    co_await WriteBatch(session, lane, std::move(batch));
  }
}

Task<void> SimulatedClient::GetBatch(OpenSession& session, uint32_t lane, PlannedBatch batch) {
  std::vector<std::string> keys;
  for (const PlannedOperation& operation : batch.operations) {
    scene_.recorder.Begin(LaneInBatch(lane, keys.size()), OperationKind::kGet, operation.key,
                          history::kAbsent);
    keys.push_back(scene_.workload.keys().Text(operation.key));
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  Values values;
  co_await session.AsyncMultiGet(views, values);
  std::optional<size_t> failed;
  for (size_t i = 0; i < views.size(); ++i) {
    const bool has_failed = EndGet(LaneInBatch(lane, i), batch.operations[i].key, values[i]);
    if (has_failed && !failed) failed = i;
  }
  if (failed) {
    co_await Failed(session, LaneInBatch(lane, *failed), batch.operations[*failed].key,
                    values[*failed].error());
  }
}

Task<void> SimulatedClient::Modify(OpenSession& session, uint32_t lane,
                                   PlannedOperation operation) {
  const std::string text = scene_.workload.keys().Text(operation.key);
  RecordedModifier modifier(*this, session, lane, operation);
  scene_.recorder.Begin(lane, operation.kind, operation.key, history::kAbsent);
  const Status status = co_await session.AsyncModify(text, modifier);
  const bool has_failed = EndWrite(lane, operation, status);
  if (has_failed) co_await Failed(session, lane, operation.key, status.error());
}

Task<void> SimulatedClient::WriteBatch(OpenSession& session, uint32_t lane, PlannedBatch batch) {
  const size_t count = batch.operations.size();
  std::vector<std::string> keys(count);
  std::vector<std::string> values(count);
  std::vector<KeyValueView> pairs;
  std::vector<std::string_view> views;
  std::deque<RecordedModifier> modifiers;
  std::vector<KeyModifier> modifications;
  for (size_t i = 0; i < count; ++i) {
    const PlannedOperation& write = batch.operations[i];
    keys[i] = scene_.workload.keys().Text(write.key);
    if (write.kind == OperationKind::kPut) {
      values[i] = scene_.workload.values().Bytes(write.value);
    }
    views.emplace_back(keys[i]);
    modifications.push_back(
        {keys[i], &modifiers.emplace_back(*this, session, LaneInBatch(lane, i), write)});
    scene_.recorder.Begin(LaneInBatch(lane, i), write.kind, write.key, write.value);
    const bool stores = write.kind == OperationKind::kPut;
    pairs.push_back({keys[i], values[i],
                     stores ? BeginLife(session, LaneInBatch(lane, i), write) : Expiry::Never()});
  }
  std::vector<Status> results(count, Ok());
  switch (batch.kind) {
    case PlannedBatch::Kind::kPut: co_await session.AsyncMultiPut(pairs, results); break;
    case PlannedBatch::Kind::kDelete: co_await session.AsyncMultiDelete(views, results); break;
    case PlannedBatch::Kind::kModify:
      co_await session.AsyncMultiModify(modifications, results);
      break;
    case PlannedBatch::Kind::kGet: break;
    case PlannedBatch::Kind::kLoad: {
      const SortedLoad load = co_await session.AsyncLoadSorted(pairs, batch.fill);
      for (size_t i = load.loaded; i < count; ++i) {
        // Of the pairs behind the first that failed, some may be stored.
        const bool is_first = i == load.loaded;
        results[i] = is_first ? load.status
                              : Status(MakeError(Code::kMaybeApplied, load.status.error().message));
      }
      break;
    }
  }
  std::optional<size_t> failed;
  for (size_t i = 0; i < count; ++i) {
    const bool has_failed = EndWrite(LaneInBatch(lane, i), batch.operations[i], results[i]);
    if (has_failed && !failed) failed = i;
  }
  if (failed) {
    co_await Failed(session, LaneInBatch(lane, *failed), batch.operations[*failed].key,
                    results[*failed].error());
  }
}

}  // namespace gossamer::simulator
