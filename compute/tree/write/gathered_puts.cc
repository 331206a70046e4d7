#include "compute/tree/write/gathered_puts.h"

#include <utility>

namespace gossamer {
namespace {

template <typename Writes, size_t... kModes>
std::array<Writes, sizeof...(kModes)> OneForEachMode(TreeContext& context,
                                                     std::index_sequence<kModes...>) {
  return {((void)kModes, Writes(context.running, context.links.scheduler()))...};
}

}  // namespace

GatheredPuts::GatheredPuts(TreeContext& context, WritePipeline& pipeline, LeafWriter& single)
    : scheduler_(context.links.scheduler()),
      pipeline_(pipeline),
      single_(single),
      writes_(OneForEachMode<Writes>(context, std::make_index_sequence<kWriteModes>())) {}

class GatheredPuts::Waker final : public WritePipeline::Watcher {
 public:
  Waker(Writes& writes, Writes::Group& group, const WriteBatch& batch)
      : writes_(writes), group_(group), batch_(batch) {}

  void Done(WriteBatch::Range writes) override { Resume(writes, false); }
  void NotPlain(WriteBatch::Range writes) override { Resume(writes, true); }

 private:
  void Resume(WriteBatch::Range writes, bool is_left) {
    for (size_t position = writes.first; position < writes.end; ++position) {
      const size_t index = batch_.IndexOf(position);
      group_.state.is_left[index] = is_left;
      writes_.Resume(group_, index);
    }
  }

  Writes& writes_;
  Writes::Group& group_;
  const WriteBatch& batch_;
};

Task<Status> GatheredPuts::WriteTogether(KeyView key, std::string_view value, WriteMode mode) {
  if (mode == WriteMode::kDelete) value = {};
  if (!writes(mode).is_open()) ++in_flight_;
  const Writes::Joining joined = co_await writes(mode).Join({key, value}, *this, mode);
  State& state = joined.group.state;
  if (!state.is_left[joined.index]) co_return state.results[joined.index];
  co_return co_await single_.WriteUntilDone(key, value, mode);
}

Task<void> GatheredPuts::Do(Writes::Group& group, WriteMode mode) {
  WriteBatch batch(mode, group.joined(), std::span(group.state.results).first(group.size));
  batch.Sort(group.state.order);
  Waker waker(writes(mode), group, batch);
  co_await pipeline_.Write(batch, waker);
}

}  // namespace gossamer
