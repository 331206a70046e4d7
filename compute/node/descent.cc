#include "compute/node/descent.h"

namespace gossamer {
namespace {

// A node that stays unreadable through this many fresh descents, each ending under its lock, is
// corrupt (rule R5).
constexpr uint32_t kMaxDescents = 4;

}  // namespace

Task<Result<Descent::Step>> Descent::To(Op& op, SearchGoal goal, uint32_t level, Trust trust,
                                        Admission admission) {
  for (uint32_t attempt = 0; attempt < kMaxDescents; ++attempt) {
    std::optional<Step> start;
    if (trust == Trust::kCache) start = cache_.Find(goal, level);
    if (!start) {
      BOOST_OUTCOME_CO_TRY(root, co_await nodes_.ReadRoot(op));
      start = Step::To(root);
      if (trust == Trust::kCache) start = cache_.FindFrom(*start, goal, level);
    }
    Step step = *start;
    bool lost = false;
    bool came_over_left = false;
    while (step.level > level && !lost) {
      const Result<InternalNode> read = co_await nodes_.ReadInternal(op, step.node);
      if (!read && read.error().code != Code::kCorruption) co_return read.error();
      const bool is_right = read && read.value().level == step.level &&
                            !goal.IsBefore(read.value().low()) &&
                            (!read.value().frozen || came_over_left || read.value().was_root());
      if (!is_right) {
        lost = true;
        break;
      }
      const InternalNode& node = read.value();
      // A frozen one is not cached: its range is its left neighbour's soon, or its only child is
      // the root.
      if (!node.frozen) cache_.Insert(op.began.flushes, step.node, node, admission);
      if (trust == Trust::kCache) events_.OnCacheMiss();
      if (goal.IsBeyond(node.high)) {
        // Each hop goes right, or a chain of damaged nodes could lead back (rule W7).
        const bool leads_right = node.high.key.view() > step.low.view();
        if (node.sibling.is_null() || !leads_right) {
          lost = true;
          break;
        }
        if (!step.has_parent() && trust == Trust::kCache) {
          trust = Trust::kNothing;
          BOOST_OUTCOME_CO_TRY(root, co_await nodes_.ReadRoot(op));
          step = Step::To(root);
          came_over_left = false;
          continue;
        }
        events_.OnHop(step.node, step.level, step.low);
        step = Step{node.sibling, step.level, RemotePtr(), 0, node.high.key};
        came_over_left = true;
      } else {
        came_over_left = false;
        const uint32_t index = goal.Choose(node, node.children.size());
        step = Step{node.children[index].pointer, step.level - 1, step.node, 0,
                    node.children[index].separator};
      }
      if (trust == Trust::kCache) {
        const RemotePtr next = step.node;
        step = cache_.FindFrom(step, goal, level);
        came_over_left = came_over_left && step.node == next;  // rule R8: no way is left out
      }
    }
    if (!lost) co_return step;
    // Any number of cached nodes above may be of the past, too.
    trust = Trust::kNothing;
    cache_.ForgetPath(step);
    BOOST_OUTCOME_CO_TRYV(co_await nodes_.ReadRoot(op));
    if (attempt + 1 == kMaxDescents)
      co_return CorruptNode(step.node, "an unreadable internal node");
  }
  co_return MakeError(Code::kCorruption);  // not reached: the last attempt returns
}

}  // namespace gossamer
