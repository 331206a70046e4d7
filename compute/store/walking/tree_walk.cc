#include "compute/store/walking/tree_walk.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

namespace gossamer {
namespace {

constexpr uint64_t kTellEvery = 4096;  // nodes
// A node that cannot be found this many times in a row is corrupt.
constexpr int kMostAttempts = 64;
constexpr std::chrono::microseconds kBeforeAttempt{200};

}  // namespace

Task<Status> TreeWalk::Run(Leaves leaves) {
  BOOST_OUTCOME_CO_TRY(root, co_await tree_.ReadRoot());
  const uint32_t last = leaves == Leaves::kOnlyMet ? std::min(root.level(), 1u) : 0;
  for (uint32_t level = root.level() + 1; level-- > last;) {
    BOOST_OUTCOME_CO_TRYV(co_await WalkLevel(level, leaves));
  }
  co_return co_await ReadSample();
}

uint64_t TreeWalk::keys() const {
  if (leaves_read_ == 0) return 0;
  const double keys_of_a_leaf = static_cast<double>(keys_read_) / static_cast<double>(leaves_read_);
  return static_cast<uint64_t>(std::llround(keys_of_a_leaf * static_cast<double>(leaves_met_)));
}

// Each leaf gets into the sample with the same probability (Vitter '85, algorithm R).
void TreeWalk::Sample(const InternalNode::Child& leaf) {
  ++leaves_met_;
  if (sample_.size() < kMostSampled) {
    sample_.push_back(leaf);
  } else if (const uint64_t at = random_.Below(leaves_met_); at < kMostSampled) {
    sample_[at] = leaf;
  }
}

Task<Status> TreeWalk::ReadSample() {
  for (const InternalNode::Child& child : sample_) {
    const Result<std::vector<std::byte>> image =
        co_await tree_.ReadLeaf(child.pointer, child.separator);  // 1 RT
    if (!image && image.error().code == Code::kNodeUnreachable) co_return image.error();
    if (!image) continue;
    const std::optional<LeafView> leaf =
        LeafView::Parse(image.value(), child.pointer, shared_.geometry, child.separator);
    // It may have become another node meanwhile.
    if (!leaf || !leaf->trailer().low().Matches(child.separator)) continue;
    ++leaves_read_;
    keys_read_ += leaf->count();
  }
  co_return Ok();
}

Task<Status> TreeWalk::WalkLevel(uint32_t level, Leaves leaves) {
  Place place;
  int attempts = 0;
  for (;;) {
    const Key from = place.from;
    const Result<bool> ended = co_await MeetNode(level, leaves, place);
    if (!ended && ended.error().code != Code::kCorruption) co_return ended.error();
    if (ended && ended.value()) co_return Ok();
    if (place.from != from) {
      attempts = 0;
      ++nodes_;
      if (nodes_ % kTellEvery == 0 && !progress_(nodes_)) {
        co_return MakeError(Code::kContended, "the walk was ended early, as its caller asked");
      }
      continue;
    }
    if (++attempts < kMostAttempts) {
      if (!ended) place.node = {};
      if (attempts > 2) co_await tree_.scheduler().SleepFor(kBeforeAttempt);
      continue;
    }
    if (!ended) co_return ended.error();
    co_return MakeError(Code::kCorruption,
                        fmt::format("no node of level {} is found for some key", level));
  }
}

Task<Result<bool>> TreeWalk::MeetNode(uint32_t level, Leaves leaves, Place& place) {
  if (place.node.is_null()) {
    BOOST_OUTCOME_CO_TRY(step, co_await tree_.FindNode(place.from, level));
    if (step.level < level) co_return true;  // the tree has become lower
    place.node = step.node;
    place.low = step.low;
    place.came_over_left = false;
  }
  MeetAt(place.node);
  if (level == 0) co_return co_await MeetLeaf(place);
  co_return co_await MeetInternal(level, leaves, place);
}

Task<Result<bool>> TreeWalk::MeetInternal(uint32_t level, Leaves leaves, Place& place) {
  BOOST_OUTCOME_CO_TRY(node, co_await tree_.ReadInternal(place.node));
  const bool is_it = node.level == level && node.low() == place.low.view() &&
                     (!node.frozen || place.came_over_left || node.was_root());
  if (is_it && level == 1 && leaves == Leaves::kOnlyMet) {
    for (const InternalNode::Child& child : node.children) {
      MeetAt(child.pointer);
      Sample(child);
    }
  }
  co_return PassNode(place, is_it, node.high, node.sibling);
}

Task<Result<bool>> TreeWalk::MeetLeaf(Place& place) {
  BOOST_OUTCOME_CO_TRY(image, co_await tree_.ReadLeaf(place.node, place.low));
  const std::optional<LeafView> leaf =
      LeafView::Parse(image, place.node, shared_.geometry, place.low);
  const bool is_it =
      leaf && leaf->trailer().low().Matches(place.low) && (!leaf->frozen() || place.came_over_left);
  if (!is_it) co_return PassNode(place, false, {}, {});
  ++leaves_met_;
  ++leaves_read_;
  keys_read_ += leaf->count();
  for (uint32_t number = 0; number < leaf->unit_count(); ++number) {
    leaf->unit(number).ForEach([&](const Entry& entry) {
      if (!entry.has_block()) return;
      const BlockRef block = entry.block();
      meet_(block.ptr().server(), block.ptr().offset(), BlockBytes(block.length),
            control::ExtentKind::kBlocks);
    });
  }
  co_return PassNode(place, true, leaf->high(), leaf->trailer().sibling());
}

// A frozen node that its left neighbour does not name any more has moved into that one, and what
// follows it may have as well: the node for the key is found anew.
bool TreeWalk::PassNode(Place& place, bool is_it, const HighFence& high, RemotePtr sibling) {
  if (!is_it) {
    place.node = {};
    return false;
  }
  if (high.infinite) return true;
  // A node that has been split since its parent was read may end before the position.
  if (place.from.view() < high.key.view()) place.from = high.key;
  place.low = high.key;
  place.node = sibling;
  place.came_over_left = true;
  return false;
}

}  // namespace gossamer
