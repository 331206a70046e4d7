// GatheredGets: gets of several coroutines that go out together.
//
// A group of them goes through GetPipeline. A get goes on when the memory server of its own leaf
// has answered, and that of its block: it waits for no other one.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT, shared by the group. For a key that is not plain that of Getter; and 1 RT, shared,
// more if READs have shown that.
#pragma once

#include <string>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/gather.h"
#include "compute/tree/read/get.h"
#include "compute/tree/read/get_pipeline.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class GatheredGets {
 public:
  GatheredGets(TreeContext& context, GetPipeline& pipeline, Getter& single)
      : links_(context.links),
        pipeline_(pipeline),
        single_(single),
        gather_(context.running, links_.scheduler()) {}

  // Whether a get can join others.
  bool is_open() const { return gather_.is_open(); }
  // As Getter::GetUntilDone.
  Task<Result<std::string>> Get(KeyView key);

 private:
  using Gets = Gather<KeyView, GetPipeline::Chunk>;
  friend Gets;

  Task<void> Do(Gets::Group& group);
  void End(Gets::Group& group) { group.state.GiveBuffersBack(); }
  // Executes the batch of a part of the group, and lets its gets go on.
  Task<void> Read(Gets::Group& group, const GetPipeline::Part& part, Op op);
  // Likewise for a part of the blocks.
  Task<void> ReadBlocks(Gets::Group& group, const GetPipeline::Blocks& blocks,
                        const GetPipeline::Part& part, Op op);
  void Resume(const Gets::Group& group, const GetPipeline::Part& part);

  Links& links_;
  GetPipeline& pipeline_;
  Getter& single_;
  Gets gather_;
};

}  // namespace gossamer
