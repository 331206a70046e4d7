#include "compute/tree/get.h"

#include <fmt/core.h>

#include <algorithm>

#include "compute/node/unit_buffers.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A path whose leaf was read this many times in vain is looked up again.
constexpr uint32_t kRereadsOfAPath = 4;

}  // namespace

std::optional<std::string> ValueOfLongKey(std::string_view content, KeyView key) {
  const std::optional<LongContent> parts = SplitLongContent(content);
  if (!parts || !rules::IsTheKey(parts->key == key)) return std::nullopt;
  return std::string(parts->value);
}

struct Getter::Units {
  Units(const LeafGeometry& leaf_geometry, uint64_t key_hash)
      : geometry(leaf_geometry), hash(key_hash), home(geometry.GroupOf(hash)) {}

  std::span<std::byte> bytes_at(size_t at) const {
    return {buffers.data() + at, geometry.unit_bytes()};
  }
  Verb ReadUnit(RemotePtr leaf, uint32_t number, size_t at) const {
    return Verb::Read(leaf.offset() + geometry.unit_offset(number), geometry.unit_bytes(),
                      buffers.address(at));
  }
  bool MayNeedOverflow(const Route& route) const {
    return !route.may_have_hint || LeafHint(route.path.hint).MayHaveOverflowed(hash, home);
  }
  Verb ReadOverflow(RemotePtr leaf) const {
    return ReadUnit(leaf, geometry.overflow_unit(), UnitBuffers::kOverflow);
  }
  void AddReads(Batch& batch, RemotePtr leaf, bool wants_overflow) const {
    batch.Add(ReadUnit(leaf, home, UnitBuffers::kHome));
    if (wants_overflow) batch.Add(ReadOverflow(leaf));
  }

  const LeafGeometry& geometry;
  uint64_t hash;
  uint32_t home;
  BufferLease buffers;  // laid out as UnitBuffers
};

bool Getter::Prepare(KeyView key, First& first) {
  if (!first.plain.Prepare(context_, key, context_.cache.FindSpot(key))) return false;
  const LeafGeometry& geometry = context_.geometry();
  // Before all else that is done until the READ is posted.
  context_.links.Prefetch(first.plain.leaf(), geometry.unit_offset(first.plain.home()),
                          geometry.unit_bytes());
  Result<BufferLease> buffers = context_.links.Buffer(UnitBuffers::kBytes);
  if (!buffers) return false;
  first.buffers = std::move(buffers.value());
  first.batch.Reset(first.plain.leaf().server());
  first.plain.AddReads(geometry, first.buffers.address(), first.batch);
  return true;
}

// The plain case takes one coroutine, and no copy of a path.
Task<Result<std::string>> Getter::GetUntilDone(KeyView key) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  First first;
  if (!Prepare(key, first)) co_return co_await GoUntilDone(op, key, nullptr);
  context_.cache.CountHits(1);
  co_await context_.links.Execute(op, first.batch);
  const PlainGet& plain = first.plain;
  PlainGet::Answer answer;
  if (plain.is_read()) {
    answer = plain.Judge(
        context_, key,
        rules::ParseUnit(plain.home_unit(context_.geometry()), plain.leaf(), plain.home(), key));
  }
  if (answer.state == PlainGet::State::kNotPlain) {
    co_return co_await GoUntilDone(op, key, &first);
  }
  context_.Finish(op, OperationClass::kRead, nullptr);
  if (answer.state == PlainGet::State::kAbsent) co_return MakeError(Code::kNotFound);
  co_return std::string(answer.value);
}

Task<Result<std::string>> Getter::GoUntilDone(Op& op, KeyView key, First* first) {
  Result<std::string> value = co_await Go(op, key, first);
  while (!value) {
    const bool again = co_await context_.links.RecoverFrom(op, value.error());
    if (!again) break;
    value = co_await Go(op, key, nullptr);
  }
  context_.Finish(op, OperationClass::kRead, value ? nullptr : &value.error());
  co_return value;
}

bool Getter::FindCached(KeyView key, bool is_counted, NodeCache::Step& path) const {
  const std::optional<NodeCache::Step> cached =
      is_counted ? context_.cache.Find(SearchGoal::Covering(key), 0) : context_.cache.FindLeaf(key);
  if (!cached || cached->level != 0) return false;
  path = *cached;
  return true;
}

Task<Result<std::string>> Getter::Go(Op& op, KeyView key, First* first) {
  BOOST_OUTCOME_CO_TRYV(context_.CheckKey(key));
  const LeafGeometry& geometry = context_.geometry();
  Links& links = context_.links;
  Units units(geometry, KeyHash(key));
  Result<BufferLease> lease = first != nullptr ? Result<BufferLease>(std::move(first->buffers))
                                               : links.Buffer(UnitBuffers::kBytes);
  if (!lease) co_return lease.error();
  units.buffers = std::move(lease.value());
  Route route;
  bool has_path = false;
  for (uint32_t reread = 0; reread <= kMaxRereads;) {
    route.may_have_hint = has_path || FindCached(key, first != nullptr, route.path);
    if (!route.may_have_hint) {
      BOOST_OUTCOME_CO_TRYV(co_await FindPath(op, key, route));
    }
    const RemotePtr leaf = route.path.node;
    BOOST_OUTCOME_CO_TRYV(co_await links.ConnectFor(leaf, geometry.node_bytes()));
    InlineBatch<2> batch(leaf.server());
    const bool is_read = first != nullptr && first->plain.leaf() == leaf;
    const bool wants_overflow =
        is_read ? first->plain.reads_overflow() : units.MayNeedOverflow(route);
    if (is_read) {
      for (const Verb& verb : first->batch.verbs()) batch.Add(verb);
    } else {
      units.AddReads(batch, leaf, wants_overflow);
      co_await links.Execute(op, batch);
    }
    first = nullptr;
    if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
    std::optional<GroupView> home =
        rules::ParseUnit(units.bytes_at(UnitBuffers::kHome), leaf, units.home, route.path.low);
    if (home) home = rules::WithItsPrefix(*home, units.bytes_at(UnitBuffers::kHome), key);
    if (home && home->frozen() && !MayReadFrozen(route)) {
      LookUpAgain(route, has_path);
      ++reread;
      continue;
    }
    if (home && !home->Covers(key)) {
      const Result<Hop> hop = co_await LeaveStaleLeaf(op, key, units, route);
      if (!hop) co_return hop.error();
      has_path = hop.value() == Hop::kMoved;
      if (!has_path) ++reread;
      continue;
    }
    std::optional<Entry> entry;
    std::optional<GroupView> overflow;
    bool is_whole = home.has_value();
    if (is_whole) entry = FindEntry(*home, key, units.hash, geometry);
    if (is_whole && !entry && home->overflowed()) {
      if (!wants_overflow) {
        batch.Reset(leaf.server());
        batch.Add(units.ReadOverflow(leaf));
        co_await links.Execute(op, batch);
        if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
      }
      overflow = GroupView::Parse(units.bytes_at(UnitBuffers::kOverflow), leaf,
                                  geometry.overflow_unit(), route.path.low);
      is_whole = overflow && rules::OfOneVersion(*home, *overflow);
      if (is_whole) entry = FindEntry(*overflow, key, units.hash, geometry);
    }
    if (is_whole) {
      if (route.path.has_parent()) {
        LearnHint(context_, key, {leaf, route.path.hint}, units.home, *home, overflow);
      }
      if (!entry) co_return MakeError(Code::kNotFound);
      Result<std::optional<std::string>> value = co_await ReadValue(op, key, *entry);
      if (!value) co_return value.error();
      if (value.value()) co_return std::move(*value.value());
      // The entry has changed since: read it again.
    }
    ++context_.counters.rereads;
    ++reread;
    co_await context_.pauses.After(reread);
    // The memory may be another's by now.
    if (reread % kRereadsOfAPath == 0) LookUpAgain(route, has_path);
  }
  co_return co_await GetUnderLock(op, key);
}

// Cost: 1 RT if there is a block, and that of GetUnderLock if another key has the same hash.
Task<Result<std::optional<std::string>>> Getter::ReadValue(Op& op, KeyView key, Entry entry) {
  if (!entry.has_block()) co_return std::optional<std::string>(std::string(entry.stored));
  Result<std::optional<std::string>> content = co_await context_.blocks.Read(op, entry.block());
  if (!content || !content.value() || !entry.is_long()) co_return std::move(content);
  std::optional<std::string> value = ValueOfLongKey(*content.value(), key);
  if (value) co_return std::move(value);
  Result<std::string> locked = co_await GetUnderLock(op, key);
  if (!locked) co_return locked.error();
  co_return std::optional<std::string>(std::move(locked.value()));
}

Task<Status> Getter::FindPath(Op& op, KeyView key, Route& route) {
  const Result<NodeCache::Step> found =
      co_await context_.descent.To(op, SearchGoal::Covering(key), 0);
  if (!found) co_return found.error();
  route.path = found.value();
  // A leaf that is the root has none.
  route.may_have_hint = route.path.has_parent() && context_.cache.HasLeaf(key);
  co_return Ok();
}

// Otherwise its left neighbour may have taken its entries over long ago.
bool Getter::MayReadFrozen(const Route& route) const {
  if (route.left) {
    context_.store.merges.Note({0, *route.left, MergeQueue::Request::Kind::kUnfinished});
  }
  return rules::MayReadFrozen(route.left.has_value());
}

void Getter::LookUpAgain(Route& route, bool& has_path) {
  context_.cache.ForgetPath(route.path);
  route.left.reset();
  has_path = false;
}

Task<Result<Getter::Hop>> Getter::LeaveStaleLeaf(Op& op, KeyView key, const Units& units,
                                                 Route& route) {
  // A second hop is not taken, unless the tree was just descended without the cache (rule W7).
  const bool may_hop = route.path.has_parent() || route.is_afresh;
  if (may_hop) {
    co_return co_await HopRight(op, key, units, route);
  }
  route.is_afresh = true;
  route.left.reset();
  ++context_.counters.cache.stale;
  const Result<NodeCache::Step> found =
      co_await context_.descent.To(op, SearchGoal::Covering(key), 0, Descent::Trust::kNothing);
  if (!found) co_return found.error();
  route.path = found.value();
  co_return Hop::kMoved;
}

// Needs group and trailer of one version (rule R3). Cost: 1 RT; the caller reads the group of the sibling by another.
Task<Result<Getter::Hop>> Getter::HopRight(Op& op, KeyView key, const Units& units, Route& route) {
  const LeafGeometry& geometry = context_.geometry();
  NodeCache::Step& path = route.path;
  const RemotePtr leaf = path.node;
  InlineBatch<2> batch(leaf.server());
  batch.Add(units.ReadUnit(leaf, units.home, UnitBuffers::kHome));
  batch.Add(Verb::Read(leaf.offset() + geometry.trailer_offset(), kTrailerBytes,
                       units.buffers.address(UnitBuffers::kTrailer)));
  co_await context_.links.Execute(op, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  const std::optional<GroupView> home =
      GroupView::Parse(units.bytes_at(UnitBuffers::kHome), leaf, units.home, path.low);
  const std::optional<TrailerView> trailer = rules::ParseTrailer(
      {units.buffers.data() + UnitBuffers::kTrailer, kTrailerBytes}, leaf, geometry);
  // Each hop goes right, or a chain of damaged leaves could lead back (rule W7).
  const bool leads_right = home && home->high().key.view() > path.low.view();
  if (!home || !trailer || !rules::OfOneVersion(*home, *trailer) || home->Covers(key) ||
      trailer->sibling().is_null() || !leads_right ||
      (home->frozen() && !rules::MayReadFrozen(route.left.has_value()))) {
    co_return Hop::kUndecided;
  }
  ++context_.counters.cache.stale;
  context_.cache.ForgetPath(path);
  context_.missing.Note(leaf, 0, path.low);
  const Key high = home->high().key;  // The view needs the path's low fence.
  route.left = path.low;
  path = NodeCache::Step{trailer->sibling(), 0, RemotePtr(), 0, high};
  co_return Hop::kMoved;
}

// No client writes the leaf while its lock is held. Cost: 2 RT.
Task<Result<std::string>> Getter::GetUnderLock(Op& op, KeyView key) {
  LeafWish sought;  // Writes nothing: names the key.
  sought.write.entry.key = key;
  sought.write.hash = KeyHash(key);
  sought.write.unit = context_.geometry().GroupOf(sought.write.hash);
  LockedLeaf locked(context_.locks, op);
  const Result<LeafLocker::Outcome> outcome =
      co_await leaves_.Lock(op, sought, false, nullptr, locked);
  if (!outcome) co_return outcome.error();
  Result<std::string> value = MakeError(Code::kNotFound);
  LeafEditor::Found found = locked.editor->Find(key, sought.write.unit);
  Status read = Ok();
  while (read && (found.unread || found.is_unsure)) {
    if (found.unread) {
      read = co_await leaves_.ReadOverflow(locked);
    } else {
      read = co_await leaves_.ReadLongKeys(op, locked, key);
    }
    if (read) found = locked.editor->Find(key, sought.write.unit);
  }
  if (!read) {
    value = read.error();
  } else if (found.entry && !found.entry->has_block()) {
    value = std::string(found.entry->stored);
  } else if (found.entry) {
    Result<std::optional<std::string>> block =
        co_await context_.blocks.Read(op, found.entry->block());
    std::optional<std::string> content;
    if (block && block.value()) {
      content =
          found.entry->is_long() ? ValueOfLongKey(*block.value(), key) : std::move(block.value());
    }
    if (!block) {
      value = block.error();
    } else if (content) {
      value = std::move(*content);
    } else {
      const BlockPtr at = found.entry->block().ptr();
      value = CorruptNode(
          locked.leaf(),
          fmt::format(
              "a value block at server {} offset {} that fails its checksum, of a key in the leaf",
              ToInteger(at.server()), at.offset()));
    }
  }
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
  co_return value;
}

}  // namespace gossamer
