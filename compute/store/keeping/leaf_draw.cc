#include "compute/store/keeping/leaf_draw.h"

#include <cassert>
#include <optional>
#include <utility>

#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {
namespace {

std::optional<LeafView> ViewOf(Tree& tree, const DrawnLeaf& leaf) {
  std::optional<LeafView> view =
      LeafView::Parse(leaf.image, leaf.pointer, tree.context().geometry(), leaf.low);
  if (view && !view->trailer().low().Matches(leaf.low)) view.reset();
  return view;
}

// Adds the leaf, unless the tree has changed on the way.
Task<Status> AddLeaf(Tree& tree, RemotePtr pointer, Key low, DrawnLeaves& drawn) {
  Result<std::vector<std::byte>> image = co_await tree.ReadLeaf(pointer, low);
  // A node that was merged meanwhile looks damaged.
  const bool has_changed = !image && image.error().code == Code::kCorruption;
  if (has_changed) co_return Ok();
  if (!image) co_return image.error();
  DrawnLeaf leaf{pointer, low, std::move(image.value())};
  if (ViewOf(tree, leaf)) drawn.leaves.push_back(std::move(leaf));
  co_return Ok();
}

}  // namespace

Task<Result<DrawnLeaves>> DrawLeaves(Tree& tree, Random& random, size_t most) {
  assert(most > 0);
  DrawnLeaves drawn;
  BOOST_OUTCOME_CO_TRY(root, co_await tree.ReadRoot());
  RemotePtr node = root.pointer();
  if (root.level() == 0) {
    BOOST_OUTCOME_CO_TRYV(co_await AddLeaf(tree, node, Key(), drawn));
    co_return drawn;
  }
  for (uint32_t level = root.level();; --level) {
    Result<InternalNode> internal = co_await tree.ReadInternal(node);
    const bool has_changed =
        internal ? internal.value().level != level || internal.value().children.empty()
                 : internal.error().code == Code::kCorruption;
    if (has_changed) co_return drawn;
    if (!internal) co_return internal.error();
    std::vector<InternalNode::Child>& children = internal.value().children;
    drawn.leaves_in_tree *= static_cast<double>(children.size());
    for (size_t first = 0; level == 1 && first < std::min(most, children.size()); ++first) {
      const size_t other = first + random.Below(children.size() - first);
      std::swap(children[first], children[other]);
      BOOST_OUTCOME_CO_TRYV(
          co_await AddLeaf(tree, children[first].pointer, children[first].separator, drawn));
    }
    if (level == 1) co_return drawn;
    node = children[random.Below(children.size())].pointer;
  }
}

void ForEachEntry(Tree& tree, const DrawnLeaf& leaf,
                  const std::function<void(const Entry&)>& look) {
  const std::optional<LeafView> view = ViewOf(tree, leaf);
  if (!view) return;
  KeyArena arena;
  std::vector<Entry> entries;
  view->AppendTo(entries, arena);
  for (const Entry& entry : entries) look(entry);
}

}  // namespace gossamer
