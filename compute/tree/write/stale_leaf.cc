// LeafLocker where the locked leaf is not, or not any more, that of the key.
#include <utility>

#include "compute/rules/rules.h"
#include "compute/tree/write/locked_leaf.h"

namespace gossamer {
namespace {

// A leaf whose group and trailer do not agree, or to which only stale paths should lead, this many times in a row is corrupt.
constexpr uint32_t kMaxDisagreements = 16;

}  // namespace

Task<Status> LeafLocker::LeaveStaleLeaf(Op& op, LockedLeaf& locked, const LeafWrite& write,
                                        bool is_valid, Search& search) const {
  const KeyView key = write.entry.key;
  const RemotePtr leaf = locked.leaf();
  if (is_valid && !locked.unit(write.unit).frozen()) {
    // Each hop goes right, or a chain of damaged leaves could lead back (rule W7).
    is_valid = locked.unit(write.unit).high().key.view() > locked.path.low.view();
  }
  if (!is_valid) {
    // Memory that is another's by now is met once: the path is looked up again after each failure.
    search.failures = leaf == search.failed ? search.failures + 1 : 1;
    search.failed = leaf;
  }
  if (rules::IsDamaged(search.failures, kMaxFailures)) {
    co_return co_await ReleaseAfter(
        locked, CorruptNode(leaf, "a leaf that fails its checksums under its lock"));
  }
  const NodeCache::Step stale = locked.path;
  if (is_valid) ++context_.counters.cache.stale;
  if (is_valid && locked.unit(write.unit).frozen()) {
    co_return co_await LeaveFrozenLeaf(op, locked, search);
  }
  search.left.reset();
  RemotePtr sibling;
  const bool must_descend = is_valid && !stale.has_parent() && !search.is_afresh;
  if (is_valid && !must_descend) {
    // The leaf has split: keys at or above its high fence are right of it.
    const Key low = locked.unit(write.unit).high().key;
    const Result<RemotePtr> read = co_await ReleaseForSibling(locked, write.unit);
    if (!read) co_return read.error();
    sibling = read.value();
    locked.path = NodeCache::Step{sibling, 0, RemotePtr(), 0, low};
  } else {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    locked.path = {};
  }
  locked.lock.GiveUpTurn();
  context_.cache.ForgetPath(stale);
  if (must_descend) {
    search.is_afresh = true;
    const Result<NodeCache::Step> path =
        co_await context_.descent.To(op, SearchGoal::Covering(key), 0, Descent::Trust::kNothing);
    if (!path) co_return path.error();
    locked.path = path.value();
  } else if (!sibling.is_null()) {
    search.left = stale.low;
    context_.missing.Note(leaf, 0, stale.low);
  } else {
    // The node is another one now, or corrupt: the parent, read again, decides (rule R5).
    const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
    if (!root) co_return root.error();
  }
  search.has_path = !locked.path.node.is_null();
  // Another split or a loss may come between the READs of group and trailer, but not every time.
  search.disagreements = is_valid && !search.has_path ? search.disagreements + 1 : 0;
  if (search.disagreements == kMaxDisagreements) {
    co_return CorruptNode(leaf, "a leaf whose group and trailer do not agree");
  }
  co_return Ok();
}

Task<Status> LeafLocker::LeaveFrozenLeaf(Op& op, LockedLeaf& locked, Search& search) const {
  const NodeCache::Step stale = std::exchange(locked.path, {});
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
  locked.lock.GiveUpTurn();
  context_.cache.ForgetPath(stale);
  const std::optional<Key> left = std::exchange(search.left, std::nullopt);
  search.has_path = false;
  if (left) {
    Status absorbed = co_await context_.absorb(op, *left);
    // That the merge may have been finished is no news about this operation.
    const bool is_over = absorbed || absorbed.error().code == Code::kMaybeApplied;
    if (is_over) co_return Ok();
    co_return absorbed;
  }
  // Its left neighbour has taken its entries over: the parent, read again, leads there.
  search.disagreements = stale.node == search.failed ? search.disagreements + 1 : 1;
  search.failed = stale.node;
  if (search.disagreements == kMaxDisagreements) {
    co_return CorruptNode(stale.node, "a leaf that is frozen though a parent leads to it");
  }
  const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
  if (!root) co_return root.error();
  co_return Ok();
}

// The READ may take effect behind the release (N2): the equal version proves that the sibling is
// still that of the group (rule R3). Returns null if trailer and group do not agree.
// Cost: 1 RT.
Task<Result<RemotePtr>> LeafLocker::ReleaseForSibling(LockedLeaf& locked, uint32_t unit) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  const NodeVersion version = locked.unit(unit).version();
  const LocalAddress into = locked.image(geometry.trailer_offset());
  const Result<RemoteLock::ReadState> read = co_await locked.lock.ReleaseAndRead(
      Verb::Read(leaf.offset() + geometry.trailer_offset(), kTrailerBytes, into));
  if (!read) co_return read.error();
  if (read.value() == RemoteLock::ReadState::kUnknown) co_return RemotePtr();
  const std::optional<TrailerView> trailer =
      rules::ParseTrailer({into.data, kTrailerBytes}, leaf, geometry);
  if (!trailer || trailer->version() != version) co_return RemotePtr();
  co_return trailer->sibling();
}

}  // namespace gossamer
