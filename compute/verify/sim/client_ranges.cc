// SimulatedClient: scans, cursors that rest, and deletions of ranges.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/text/escape.h"
#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

using history::kAbsent;
using history::kSomeValue;
using history::OperationKind;
using history::ScanRow;

Task<void> SimulatedClient::Scan(OpenSession& session, uint32_t lane, PlannedOperation operation) {
  const history::KeySpace& keys = scene_.workload.keys();
  history::Scan scan;
  scan.first = operation.key;
  scan.last = operation.last;
  scan.limit = operation.limit;
  scan.reverse = operation.reverse;
  ScanOptions options;
  options.limit = operation.limit;
  options.reverse = operation.reverse;
  options.keys_only = operation.keys_only;
  if (scan.first != 0) options.from = keys.Text(scan.first);
  if (scan.last < scene_.plan.work.keys()) options.to = keys.Text(scan.last);
  scene_.recorder.Begin(lane, OperationKind::kScan, scan.first, kAbsent);
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  while (co_await cursor->AsyncNext()) {
    if (is_dead_) break;
    std::optional<ScanRow> row = RowAt(*cursor, operation.keys_only);
    if (!row) {
      scan.broken = true;
      break;
    }
    row->time = scene_.recorder.Row(lane, row->key, row->value);
    scan.rows.push_back(*row);
    if (!operation.rests) continue;
    co_await Rest(session.scheduler(), *cursor);
    if (is_dead_) break;
  }
  const Status status = cursor->status();
  if (!status) scan.broken = true;
  const std::optional<std::string> problem = scene_.recorder.EndScan(lane, scan);
  if (problem) scene_.verdict.Wrong(*problem);
  if (!status) co_await Failed(session, lane, scan.first, status.error());
}

std::optional<ScanRow> SimulatedClient::RowAt(const ScanCursor& cursor, bool keys_only) {
  const std::optional<uint32_t> key = scene_.workload.keys().Number(cursor.key());
  if (!key) {
    scene_.verdict.Wrong("a scan returns a key that nobody wrote: " +
                         HexText(cursor.key(), kShownBytes));
    return std::nullopt;
  }
  if (!keys_only) return ScanRow{*key, Verify(*key, cursor.value())};
  if (!cursor.value().empty()) scene_.verdict.Wrong("a scan of keys alone returns a value");
  return ScanRow{*key, kSomeValue};
}

// Seldom enough that a scan of all keys ends.
Task<void> SimulatedClient::Rest(Scheduler& scheduler, const ScanCursor& cursor) {
  constexpr uint64_t kRowsPerRest = 16;
  if (rest_random_.Below(kRowsPerRest) != 0) co_return;
  ++scene_.rests;
  const std::string key(cursor.key());
  const std::string value(cursor.value());
  const uint64_t longest_ns = uint64_t{scene_.plan.work.longest_rest_us} * 1000;
  co_await scheduler.SleepFor(std::chrono::nanoseconds(rest_random_.Below(longest_ns) + 1));
  if (!is_dead_ && (cursor.key() != key || cursor.value() != value)) {
    scene_.verdict.Wrong("the row of a cursor has changed while it rested");
  }
}

Task<void> SimulatedClient::Erase(OpenSession& session, uint32_t lane, PlannedOperation operation) {
  const history::KeySpace& keys = scene_.workload.keys();
  const uint32_t count = operation.last - operation.key;
  for (uint32_t i = 0; i < count; ++i) {
    scene_.recorder.Begin(LaneInBatch(lane, i), OperationKind::kErase, operation.key + i, kAbsent);
  }
  KeyRange range;
  if (operation.key != 0) range.from = keys.Text(operation.key);
  if (operation.last < scene_.plan.work.keys()) range.to = keys.Text(operation.last);
  const RangeDeletion deletion = co_await session.AsyncDeleteRange(std::move(range), {});
  if (!is_dead_ && deletion.deleted > count) {
    scene_.verdict.Wrong("a DeleteRange deletes more keys than there are");
  }
  scene_.erased += deletion.deleted;
  PlannedOperation one = operation;
  for (uint32_t i = 0; i < count; ++i) {
    one.key = operation.key + i;
    EndWrite(LaneInBatch(lane, i), one, deletion.status);
  }
  if (!deletion.status) {
    co_await Failed(session, LaneInBatch(lane, 0), operation.key, deletion.status.error());
  }
}

}  // namespace gossamer::simulator
