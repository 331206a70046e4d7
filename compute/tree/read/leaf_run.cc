#include "compute/tree/read/leaf_run.h"

#include <algorithm>
#include <utility>

namespace gossamer {

LeafRun& LeafRuns::Take() {
  if (idle_.empty()) {
    all_.push_back(std::make_unique<LeafRun>());
    idle_.push_back(all_.back().get());
  }
  LeafRun& run = *idle_.back();
  idle_.pop_back();
  run.refs.clear();
  run.end.reset();
  run.is_last = false;
  run.is_given_up = false;
  return run;
}

void LeafRuns::GiveBack(LeafRun*& run) {
  LeafRun* const given = std::exchange(run, nullptr);
  if (given == nullptr) return;
  given->is_given_up = given->in_flight;
  if (given->in_flight) return;
  given->images = {};
  idle_.push_back(given);
}

bool LeafRuns::Collect(LeafRun& run, const ScanRange& range, const ScanPosition& position,
                       size_t leaves) {
  run.refs.clear();
  leaves = std::min(leaves, kMaxRunLeaves);
  if (range.reverse) {
    if (context_.cache.CollectLeft(position.below, leaves, run.refs) == 0) return false;
    const auto holds_first = [&](const NodeCache::LeafRef& ref) {
      return ref.low.view() <= KeyView(range.from);
    };
    const auto first = std::ranges::find_if(run.refs, holds_first);
    run.is_last = first != run.refs.end();
    if (run.is_last) run.refs.erase(first + 1, run.refs.end());
    run.end = HighFence::At(run.refs.back().low);
    return true;
  }
  HighFence end;
  if (context_.cache.CollectRight(position.from, leaves, run.refs, end) == 0) return false;
  while (run.refs.size() > 1 && !position.below.Admits(run.refs.back().low)) {
    end = HighFence::At(run.refs.back().low);
    run.refs.pop_back();
  }
  run.is_last = end.infinite || !position.below.Admits(end.key);
  run.end = end;
  return true;
}

Task<Status> LeafRuns::Read(Op& op, LeafRun& run) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRY(images, context_.links.Buffer(run.refs.size() * bytes));
  run.images = std::move(images);
  run.batches.Clear();
  for (size_t i = 0; i < run.refs.size(); ++i) {
    const RemotePtr leaf = run.refs[i].leaf;
    BOOST_OUTCOME_CO_TRYV(context_.links.CheckReaches(op, leaf, bytes));
    run.batches.For(leaf.server(), 1)
        .Add(Verb::Read(leaf.offset(), bytes, run.images.address(i * bytes)));
  }
  co_await context_.links.ExecuteAll(op, run.batches.used());
  for (const Batch* batch : run.batches.used()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  co_return Ok();
}

void LeafRuns::StartToRead(LeafRun& run, const Op& op) {
  run.in_flight = true;
  context_.links.scheduler().Spawn(ReadAhead(run, op));
}

// Its session may not be polled for any time: it counts as no operation. The scan drops what it
// reads in an earlier period.
Task<void> LeafRuns::ReadAhead(LeafRun& run, Op op) {
  run.status = co_await Read(op, run);
  context_.counters.of(OperationClass::kScan) += op.wire;
  run.in_flight = false;
  run.arrived.NotifyAll(context_.links.scheduler());
  LeafRun* given_up = run.is_given_up ? &run : nullptr;
  GiveBack(given_up);
}

}  // namespace gossamer
