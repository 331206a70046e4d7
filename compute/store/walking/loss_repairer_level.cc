// LossRepairer: along a level, siblings of lost nodes and entries with lost blocks.
#include <algorithm>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"
#include "compute/store/walking/loss_repairer.h"

namespace gossamer {
namespace {

// Without it, the leaf's entries may not fit again.
OwnPrefix OwnPrefixOf(const LeafView& leaf) {
  const Bounds bounds = leaf.unit(0).bounds();
  return {bounds.prefix_of, bounds.prefix.size()};
}

}  // namespace

// ---- Siblings and entries

Task<Status> LossRepairer::MendLevel(uint32_t level) {
  return WalkLevel(level, &LossRepairer::VisitNode);
}

Task<Status> LossRepairer::VisitNode(Op& op, uint32_t level, const Key& from, HighFence& next) {
  BOOST_OUTCOME_CO_TRYV(Tell());
  Result<Place> found = co_await Find(op, SearchGoal::Covering(from), level);
  if (!found) co_return found.error();
  Place& place = found.value();
  if (place.level < level) {
    next = {};
    co_return Ok();
  }
  if (place.level > level || IsLost(place.node)) {
    if (!options_.dry_run) co_return HasChanged();
    next = place.end;
    co_return Ok();
  }
  // Nodes without downlinks follow it, up to the one that covers `from`.
  for (;;) {
    const Result<Ends> read = co_await ReadEnds(op, place);
    if (!read) co_return read.error();
    const Ends& ends = read.value();
    if (IsLost(ends.sibling) && !options_.dry_run && rules::MendsSiblings()) {
      next = HighFence::At(from);  // to be visited with the sibling mended
      co_return co_await MendSibling(op, place, ends);
    }
    if (IsLost(ends.sibling)) {
      if (level == 0 && ends.high.Admits(from)) {
        BOOST_OUTCOME_CO_TRYV(co_await VisitLeaf(op, place, next));
      }
      co_return co_await LookBehind(op, place, ends.high.key, next);
    }
    if (ends.high.Admits(from)) {
      next = ends.high;
      if (level != 0) co_return Ok();
      co_return co_await VisitLeaf(op, place, next);
    }
    place.low = ends.high.key;
    place.node = ends.sibling;
    place.came_over_left = true;
  }
}

Task<Status> LossRepairer::LookBehind(Op& op, const Place& place, const Key& high,
                                      HighFence& next) {
  const Result<Place> right = co_await Find(op, SearchGoal::Covering(high), place.level);
  if (!right) co_return right.error();
  const Place& there = right.value();
  next = HighFence::At(high);
  // One with a downlink has been counted.
  if (there.level > place.level || there.low == high) co_return Ok();
  AddLost(place.level, high, there.end);
  next = there.end;
  co_return Ok();
}

// 1 RT for the lock, 1 RT for a new node, 1 RT for the node.
Task<Status> LossRepairer::MendSibling(Op& op, const Place& place, const Ends& ends) {
  const uint32_t level = place.level;
  const Key high = ends.high.key;
  const Result<Place> right = co_await Find(op, SearchGoal::Covering(high), level);
  if (!right) co_return right.error();
  const Place& there = right.value();
  const bool has_downlink = there.level == level && there.low == high;
  if (there.level != level || (has_downlink && IsLost(there.node))) co_return HasChanged();
  // A lost node without a downlink ends where the next downlink is.
  RemotePtr behind;
  if (!has_downlink && !there.end.infinite) {
    const Result<Place> after = co_await Find(op, SearchGoal::Covering(there.end.key), level);
    if (!after) co_return after.error();
    const bool is_known = after.value().level == level && after.value().low == there.end.key;
    if (!is_known) co_return HasChanged();
    behind = after.value().node;
  }
  RemotePtr below;
  if (!has_downlink && level != 0) {
    const Result<RemotePtr> first = co_await FindByLeft(op, level - 1, high);
    if (!first) co_return first.error();
    below = first.value().is_null() ? ends.sibling : first.value();
  }

  RemoteLock lock(context_.locks, op);
  BufferLease buffers;
  BOOST_OUTCOME_CO_TRYV(co_await Lock(place.node, lock, buffers));
  NewNodes added(context_);
  NodeVersion version{0};
  const auto was_lost = [] { return true; };
  const auto replacement = [&]() -> Task<Result<RemotePtr>> {
    if (has_downlink) co_return there.node;
    const Result<RemotePtr> made =
        co_await AddNew(op, place.node.server(), level, high, there.end, behind, below, added);
    co_return made;
  };
  if (level == 0) {
    const std::optional<LeafView> leaf =
        LeafView::Parse(ImageIn(buffers), place.node, context_.geometry(), place.low);
    const bool is_it = leaf && !leaf->frozen() && leaf->high() == ends.high &&
                       rules::MayReplace(leaf->trailer().sibling() == ends.sibling, was_lost);
    if (!is_it) co_return co_await ReleaseAfter(lock, HasChanged());
    const Result<RemotePtr> first = co_await replacement();
    if (!first) co_return co_await ReleaseAfter(lock, first.error());
    std::vector<Entry> entries;
    KeyArena keys;
    leaf->AppendTo(entries, keys);
    version = Next(leaf->version());
    const LeafContent content{version,       place.low, ends.high,
                              first.value(), entries,   OwnPrefixOf(*leaf)};
    const Status encoded = EncodeLeafIn(buffers, place.node, content);
    if (!encoded) co_return co_await ReleaseAfter(lock, encoded.error());
  } else {
    std::optional<InternalNode> node = DecodeInternal(ImageIn(buffers), place.node);
    const bool is_it = node && !node->frozen && node->high == ends.high &&
                       rules::MayReplace(node->sibling == ends.sibling, was_lost) &&
                       node->low() == place.low.view();
    if (!is_it) co_return co_await ReleaseAfter(lock, HasChanged());
    const Result<RemotePtr> first = co_await replacement();
    if (!first) co_return co_await ReleaseAfter(lock, first.error());
    node->sibling = first.value();
    node->version = version = Next(node->version);
    if (!EncodeInternal(ImageIn(buffers), place.node, *node)) {
      co_return co_await ReleaseAfter(lock, CorruptNode(place.node, "a node that does not fit"));
    }
  }
  BOOST_OUTCOME_CO_TRYV(co_await Commit(op, place, version, added, lock, buffers));
  if (!has_downlink) AddLost(level, high, there.end);
  co_return Ok();
}

// The entries may point into what was in `buffers`.
Status LossRepairer::EncodeLeafIn(BufferLease& buffers, RemotePtr leaf,
                                  const LeafContent& content) const {
  std::vector<std::byte> image(node_bytes());
  if (!EncodeLeaf(image, leaf, context_.geometry(), content)) {
    return CorruptNode(leaf, "a leaf that does not fit");
  }
  std::ranges::copy(image, ImageIn(buffers).begin());
  return Ok();
}

// 1 RT for a leaf that stays as it is; 2 RT more for one that loses entries.
Task<Status> LossRepairer::VisitLeaf(Op& op, const Place& place, HighFence& next) {
  uint64_t count = 0;
  uint64_t lost_bytes = 0;
  uint64_t lost = 0;
  std::vector<Entry> kept;
  const auto look = [&](const LeafView& leaf, KeyArena& keys) {
    std::vector<Entry> entries;
    leaf.AppendTo(entries, keys);
    count = entries.size();
    lost = lost_bytes = 0;
    kept.clear();
    for (const Entry& entry : entries) {
      const bool is_lost =
          entry.has_block() && options_.lost.contains(entry.block().ptr().server());
      if (!is_lost) {
        kept.push_back(entry);
        continue;
      }
      ++lost;
      lost_bytes += entry.block().length;
    }
  };
  {
    const Result<BufferLease> image = co_await context_.nodes.ReadLeaf(op, place.node, place.low);
    if (!image) co_return image.error();
    const std::optional<LeafView> leaf = LeafView::Parse(
        {image.value().data(), node_bytes()}, place.node, context_.geometry(), place.low);
    if (!leaf || (leaf->frozen() && !place.came_over_left)) co_return HasChanged();
    KeyArena keys;
    look(*leaf, keys);
    next = leaf->high();
  }
  if (lost != 0 && !options_.dry_run) {
    RemoteLock lock(context_.locks, op);
    BufferLease buffers;
    BOOST_OUTCOME_CO_TRYV(co_await Lock(place.node, lock, buffers));
    const std::optional<LeafView> leaf =
        LeafView::Parse(ImageIn(buffers), place.node, context_.geometry(), place.low);
    if (!leaf || leaf->frozen()) co_return co_await ReleaseAfter(lock, HasChanged());
    KeyArena keys;
    look(*leaf, keys);
    next = leaf->high();
    const NodeVersion version = Next(leaf->version());
    const LeafContent content{version, place.low,         leaf->high(), leaf->trailer().sibling(),
                              kept,    OwnPrefixOf(*leaf)};
    const Status encoded = EncodeLeafIn(buffers, place.node, content);
    if (!encoded) co_return co_await ReleaseAfter(lock, encoded.error());
    NewNodes none(context_);
    BOOST_OUTCOME_CO_TRYV(co_await Commit(op, place, version, none, lock, buffers));
  }
  report_.lost_values += lost;
  report_.lost_bytes += lost_bytes;
  report_.keys += count - lost;
  if (!new_nodes_.contains(place.node.word())) ++leaves_;
  co_return Ok();
}

}  // namespace gossamer
