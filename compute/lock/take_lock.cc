#include "compute/lock/take_lock.h"

#include <cassert>

namespace gossamer {

Task<Status> TakeLock(const Op& op, RemoteLock& lock, std::span<const Verb> reads) {
  assert(!lock.is_held());
  for (;;) {
    if (!lock.HasTurn() && !lock.TryTakeTurn()) {
      if (op.is_repair) co_return MakeError(Code::kContended);
      const LockTable::Answer answer = co_await lock.TakeTurn(nullptr);
      if (answer == LockTable::Answer::kClosed) {
        BOOST_OUTCOME_CO_TRYV(co_await lock.AwaitSettled());
      }
      if (answer != LockTable::Answer::kTurn) continue;
    }
    const Result<RemoteLock::Attempt> tried = co_await lock.Try(reads);
    if (!tried) co_return tried.error();
    if (tried.value() == RemoteLock::Attempt::kTaken) co_return Ok();
    BOOST_OUTCOME_CO_TRYV(co_await lock.BackOff());
  }
}

}  // namespace gossamer
