// RemoteLock while others have the lock: how long to pause between tries, when to ask whether the
// holder lives, and when to give up.
#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>

#include "compute/lock/remote_lock.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A repair gives up after this many tries.
constexpr uint32_t kRepairTries = 4;
// After this many tries, ask the memory server whether the holder's lease has ended.
constexpr uint32_t kTriesBeforeAsking = 8;
// Back off 1, 2, 4 round trips. After kPatientTries retry every round trip: each release leaves the
// lock free for one.
constexpr uint64_t kLongestPause = 4;
constexpr uint32_t kPatientTries = 8;
// A lock with the same word in this many tries in a row (milliseconds) has a holder that does
// nothing. From then on pauses double every kTriesPerDoubling tries, so that waiting takes little
// of the processor.
constexpr uint32_t kTriesBeforeRest = 4096;
constexpr uint32_t kTriesPerDoubling = 64;
constexpr uint64_t kLongestRestNs = 500'000;
// Bounds of the round trip that is learnt.
constexpr uint64_t kShortestRoundTripNs = 500;
constexpr uint64_t kLongestRoundTripNs = 200'000;

}  // namespace

Task<Status> RemoteLock::Take(std::span<const Verb> reads) {
  assert(!is_held());
  for (;;) {
    if (!HasTurn() && !TryTakeTurn()) {
      if (op_->is_repair) co_return MakeError(Code::kContended);
      const LockTable::Answer answer = co_await TakeTurn(nullptr);
      if (answer == LockTable::Answer::kClosed) {
        BOOST_OUTCOME_CO_TRYV(co_await AwaitSettled());
      }
      if (answer != LockTable::Answer::kTurn) continue;
    }
    BOOST_OUTCOME_CO_TRY(tried, co_await Try(reads));
    if (tried == Attempt::kTaken) co_return Ok();
    BOOST_OUTCOME_CO_TRYV(co_await BackOff());
  }
}

void RemoteLock::LearnRoundTrip(std::chrono::nanoseconds took) {
  const auto seen = static_cast<uint64_t>(took.count());
  const uint64_t bounded = std::clamp(seen, kShortestRoundTripNs, kLongestRoundTripNs);
  locks_->round_trip_ns += bounded / 8;
  locks_->round_trip_ns -= locks_->round_trip_ns / 8;
}

bool RemoteLock::HasWaitedLong() {
  const Scheduler::Clock::time_point now = locks_->links.scheduler().Now();
  const Links& links = locks_->links;
  if (waits_since_ == Scheduler::Clock::time_point()) {
    waits_since_ = now;
    returns_before_ = links.TimeOfWaits();
  }
  const Scheduler::Clock::duration waited = now - waits_since_ - links.WaitedSince(returns_before_);
  return waited > std::chrono::milliseconds(locks_->timeout_ms);
}

Task<Error> RemoteLock::ContendedError() const {
  const Lease lease = holder_.lease();
  const bool is_own = holder_.word() == 0 || lease == locks_->links.LeaseWith(node_.server());
  std::string holder = "other operations of this compute server";
  if (!is_own) {
    holder = co_await DescribeHolder(locks_->links.scheduler(), node_.server(), lease);
  }
  co_return MakeError(
      Code::kContended,
      fmt::format("the lock of server {} offset {} could not be taken for {} ms, and was last held "
                  "by {}: try again, and if it is the same one, see whether it is stopped",
                  ToInteger(node_.server()), node_.offset(), locks_->timeout_ms, holder));
}

uint64_t RemoteLock::LongestPauseNs() const {
  const uint64_t round_trip_ns = locks_->round_trip_ns;
  if (tries_ <= kPatientTries) {
    return round_trip_ns * std::min(uint64_t{1} << (tries_ - 1), kLongestPause);
  }
  if (unchanged_tries_ <= kTriesBeforeRest) return round_trip_ns;
  constexpr uint32_t kMostDoublings = 10;  // of the shortest round trip, to as long as a rest
  const uint32_t doublings = (unchanged_tries_ - kTriesBeforeRest) / kTriesPerDoubling;
  return std::min(round_trip_ns << std::min(doublings, kMostDoublings), kLongestRestNs);
}

Task<Status> RemoteLock::BackOff() {
  ++locks_->counts.remote_retries;
  ++tries_;
  const bool is_late = HasWaitedLong();
  if (is_late) co_return co_await ContendedError();
  // The next hop over the sibling repairs again.
  if (op_->is_repair && tries_ >= kRepairTries) co_return MakeError(Code::kContended);
  Scheduler& scheduler = locks_->links.scheduler();
  if (tries_ >= kTriesBeforeAsking) {
    const Result<LeaseState> state =
        co_await locks_->leases.Ask(scheduler, server(), holder_.lease());
    // A dead compute server's lock is taken from it, once its memory server has fenced it.
    holder_is_dead_ = rules::MayTakeFrom(state && state.value() == LeaseState::kEnded);
    if (holder_is_dead_) co_return Ok();
  }
  co_await scheduler.SleepFor(locks_->pauses.AtMost(LongestPauseNs()));
  co_return Ok();
}

}  // namespace gossamer
