#include "compute/tree/read/gathered_gets.h"

#include "common/fabric/workers.h"

namespace gossamer {

Task<Result<std::string>> GatheredGets::Get(KeyView key) {
  const Gets::Joining joined = co_await gather_.Join(key, *this);
  const GetJob::Answer& answer = joined.group.state.answer(joined.index);
  if (answer.verdict == GetJob::Verdict::kFound) co_return std::string(answer.stored);
  if (answer.verdict == GetJob::Verdict::kAbsent) co_return MakeError(Code::kNotFound);
  co_return co_await single_.GetUntilDone(key);
}

Task<void> GatheredGets::Do(Gets::Group& group) {
  GetPipeline::Chunk& chunk = group.state;
  // As many as a group can need: buffers of one size are used again.
  pipeline_.Reserve(chunk, kMostGathered);
  const Op op = links_.Begin();
  pipeline_.Prepare(group.joined(), chunk);
  Resume(group, chunk.rest());
  const std::span<const GetPipeline::Part> parts = chunk.parts();
  Workers others(links_.scheduler());
  for (size_t i = 1; i < parts.size(); ++i) others.Start(Read(group, parts[i], op));
  if (!parts.empty()) co_await Read(group, parts.front(), op);
  if (others.running() != 0) co_await others.Wait();
}

Task<void> GatheredGets::Read(Gets::Group& group, const GetPipeline::Part& part, Op op) {
  co_await links_.Execute(op, *part.batch);
  // All batches of the group were posted in one round trip.
  if (&part != &group.state.parts().front()) op.wire.round_trips = 0;
  GetPipeline::Part in_blocks;
  pipeline_.Judge(group.joined(), group.state, part, in_blocks);
  for (const size_t i : part.keys()) {
    if (group.state.answer(i).verdict != GetJob::Verdict::kBlock) gather_.Resume(group, i);
  }
  pipeline_.Count(op);
  if (in_blocks.count == 0) co_return;
  op.wire = {};
  const auto blocks = pipeline_.TakeBlocks();
  pipeline_.PrepareBlocks(group.joined(), group.state, in_blocks, *blocks);
  Resume(group, blocks->rest);
  const std::span<const GetPipeline::Part> parts = blocks->parts;
  Workers others(links_.scheduler());
  for (size_t i = 1; i < parts.size(); ++i) others.Start(ReadBlocks(group, *blocks, parts[i], op));
  if (!parts.empty()) co_await ReadBlocks(group, *blocks, parts.front(), op);
  if (others.running() != 0) co_await others.Wait();
}

Task<void> GatheredGets::ReadBlocks(Gets::Group& group, const GetPipeline::Blocks& blocks,
                                    const GetPipeline::Part& part, Op op) {
  co_await links_.Execute(op, *part.batch);
  if (&part != &blocks.parts.front()) op.wire.round_trips = 0;
  pipeline_.JudgeBlocks(group.joined(), group.state, blocks, part);
  Resume(group, part);
  pipeline_.Count(op);
}

void GatheredGets::Resume(const Gets::Group& group, const GetPipeline::Part& part) {
  for (const size_t i : part.keys()) gather_.Resume(group, i);
}

}  // namespace gossamer
