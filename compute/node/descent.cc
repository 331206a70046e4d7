#include "compute/node/descent.h"

namespace gossamer {
namespace {

// A node that stays unreadable through this many fresh descents, each ending under its lock, is
// corrupt (rule R5).
constexpr uint32_t kMaxDescents = 4;

NodeCache::Step StepToRoot(RootWord root) {
  return {root.pointer(), root.level(), RemotePtr(), 0, Key()};
}

}  // namespace

Task<Result<Descent::Step>> Descent::To(Op& op, SearchGoal goal, uint32_t level, Trust trust,
                                        Admission admission) {
  for (uint32_t attempt = 0; attempt < kMaxDescents; ++attempt) {
    std::optional<Step> start;
    if (trust == Trust::kCache) start = cache_.Find(goal, level);
    if (!start) {
      const Result<RootWord> root = co_await nodes_.ReadRoot(op);
      if (!root) co_return root.error();
      start = StepToRoot(root.value());
      if (trust == Trust::kCache) start = cache_.FindFrom(*start, goal, level);
    }
    Step step = *start;
    bool lost = false;
    while (step.level > level && !lost) {
      const Result<InternalNode> read = co_await nodes_.ReadInternal(op, step.node);
      if (!read && read.error().code != Code::kCorruption) co_return read.error();
      if (!read || read.value().level != step.level || goal.IsBefore(read.value().low())) {
        lost = true;
        break;
      }
      const InternalNode& node = read.value();
      if (admission == Admission::kAll) {
        cache_.Insert(step.node, node);
      } else {
        cache_.InsertMissed(step.node, node);
      }
      if (trust == Trust::kCache && on_miss_) on_miss_();
      if (goal.IsBeyond(node.high)) {
        if (node.sibling.is_null()) {
          lost = true;
          break;
        }
        if (!step.has_parent() && trust == Trust::kCache) {
          trust = Trust::kNothing;
          const Result<RootWord> root = co_await nodes_.ReadRoot(op);
          if (!root) co_return root.error();
          step = StepToRoot(root.value());
          continue;
        }
        missing_.Note(step.node, step.level);
        step = Step{node.sibling, step.level, RemotePtr(), 0, node.high.key};
      } else {
        const uint32_t index = goal.Choose(node, node.children.size());
        step = Step{node.children[index].pointer, step.level - 1, step.node, 0,
                    node.children[index].separator};
      }
      if (trust == Trust::kCache) step = cache_.FindFrom(step, goal, level);
    }
    if (!lost) co_return step;
    cache_.ForgetPath(step);
    const Result<RootWord> root = co_await nodes_.ReadRoot(op);
    if (!root) co_return root.error();
    if (attempt + 1 == kMaxDescents)
      co_return CorruptNode(step.node, "an unreadable internal node");
  }
  co_return MakeError(Code::kCorruption);  // not reached: the last attempt returns
}

}  // namespace gossamer
