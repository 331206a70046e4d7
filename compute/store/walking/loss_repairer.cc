#include "compute/store/walking/loss_repairer.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compute/lock/remote_lock.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A step that finds the tree changed by others so often in a row gives up.
constexpr uint32_t kMostTries = 64;
constexpr uint32_t kMostDescents = 4;
constexpr uint64_t kTellEvery = 1024;  // nodes

// Without it, the leaf's entries may not fit again.
OwnPrefix OwnPrefixOf(const LeafView& leaf) {
  const Bounds bounds = leaf.unit(0).bounds();
  return {bounds.prefix_of, bounds.prefix.size()};
}

}  // namespace

Task<Result<RepairReport>> LossRepairer::Run() {
  for (const ServerId server : options_.lost) report_.lost_servers.push_back(ToInteger(server));
  uint32_t top = 0;
  const auto find_top = [&](Op& op) -> Task<Status> {
    BOOST_OUTCOME_CO_TRY(root, co_await context_.nodes.ReadRoot(op));
    if (IsLost(root.pointer())) {
      co_return MakeError(
          Code::kNodeUnreachable,
          fmt::format(
              "the root was on memory server {}, which is gone: the store cannot be repaired. "
              "Write what is left with gossamer dump --salvage, and load it into a new store",
              ToInteger(root.pointer().server())));
    }
    top = root.level();
    co_return Ok();
  };
  Status done = co_await Do(find_top);
  // The siblings of a level are mended before children of its nodes are replaced.
  if (done) done = co_await WalkLevel(top, &LossRepairer::VisitNode);
  for (uint32_t level = top; done && level > 0; --level) {
    done = co_await WalkLevel(level, &LossRepairer::VisitParent);
    if (done) done = co_await WalkLevel(level - 1, &LossRepairer::VisitNode);
  }
  if (is_stopped_) {
    report_.was_stopped = true;
  } else if (!done) {
    co_return done.error();
  }
  if (leaves_ != 0) report_.lost_keys = report_.lost_leaves * report_.keys / leaves_;
  report_.lost_bytes += report_.lost_leaves * node_bytes();
  std::ranges::sort(report_.ranges, {}, &KeyRange::from);
  co_return std::move(report_);
}

Task<Status> LossRepairer::Do(std::function<Task<Status>(Op&)> step) {
  for (uint32_t tries = 0;; ++tries) {
    Status done = Ok();
    {
      const RunningOperations::Scope scope(context_.running);
      Op op = context_.links.Begin();
      op.kind = OperationClass::kMerge;
      done = co_await step(op);
      context_.counters.of(OperationClass::kMerge) += op.wire;
      if (done || is_stopped_) co_return done;
      Error error = done.error();
      // Each step looks at the tree anew, so a change that may have been made is found.
      const bool is_changed = error.code == Code::kContended || error.code == Code::kMaybeApplied ||
                              error.code == Code::kCorruption;
      const bool again = is_changed || co_await context_.links.RecoverFrom(op, error);
      if (!again || tries == kMostTries) co_return error;
    }
    co_await context_.pauses.After(tries + 1);
  }
}

Status LossRepairer::Tell() {
  ++nodes_;
  const bool is_due = nodes_ % kTellEvery == 0 && options_.progress;
  if (!is_due || options_.progress(nodes_)) return Ok();
  is_stopped_ = true;
  return MakeError(Code::kContended, "the repair was ended early, as its caller asked");
}

void LossRepairer::AddLost(uint32_t level, const Key& from, const HighFence& end) {
  ++(level == 0 ? report_.lost_leaves : report_.lost_internal_nodes);
  // Of an internal node that is replaced, the lost nodes below count.
  if (level != 0 && !options_.dry_run) return;
  std::optional<std::string> to;
  if (!end.infinite) to = std::string(end.key.view());
  report_.ranges.emplace_back(std::string(from.view()), std::move(to));
}

// 1 RT for the root word, 1 RT for each level.
Task<Result<LossRepairer::Place>> LossRepairer::Find(Op& op, SearchGoal goal, uint32_t level) {
  for (uint32_t attempt = 0; attempt < kMostDescents; ++attempt) {
    BOOST_OUTCOME_CO_TRY(root, co_await context_.nodes.ReadRoot(op));
    Place place;
    place.node = root.pointer();
    place.level = root.level();
    bool is_right = true;
    while (is_right && place.level > level && !IsLost(place.node)) {
      const Result<InternalNode> read = co_await context_.nodes.ReadInternal(op, place.node);
      if (!read && read.error().code != Code::kCorruption) co_return read.error();
      is_right = read && read.value().level == place.level && !goal.IsBefore(read.value().low()) &&
                 (!read.value().frozen || place.came_over_left || read.value().was_root());
      if (!is_right) break;
      const InternalNode& node = read.value();
      if (goal.IsBeyond(node.high)) {
        is_right = !node.sibling.is_null();
        place.node = node.sibling;
        place.low = node.high.key;
        place.came_over_left = true;
        continue;
      }
      const size_t index = goal.Choose(node, node.children.size());
      place.end = index + 1 < node.children.size()
                      ? HighFence::At(node.children[index + 1].separator)
                      : node.high;
      place.node = node.children[index].pointer;
      place.low = node.children[index].separator;
      place.came_over_left = false;
      --place.level;
    }
    if (is_right) co_return place;
  }
  co_return HasChanged();
}

Task<Result<LossRepairer::Ends>> LossRepairer::ReadEnds(Op& op, const Place& place) {
  Ends ends;
  if (place.level == 0) {
    BOOST_OUTCOME_CO_TRY(leaf, co_await context_.nodes.ReadLeafEnd(op, place.node, place.low));
    ends.high = leaf.high;
    ends.sibling = leaf.sibling;
    co_return ends;
  }
  BOOST_OUTCOME_CO_TRY(node, co_await context_.nodes.ReadInternal(op, place.node));
  if (node.level != place.level || node.low() != place.low.view()) {
    co_return HasChanged();
  }
  ends.high = node.high;
  ends.sibling = node.sibling;
  co_return ends;
}

// ---- Downlinks

Task<Status> LossRepairer::WalkLevel(uint32_t level, Visit visit) {
  HighFence next = HighFence::At({});
  while (!next.infinite) {
    const Key from = next.key;
    const auto visit_one = [&](Op& op) { return (this->*visit)(op, level, from, next); };
    BOOST_OUTCOME_CO_TRYV(co_await Do(visit_one));
  }
  co_return Ok();
}

Task<Status> LossRepairer::VisitParent(Op& op, uint32_t level, const Key& from, HighFence& next) {
  BOOST_OUTCOME_CO_TRYV(Tell());
  BOOST_OUTCOME_CO_TRY(place, co_await Find(op, SearchGoal::Covering(from), level));
  if (place.level < level) {
    next = {};  // the tree has become lower
    co_return Ok();
  }
  Result<InternalNode> read = HasChanged();
  // Nodes without downlinks follow it, up to the one that covers `from`.
  for (;;) {
    if (place.level > level || IsLost(place.node)) {
      if (!options_.dry_run) co_return HasChanged();
      next = place.end;
      co_return Ok();
    }
    read = co_await context_.nodes.ReadInternal(op, place.node);
    if (!read) co_return read.error();
    if (read.value().level != level || read.value().low() != place.low.view()) {
      co_return HasChanged();
    }
    if (read.value().high.Admits(from)) break;
    place.low = read.value().high.key;
    place.node = read.value().sibling;
  }
  const InternalNode& node = read.value();
  if (node.frozen && !node.was_root()) co_return HasChanged();
  // It has split since: the first part comes first.
  std::map<std::string, RemotePtr> below;
  size_t lost = 0;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const InternalNode::Child& child = node.children[i];
    if (!IsLost(child.pointer)) continue;
    ++lost;
    const bool is_last = i + 1 == node.children.size();
    const HighFence end = is_last ? node.high : HighFence::At(node.children[i + 1].separator);
    if (options_.dry_run) {
      AddLost(level - 1, child.separator, end);
    } else if (level > 1 && below.empty()) {
      BOOST_OUTCOME_CO_TRY(first, co_await FindByLeft(op, level - 2, child.separator));
      below[std::string(child.separator.view())] = first;
    }
  }
  if (lost != 0 && !options_.dry_run) {
    RemotePtr behind;
    if (!node.high.infinite) {
      BOOST_OUTCOME_CO_TRY(right, co_await context_.nodes.ReadInternal(op, node.sibling));
      if (right.low() != node.high.key.view()) co_return HasChanged();
      behind = right.children.front().pointer;
    }
    BOOST_OUTCOME_CO_TRYV(co_await ReplaceChildrenOf(op, place, node, behind, below));
  }
  // Internal nodes one after the other: the one that replaces the first may lead to what the second
  // has.
  const bool is_done = options_.dry_run || level == 1 || lost <= 1;
  next = is_done ? node.high : HighFence::At(from);
  co_return Ok();
}

// 1 RT for the lock, 1 RT for each few new nodes, 1 RT for the parent.
Task<Status> LossRepairer::ReplaceChildrenOf(Op& op, const Place& place, const InternalNode& seen,
                                             RemotePtr behind,
                                             const std::map<std::string, RemotePtr>& below) {
  RemoteLock lock(context_.locks, op);
  BufferLease buffers;
  BOOST_OUTCOME_CO_TRYV(co_await Lock(place.node, lock, buffers));
  std::optional<InternalNode> node = DecodeInternal(ImageIn(buffers), place.node);
  const bool is_it = node && !node->frozen && node->level == place.level &&
                     node->low() == place.low.view() && node->sibling == seen.sibling;
  if (!is_it) co_return co_await ReleaseAfter(lock, HasChanged());
  const uint32_t level = place.level - 1;
  NewNodes added(context_);
  std::vector<std::pair<Key, HighFence>> lost;
  // From the right, so that each one's right neighbour is known.
  for (size_t i = node->children.size(); i-- > 0;) {
    InternalNode::Child& child = node->children[i];
    const auto was_lost = [&] {
      const InternalNode::Child& before = seen.children[seen.ChildIndex(child.separator)];
      return before.separator == child.separator && IsLost(before.pointer);
    };
    if (!rules::MayReplace(IsLost(child.pointer), was_lost)) continue;
    const bool is_last = i + 1 == node->children.size();
    const HighFence end = is_last || !rules::EndsAtNextDownlink()
                              ? node->high
                              : HighFence::At(node->children[i + 1].separator);
    RemotePtr first;
    if (level != 0) {
      const auto known = below.find(std::string(child.separator.view()));
      if (known == below.end()) continue;
      // One that is not known is lost as this one, and is replaced by an empty one.
      first = known->second.is_null() ? child.pointer : known->second;
    }
    const RemotePtr right = is_last ? behind : node->children[i + 1].pointer;
    const Result<RemotePtr> replaced =
        co_await AddNew(op, place.node.server(), level, child.separator, end, right, first, added);
    if (!replaced) co_return co_await ReleaseAfter(lock, replaced.error());
    lost.emplace_back(child.separator, end);
    child.pointer = replaced.value();
  }
  if (lost.empty()) co_return co_await lock.Release();
  node->version = Next(node->version);
  if (!EncodeInternal(ImageIn(buffers), place.node, *node)) {
    co_return co_await ReleaseAfter(lock, CorruptNode(place.node, "a node that does not fit"));
  }
  BOOST_OUTCOME_CO_TRYV(co_await Commit(op, place, node->version, added, lock, buffers));
  for (const auto& [from, end] : lost) AddLost(level, from, end);
  co_return Ok();
}

Task<Result<RemotePtr>> LossRepairer::FindByLeft(Op& op, uint32_t level, const Key& low) {
  if (low.view().empty()) co_return RemotePtr();
  const HighFence bound = HighFence::At(low);
  BOOST_OUTCOME_CO_TRY(place, co_await Find(op, SearchGoal::Below(bound), level));
  while (place.level == level && !IsLost(place.node)) {
    BOOST_OUTCOME_CO_TRY(ends, co_await ReadEnds(op, place));
    if (ends.high.infinite || ends.high.key.view() > low.view()) break;
    if (ends.high.key == low) co_return ends.sibling;
    place.low = ends.high.key;
    place.node = ends.sibling;
  }
  co_return RemotePtr();
}

// ---- Changes

Task<Result<RemotePtr>> LossRepairer::AddNew(Op& op, ServerId near, uint32_t level, const Key& low,
                                             const HighFence& end, RemotePtr sibling,
                                             RemotePtr child, NewNodes& added) {
  // A leaf has a short high fence: several may be needed up to a long one.
  std::vector<Key> starts{low};
  while (level == 0 && !end.infinite && !IsShortFence(starts.back(), end.key)) {
    starts.emplace_back(SeparatorBelow(starts.back(), end.key));
  }
  RemotePtr right = sibling;
  HighFence high = end;
  for (size_t i = starts.size(); i-- > 0;) {
    BOOST_OUTCOME_CO_TRY(allocated,
                         co_await context_.memory.AllocateNode(
                             op, near, level == 0 ? NodeKind::kLeaf : NodeKind::kInternal));
    const RemotePtr pointer = allocated.pointer();
    BOOST_OUTCOME_CO_TRY(image, added.unseen.Add(pointer));
    if (level == 0) {
      const LeafContent content{NodeVersion{1}, starts[i], high, right, {}};
      EncodeLeaf(image, pointer, context_.geometry(), content);
    } else {
      InternalNode node;
      node.version = NodeVersion{1};
      node.level = static_cast<uint8_t>(level);
      node.high = high;
      node.sibling = right;
      node.children.push_back({starts[i], child});
      if (!EncodeInternal(image, pointer, node)) {
        co_return CorruptNode(pointer, "an internal node that does not fit");
      }
    }
    // Nobody says that it is linked, so it counts as left behind, and a sweep is asked for. That
    // one also finds what only the lost node named.
    allocated.Posted();
    added.stamps.push_back(allocated.stamp());
    new_nodes_.insert(pointer.word());
    right = pointer;
    high = HighFence::At(starts[i]);
  }
  co_return right;
}

Task<Status> LossRepairer::Lock(RemotePtr node, RemoteLock& lock, BufferLease& buffers) {
  BOOST_OUTCOME_CO_TRY(made, context_.links.Buffer(LockedBuffers::Bytes(node_bytes())));
  buffers = std::move(made);
  lock.UseWords(buffers.address(LockedBuffers::kLockWord),
                buffers.address(LockedBuffers::kUnlockWord));
  const Verb read = Verb::Read(node.offset(), node_bytes(), buffers.address(LockedBuffers::kImage));
  BOOST_OUTCOME_CO_TRYV(lock.AimAt(node));
  co_return co_await lock.Take({&read, 1});
}

Task<Status> LossRepairer::Commit(Op& op, const Place& place, NodeVersion version, NewNodes& added,
                                  RemoteLock& lock, const BufferLease& buffers) {
  const Status written = co_await added.unseen.WriteRest(op);
  if (!written) co_return co_await ReleaseAfter(lock, written.error());
  for (const AllocationStamp& stamp : added.stamps) lock.linked().Add(stamp);
  InlineBatch<2> batch(place.node.server());
  batch.Add(Verb::Write(place.node.offset(), node_bytes(), buffers.address(LockedBuffers::kImage)));
  const RemoteLock::NewVersion changed{place.node, place.level, version, place.low};
  const Status committed = co_await lock.Commit(batch, RemoteLock::After::kRelease, changed);
  if (!committed && lock.is_held()) co_return co_await ReleaseAfter(lock, committed.error());
  co_return committed;
}

Task<Status> LossRepairer::ReleaseAfter(RemoteLock& lock, Error error) {
  if (lock.is_held()) {
    static_cast<void>(co_await lock.Release());  // nothing rests on what was read
  }
  co_return error;
}

std::span<std::byte> LossRepairer::ImageIn(BufferLease& buffers) const {
  return {buffers.data() + LockedBuffers::kImage, node_bytes()};
}

// ---- Siblings and entries

Task<Status> LossRepairer::VisitNode(Op& op, uint32_t level, const Key& from, HighFence& next) {
  BOOST_OUTCOME_CO_TRYV(Tell());
  BOOST_OUTCOME_CO_TRY(place, co_await Find(op, SearchGoal::Covering(from), level));
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
    BOOST_OUTCOME_CO_TRY(ends, co_await ReadEnds(op, place));
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
  BOOST_OUTCOME_CO_TRY(there, co_await Find(op, SearchGoal::Covering(high), place.level));
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
  BOOST_OUTCOME_CO_TRY(there, co_await Find(op, SearchGoal::Covering(high), level));
  const bool has_downlink = there.level == level && there.low == high;
  if (there.level != level || (has_downlink && IsLost(there.node))) co_return HasChanged();
  // A lost node without a downlink ends where the next downlink is.
  RemotePtr behind;
  if (!has_downlink && !there.end.infinite) {
    BOOST_OUTCOME_CO_TRY(after, co_await Find(op, SearchGoal::Covering(there.end.key), level));
    const bool is_known = after.level == level && after.low == there.end.key;
    if (!is_known) co_return HasChanged();
    behind = after.node;
  }
  RemotePtr below;
  if (!has_downlink && level != 0) {
    BOOST_OUTCOME_CO_TRY(first, co_await FindByLeft(op, level - 1, high));
    below = first.is_null() ? ends.sibling : first;
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
    BOOST_OUTCOME_CO_TRY(image, co_await context_.nodes.ReadLeaf(op, place.node, place.low));
    const std::optional<LeafView> leaf =
        LeafView::Parse({image.data(), node_bytes()}, place.node, context_.geometry(), place.low);
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
