#include "compute/tree/shape/unseen_nodes.h"

#include <algorithm>
#include <utility>

namespace gossamer {

Result<std::span<std::byte>> UnseenNodes::Add(RemotePtr node) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const bool has_room =
      !runs_.empty() && runs_.back().batch.server() == node.server() &&
      (runs_.back().batch.verbs().size() + 1) * bytes <= runs_.back().images.capacity() &&
      !runs_.back().batch.full();
  if (!has_room) {
    const size_t count = std::clamp<size_t>(expected_, 1, kNodesPerBatch);
    BOOST_OUTCOME_TRY(images, context_.links.Buffer(count * bytes));
    Run& run = runs_.emplace_back();
    run.images = std::move(images);
    run.batch.Reset(node.server());
  }
  Run& run = runs_.back();
  const LocalAddress at = run.images.address(run.batch.verbs().size() * bytes);
  run.batch.Add(Verb::Write(node.offset(), bytes, at));
  return std::span<std::byte>(at.data, bytes);
}

void UnseenNodes::AddWrites(Batch& batch) const {
  for (const Run& run : runs_) {
    for (const Verb& write : run.batch.verbs()) batch.Add(write);
  }
}

void UnseenNodes::AppendUnwritten(std::vector<Batch*>& batches) {
  for (Run& run : runs_) {
    if (run.batch.status() != VerbStatus::kSuccess) batches.push_back(&run.batch);
  }
}

bool UnseenNodes::are_written() const {
  return std::ranges::all_of(
      runs_, [](const Run& run) { return run.batch.status() == VerbStatus::kSuccess; });
}

Task<Status> UnseenNodes::WriteRest(Op& op) {
  Links& links = context_.links;
  std::vector<Batch*> batches;
  for (;;) {
    batches.clear();
    AppendUnwritten(batches);
    if (batches.empty()) co_return Ok();
    co_await links.ExecuteAll(op, batches);
    for (const Batch* batch : batches) {
      if (batch->status() == VerbStatus::kSuccess) continue;
      // The old queue pair is destroyed before each retry (rule U1).
      const Status replaced = co_await links.Replace(op, Links::LossOf(*batch));
      op.needs_other_memory = op.needs_other_memory || !replaced;
      if (!replaced) co_return replaced;
      if (!links.MayUse(op, batch->server())) {
        op.needs_other_memory = true;  // likewise if this session cannot register anew
        co_return links.OfThePast(op, batch->server());
      }
    }
  }
}

}  // namespace gossamer
