#include "compute/tree/write/gathered_puts.h"

#include <functional>
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
    : pipeline_(pipeline),
      single_(single),
      writes_(OneForEachMode<Writes>(context, std::make_index_sequence<kWriteModes>())) {}

Task<Status> GatheredPuts::WriteTogether(KeyView key, std::string_view value, WriteMode mode,
                                         Expiry expiry) {
  if (mode == WriteMode::kDelete) value = {};
  if (!writes(mode).is_open()) ++in_flight_;
  const Writes::Joining joined = co_await writes(mode).Join({key, value, expiry}, *this, mode);
  State& state = joined.group.state;
  if (!state.is_left[joined.index]) co_return state.results[joined.index];
  co_return co_await single_.WriteUntilDone(key, value, mode, nullptr, expiry);
}

Task<void> GatheredPuts::Do(Writes::Group& group, WriteMode mode) {
  WriteBatch batch(mode, group.joined(), std::span(group.state.results).first(group.size));
  batch.Sort(group.state.order);
  const auto resume = [&](WriteBatch::Range range, bool are_left) {
    for (size_t position = range.first; position < range.end; ++position) {
      const size_t index = batch.IndexOf(position);
      group.state.is_left[index] = are_left;
      writes(mode).Resume(group, index);
    }
  };
  // By reference: that needs no allocation.
  co_await pipeline_.Write(batch, std::ref(resume));
}

}  // namespace gossamer
