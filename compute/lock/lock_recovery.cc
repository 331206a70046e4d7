// RemoteLock after a loss: finds out whether verbs about a lock took effect.
//
// Nothing is decided before the memory server has confirmed that the old queue pair is destroyed:
// until then late packets may land (rule U1). Then the lock word tells (rule U2), as long as this
// compute server's lease is the same. The turn is kept meanwhile, so that our word is that of the
// operation that asks. (Without hierarchical locks each word has a ticket, for the same reason.)
#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <utility>

#include "compute/lock/remote_lock.h"
#include "compute/rules/rules.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {
namespace {

// The time between looks at the orphaned locks: 10 us, then twice as long each time, up to 1 ms.
class LookInterval {
 public:
  std::chrono::microseconds Next() { return std::exchange(next_, std::min(2 * next_, kLatest)); }

 private:
  static constexpr std::chrono::microseconds kLatest{1000};
  std::chrono::microseconds next_{10};
};

}  // namespace

void RemoteLock::Orphan(HeldLock held) {
  const uint64_t carrier = locks_->links.scheduler().endpoint().BrokenQueuePairId(server());
  OrphanedLocks::Orphan orphan{place_, held, carrier, {}};
  if (turn_ && rules::KeepsTurn()) orphan.closed = turn_.Close(place_);
  turn_ = {};
  held_.Take();
  linked_ = {};
  holder_ = {};
  holder_is_dead_ = false;
  tries_ = unchanged_tries_ = 0;
  waits_since_ = {};
  locks_->orphans.Add(std::move(orphan));
}

Task<Status> RemoteLock::AwaitSettled() {
  OrphanedLocks& orphans = locks_->orphans;
  Links& links = locks_->links;
  if (const Error* why = links.WhyDown(server())) co_return *why;
  uint64_t failures = orphans.CountFailures(server());
  uint64_t incarnation = links.IncarnationOf(server());
  orphans.TryAgain(server());
  bool is_late = false;
  for (LookInterval look;;) {
    orphans.Tend();
    if (!locks_->table.IsClosed(place_)) co_return Ok();
    is_late = HasWaitedLong();
    if (op_->is_repair || is_late) break;
    if (orphans.CountFailures(server()) != failures) {
      const Status may_try = co_await links.AwaitReturn(*op_, server(), incarnation);
      if (!may_try) break;
      incarnation = links.IncarnationOf(server());
      failures = orphans.CountFailures(server());
      orphans.TryAgain(server());
      continue;
    }
    co_await links.scheduler().SleepFor(look.Next());
  }
  if (!is_late) {
    co_return links.CannotReach(server(), "it was lost by an operation that may hold a lock there");
  }
  co_return MakeError(
      Code::kNodeUnreachable,
      fmt::format("memory server {} was lost by an operation that may hold a lock there, and what "
                  "became of it is not known yet, {} ms later: try again",
                  ToInteger(server()), locks_->timeout_ms));
}

Task<Result<uint64_t>> RemoteLock::ReadWord(LocalAddress word_at) {
  Links& links = locks_->links;
  for (;;) {
    InlineBatch<1> batch(server());
    batch.Add(Verb::FetchAdd(Space::kLockTable, place_.slot, 0, word_at));
    co_await links.Execute(*op_, batch);
    if (batch.status() == VerbStatus::kSuccess) co_return batch.verbs()[0].old_value();
    BOOST_OUTCOME_CO_TRYV(co_await links.Replace(*op_, Links::LossOf(batch)));
  }
}

Task<Result<uint64_t>> RemoteLock::FindWord(HeldLock held, LocalAddress word_at, Loss loss) {
  Links& links = locks_->links;
  Status reached = co_await links.Replace(*op_, loss);
  Result<uint64_t> found = uint64_t{0};
  if (reached) {
    found = co_await ReadWord(word_at);
    if (!found) reached = found.error();
  }
  if (reached) reached = co_await links.Register(*op_, server());
  if (reached) co_return found;
  Orphan(held);
  co_return reached.error();
}

Task<Status> RemoteLock::FindOutTaken(LockWord word, Loss loss) {
  BOOST_OUTCOME_CO_TRY(found, co_await FindWord({word, 0}, taken_word_, loss));
  if (found == word.word() && word.lease() == locks_->links.LeaseWith(server())) {
    held_.Set({word, 0});
    ++locks_->counts.acquired;
  }
  co_return Ok();
}

Task<Status> RemoteLock::SettleCommit(const Batch& batch, std::optional<NewVersion> changed) {
  InlineBatch<kMaxWrites + 1> again(server());
  for (const Verb& verb : pending_.VerbsOf(batch)) again.Add(verb);
  bool may_be_applied = false;
  for (const Batch* lost = &batch;; lost = &again) {
    may_be_applied =
        may_be_applied || !AreFlushed(lost == &batch ? pending_.VerbsOf(batch) : again.verbs());
    BOOST_OUTCOME_CO_TRY(outcome,
                         co_await FindOutApplied(changed, Links::LossOf(*lost), may_be_applied));
    if (outcome == Outcome::kApplied) co_return Ok();
    Status may_post = co_await EnterEpoch();
    if (may_post) {
      may_post = CheckLinks();
      if (!may_post) {
        static_cast<void>(co_await Release());  // The commit's error is returned.
      }
    }
    if (!may_post) {
      // What was posted before, when it was allowed, may have become reachable.
      locks_->memory.LeaveBehind();
      may_post.error().code = Code::kMaybeApplied;
      co_return may_post;
    }
    if (pending_.after == After::kRelease) held_.Take();
    co_await locks_->links.Execute(*op_, again);
    if (again.status() == VerbStatus::kSuccess) co_return Conclude(again.verbs());
  }
}

Task<Result<RemoteLock::Outcome>> RemoteLock::FindOutApplied(
    const std::optional<NewVersion>& changed, Loss loss, bool may_be_applied) {
  const HeldLock held = pending_.held;
  const bool is_released = pending_.after == After::kRelease;
  const auto unknown = [&](const Error& why) {
    if (!may_be_applied) return why;
    // What the write replaced is not given back, as it may still be in the tree.
    locks_->memory.LeaveBehind();
    return MakeError(
        Code::kMaybeApplied,
        fmt::format("memory server {} was lost during the write: read to find out ({})",
                    ToInteger(server()), why.ToString()));
  };
  const Result<uint64_t> found = co_await FindWord(held, released_word_, loss);
  if (!found) co_return unknown(found.error());
  // With another lease, the lock may have been taken from us before the batch or behind it.
  const Status same = co_await EnterEpoch(held);
  if (!same) co_return unknown(same.error());
  held_.Set(held);
  if (!rules::DecidesByLockWord()) co_return Outcome::kNotApplied;
  if (found.value() != held.word.word()) {
    held_.Take();
    // No other operation could release it, and the release came last.
    if (is_released) co_return Outcome::kApplied;
    co_return unknown(MakeError(Code::kMaybeApplied, "the lock word is another's"));
  }
  if (!changed) co_return Outcome::kNotApplied;
  // The new node is reachable once its WRITE was applied, and the one beside it may have been
  // changed since.
  const Result<NodeVersion> found_version = co_await ReadVersion(*changed);
  if (found_version && found_version.value() != changed->version) co_return Outcome::kNotApplied;
  if (!found_version || is_released) {
    // The write stands, or stays unknown, with or without the lock.
    static_cast<void>(co_await Release());
  }
  if (!found_version) co_return unknown(found_version.error());
  co_return Outcome::kApplied;
}

Task<Result<NodeVersion>> RemoteLock::ReadVersion(const NewVersion& changed) {
  assert(is_held());
  const RemotePtr node = changed.node;
  const uint32_t bytes = locks_->geometry.node_bytes();
  BOOST_OUTCOME_CO_TRY(buffer, locks_->links.Buffer(bytes));
  InlineBatch<1> batch(node.server());
  batch.Add(Verb::Read(node.offset(), bytes, buffer.address()));
  BOOST_OUTCOME_CO_TRYV(co_await Read(batch));
  const std::span<const std::byte> image(buffer.data(), bytes);
  if (changed.level == 0) {
    const std::optional<LeafView> leaf =
        LeafView::Parse(image, node, locks_->geometry, changed.low);
    if (leaf) co_return leaf->version();
  } else {
    const std::optional<InternalNode> internal = DecodeInternal(image, node);
    if (internal) co_return internal->version;
  }
  co_return CorruptNode(node, "a node that fails its checks under its lock");
}

Task<Status> RemoteLock::SettleRelease(HeldLock held, Loss loss) {
  for (;;) {
    BOOST_OUTCOME_CO_TRY(found, co_await FindWord(held, released_word_, loss));
    BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(held));
    if (found != held.word.word()) co_return Ok();
    InlineBatch<1> batch(server());
    batch.Add(ReleaseVerb(held));
    co_await locks_->links.Execute(*op_, batch);
    if (batch.status() == VerbStatus::kSuccess) {
      co_return CheckReleased(batch.verbs()[0].old_value(), held);
    }
    loss = Links::LossOf(batch);
  }
}

}  // namespace gossamer
