#include "compute/tree/read/get.h"

#include <fmt/core.h>

#include <algorithm>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A path whose leaf was read this many times in vain is looked up again.
constexpr uint32_t kRereadsOfAPath = 4;

}  // namespace

bool Getter::Begin(KeyView key, Begun& begun) {
  const uint64_t hash = KeyHash(key);
  const bool may_guess = context_.guesses.are_there();
  if (may_guess) context_.guesses.Prefetch(hash);
  if (!begun.job.Aim(context_, key, hash, context_.cache.FindSpot(key))) return false;
  const LeafGeometry& geometry = context_.geometry();
  // Before all else that is done until the READ is posted.
  context_.links.Prefetch(begun.job.leaf(), geometry.unit_offset(begun.job.home()),
                          geometry.unit_bytes());
  if (may_guess) begun.job.Guess(context_);
  const size_t guess_bytes = begun.job.guess_bytes();
  Result<BufferLease> buffers = context_.links.Buffer(UnitBuffers::kBytes + guess_bytes);
  if (!buffers) return false;
  begun.buffers = std::move(buffers.value());
  LocalAddress block;
  if (guess_bytes != 0) block = begun.buffers.address(UnitBuffers::kBytes);
  begun.batch.Reset(begun.job.leaf().server());
  begun.job.AddReads(geometry, begun.buffers.address(), block, begun.batch);
  return true;
}

// The plain case takes one coroutine, and no copy of a path.
Task<Result<std::string>> Getter::GetUntilDone(KeyView key, uint64_t* expires_at) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Begun begun;
  if (!Begin(key, begun)) co_return co_await FinishUntilDone(op, key, nullptr, expires_at);
  context_.cache.CountHits(1);
  co_await context_.links.Execute(op, begun.batch);
  GetJob::Answer answer;
  if (begun.job.is_read()) {
    answer = begun.job.Judge(context_, key, key);
    begun.job.TakeGuess(context_, key, answer);
  }
  if (!answer.is_plain()) co_return co_await FinishUntilDone(op, key, &begun, expires_at);
  context_.counters.AddOperation(op.wire, OperationClass::kRead, nullptr);
  if (answer.verdict == GetJob::Verdict::kAbsent) co_return MakeError(Code::kNotFound);
  if (expires_at != nullptr) *expires_at = answer.expires_at;
  co_return std::string(answer.stored);
}

Task<Result<std::string>> Getter::FinishUntilDone(Op& op, KeyView key, Begun* begun,
                                                  uint64_t* expires_at) {
  Result<std::string> value = co_await Finish(op, key, begun, expires_at);
  while (!value) {
    const bool again = co_await context_.links.RecoverFrom(op, value.error());
    if (!again) break;
    value = co_await Finish(op, key, nullptr, expires_at);
  }
  context_.counters.AddOperation(op.wire, OperationClass::kRead, value ? nullptr : &value.error());
  co_return value;
}

Task<Result<std::string>> Getter::Finish(Op& op, KeyView key, Begun* begun, uint64_t* expires_at) {
  using Verdict = GetJob::Verdict;
  BOOST_OUTCOME_CO_TRYV(context_.CheckKey(key));
  const LeafGeometry& geometry = context_.geometry();
  Links& links = context_.links;
  BOOST_OUTCOME_CO_TRY(lease, begun != nullptr ? Result<BufferLease>(std::move(begun->buffers))
                                               : links.Buffer(UnitBuffers::kBytes));
  const BufferLease buffers = std::move(lease);
  Route route;
  for (uint32_t reread = 0; reread <= kMaxRereads;) {
    if (!route.has_path) {
      BOOST_OUTCOME_CO_TRYV(co_await FindPath(op, key, begun != nullptr, route));
    }
    const RemotePtr leaf = route.path.node;
    BOOST_OUTCOME_CO_TRYV(links.CheckReaches(op, leaf, geometry.node_bytes()));
    InlineBatch<GetJob::kMaxReads> batch(leaf.server());
    GetJob job;
    if (begun != nullptr && begun->job.leaf() == leaf) {
      job = begun->job;
      if (begun->batch.status() != VerbStatus::kSuccess)
        co_return Links::Unreachable(op, begun->batch);
    } else {
      job.Aim(geometry, KeyHash(key), {leaf, route.path.hint}, route.may_have_hint);
      job.AddReads(geometry, buffers.address(), {}, batch);
      co_await links.Execute(op, batch);
      if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
    }
    begun = nullptr;
    const Key* const left = route.left ? &*route.left : nullptr;
    GetJob::Answer answer = job.Judge(context_, key, route.path.low, left);
    InlineBatch<1> overflow(leaf.server());
    if (answer.verdict == Verdict::kOverflow) {
      job.AddOverflowRead(geometry, buffers.address(), overflow);
      co_await links.Execute(op, overflow);
      if (overflow.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, overflow);
      answer = job.Judge(context_, key, route.path.low, left);
    }
    if (expires_at != nullptr) *expires_at = answer.expires_at;
    switch (answer.verdict) {
      case Verdict::kFound: co_return std::string(answer.stored);
      case Verdict::kAbsent: co_return MakeError(Code::kNotFound);
      case Verdict::kBlock: {
        const Entry entry{key, answer.stored, answer.kind};
        BOOST_OUTCOME_CO_TRY(value, co_await ReadBlock(op, key, entry, expires_at));
        if (value) {
          context_.guesses.Learn(job.hash(), entry.block());
          co_return std::move(*value);
        }
        break;  // The entry has changed since.
      }
      case Verdict::kExpired: {
        BOOST_OUTCOME_CO_TRY(is_absent, co_await RemoveExpired(key));
        if (is_absent) co_return MakeError(Code::kNotFound);
        ++reread;
        continue;
      }
      case Verdict::kFrozen:
        LookUpAgain(route);
        ++reread;
        continue;
      case Verdict::kRightOfLeaf: {
        BOOST_OUTCOME_CO_TRYV(co_await LeaveStaleLeaf(op, key, buffers, route));
        if (!route.has_path) ++reread;
        continue;
      }
      case Verdict::kOverflow:
      case Verdict::kTorn: break;
    }
    ++context_.counters.rereads;
    ++reread;
    co_await context_.pauses.After(reread);
    // The memory may be another's by now.
    if (reread % kRereadsOfAPath == 0) LookUpAgain(route);
  }
  co_return co_await GetUnderLock(op, key, expires_at);
}

// Cost: 1 RT, and that of GetUnderLock if another key has the same hash.
Task<Result<std::optional<std::string>>> Getter::ReadBlock(Op& op, KeyView key, Entry entry,
                                                           uint64_t* expires_at) {
  Result<std::optional<std::string>> content = co_await context_.blocks.Read(op, entry.block());
  if (!content || !content.value() || !entry.is_long()) co_return std::move(content);
  const std::optional<std::string_view> value = BlockReader::ValueOf(key, *content.value());
  if (value) co_return std::optional(std::string(*value));
  BOOST_OUTCOME_CO_TRY(locked, co_await GetUnderLock(op, key, expires_at));
  co_return std::optional<std::string>(std::move(locked));
}

Task<Status> Getter::FindPath(Op& op, KeyView key, bool is_counted, Route& route) {
  route.left.reset();  // this path does not come over a sibling (rule R8)
  const std::optional<NodeCache::Step> cached =
      is_counted ? context_.cache.Find(SearchGoal::Covering(key), 0) : context_.cache.FindLeaf(key);
  route.may_have_hint = cached && cached->level == 0;
  if (route.may_have_hint) {
    route.path = *cached;
    co_return Ok();
  }
  BOOST_OUTCOME_CO_TRY(found, co_await context_.descent.To(op, SearchGoal::Covering(key), 0));
  route.path = found;
  // A leaf that is the root has none.
  route.may_have_hint = route.path.has_parent() && context_.cache.HasLeaf(key);
  co_return Ok();
}

void Getter::LookUpAgain(Route& route) {
  context_.cache.ForgetPath(route.path);
  route.left.reset();
  route.has_path = false;
}

Task<Status> Getter::LeaveStaleLeaf(Op& op, KeyView key, const BufferLease& buffers, Route& route) {
  // A second hop is not taken, unless the tree was just descended without the cache (rule W7).
  const bool may_hop = route.path.has_parent() || route.is_afresh;
  route.has_path = false;
  route.may_have_hint = true;
  if (may_hop) co_return co_await HopRight(op, key, buffers, route);
  route.is_afresh = true;
  route.left.reset();
  ++context_.counters.cache.stale;
  BOOST_OUTCOME_CO_TRY(found, co_await context_.descent.To(op, SearchGoal::Covering(key), 0,
                                                           Descent::Trust::kNothing));
  route.path = found;
  route.has_path = true;
  co_return Ok();
}

// Needs group and trailer of one version (rule R3). Cost: 1 RT; the caller reads the group of the
// sibling by another.
Task<Status> Getter::HopRight(Op& op, KeyView key, const BufferLease& buffers, Route& route) {
  const LeafGeometry& geometry = context_.geometry();
  NodeCache::Step& path = route.path;
  const RemotePtr leaf = path.node;
  InlineBatch<2> batch(leaf.server());
  const uint32_t unit = geometry.GroupOf(KeyHash(key));
  batch.Add(Verb::Read(leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                       buffers.address(UnitBuffers::kHome)));
  batch.Add(Verb::Read(leaf.offset() + geometry.trailer_offset(), kTrailerBytes,
                       buffers.address(UnitBuffers::kTrailer)));
  co_await context_.links.Execute(op, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  const std::optional<GroupView> home = GroupView::Parse(
      {buffers.data() + UnitBuffers::kHome, geometry.unit_bytes()}, leaf, unit, path.low);
  const std::optional<TrailerView> trailer =
      rules::ParseTrailer({buffers.data() + UnitBuffers::kTrailer, kTrailerBytes}, leaf, geometry);
  // Each hop goes right, or a chain of damaged leaves could lead back (rule W7).
  const bool leads_right = home && home->high().key.view() > path.low.view();
  if (!home || !trailer || !rules::OfOneVersion(*home, *trailer) || home->Covers(key) ||
      trailer->sibling().is_null() || !leads_right ||
      (home->frozen() && !rules::MayReadFrozen(route.left.has_value()))) {
    co_return Ok();
  }
  ++context_.counters.cache.stale;
  context_.cache.ForgetPath(path);
  context_.events.OnHop(leaf, 0, path.low);
  const Key high = home->high().key;  // The view needs the path's low fence.
  route.left = path.low;
  path = NodeCache::Step{trailer->sibling(), 0, RemotePtr(), 0, high};
  route.has_path = true;
  co_return Ok();
}

Task<Result<std::string>> Getter::GetUnderLock(Op& op, KeyView key, uint64_t* expires_at) {
  for (;;) {
    BOOST_OUTCOME_CO_TRY(value, co_await TryUnderLock(op, key, expires_at));
    if (value) co_return std::move(*value);
    BOOST_OUTCOME_CO_TRY(is_absent, co_await RemoveExpired(key));
    if (is_absent) co_return MakeError(Code::kNotFound);
  }
}

// No client writes the leaf while its lock is held. Cost: 2 RT.
Task<Result<std::optional<std::string>>> Getter::TryUnderLock(Op& op, KeyView key,
                                                              uint64_t* expires_at) {
  LeafWrite sought;  // Writes nothing: names the key.
  sought.SetKey(key, context_.geometry());
  LeafJob job(context_.locks, op, {&sought, 1});
  BOOST_OUTCOME_CO_TRYV(co_await leaves_.Lock(op, job, false, nullptr));
  LockedLeaf& locked = job.locked;
  Result<std::string> value = MakeError(Code::kNotFound);
  LeafEditor::Found found = locked.editor->Find(key, sought.unit);
  Status read = Ok();
  while (read && (found.unread || found.is_unsure)) {
    if (found.unread) {
      read = co_await leaves_.ReadOverflow(locked);
    } else {
      read = co_await leaves_.ReadLongKeys(op, locked, key);
    }
    if (read) found = locked.editor->Find(key, sought.unit);
  }
  const uint64_t expiry = found.entry ? found.entry->expires_at : 0;
  const bool is_alive = context_.clock.IsAlive(expiry);
  const bool has_value = found.entry && is_alive;
  if (expires_at != nullptr) *expires_at = expiry;
  if (!read) {
    value = read.error();
  } else if (has_value && !found.entry->has_block()) {
    value = std::string(found.entry->stored);
  } else if (has_value) {
    Result<std::optional<std::string>> block =
        co_await context_.blocks.Read(op, found.entry->block());
    std::optional<std::string_view> content;
    if (block && block.value()) {
      content = *block.value();
      if (found.entry->is_long()) content = BlockReader::ValueOf(key, *content);
    }
    if (!block) {
      value = block.error();
    } else if (content) {
      value = std::string(*content);
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
  if (read && !is_alive) co_return std::optional<std::string>();
  if (!value) co_return value.error();
  co_return std::optional(std::move(value.value()));
}

Task<Result<bool>> Getter::RemoveExpired(KeyView key) {
  const Status removed = co_await writer_.WriteUntilDone(key, {}, WriteMode::kExpire);
  if (removed) ++context_.counters.expired;
  if (!removed && removed.error().code != Code::kNotFound) co_return removed.error();
  co_return removed.has_value();
}

}  // namespace gossamer
