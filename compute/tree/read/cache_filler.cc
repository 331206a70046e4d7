#include "compute/tree/read/cache_filler.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

// Nodes in one buffer.
constexpr size_t kMaxNodes = 128;
static_assert(kMaxNodes * kMaxNodeBytes <= BufferPool::kMaxBytes);

}  // namespace

void CacheFiller::NoteMiss() {
  if (!context_.store.fill.NoteMiss() || is_running_) return;
  is_running_ = true;
  context_.links.scheduler().Spawn(FillSome());
}

// Its session may not be polled for any time: it counts as an operation only while it inserts
// nodes.
Task<void> CacheFiller::FillSome() {
  const uint32_t period = context_.running.period();
  Op op = context_.links.Begin();
  const uint32_t bytes = context_.store.parameters.node_bytes;
  if (const FillPlan::Work work = context_.store.fill.Next(context_.cache, next_)) {
    for (size_t first = 0; first < next_.nodes.size(); first += kMaxNodes) {
      const size_t count = std::min(kMaxNodes, next_.nodes.size() - first);
      const std::span<const NodeCache::NodeRef> refs(&next_.nodes[first], count);
      const Result<BufferLease> images = context_.links.Buffer(count * bytes);
      if (!images) break;
      std::array<const Verb*, kMaxNodes> reads{};
      batches_.Clear();
      for (size_t i = 0; i < count; ++i) {
        if (!context_.links.Reaches(refs[i].node, bytes)) continue;
        reads[i] =
            &batches_.For(refs[i].node.server(), 1)
                 .Add(Verb::Read(refs[i].node.offset(), bytes, images.value().address(i * bytes)));
      }
      co_await context_.links.ExecuteAll(op, batches_.used());
      const RunningOperations::Scope scope(context_.running);
      if (context_.running.period() != period) break;  // the nodes may be of the past
      for (size_t i = 0; i < count; ++i) {
        if (reads[i] == nullptr || reads[i]->status != VerbStatus::kSuccess) continue;
        Take(op.began.flushes, next_.level, refs[i], {images.value().data() + i * bytes, bytes});
      }
    }
  }
  context_.counters.cache.filled += op.wire.reads;
  is_running_ = false;
}

void CacheFiller::Take(uint64_t flushes, uint32_t level, const NodeCache::NodeRef& ref,
                       std::span<const std::byte> image) {
  const std::optional<InternalNode> node = DecodeInternal(image, ref.node);
  const bool is_it = node && !node->frozen && node->level == level && node->low() == ref.low.view();
  if (is_it && context_.store.fill.HasRoom()) context_.cache.Insert(flushes, ref.node, *node);
}

}  // namespace gossamer
