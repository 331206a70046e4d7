// Takes a lock, however long that takes.
#pragma once

#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/lock/remote_lock.h"
#include "compute/session/op.h"

namespace gossamer {

// Waits for the turn at `lock` and then for the lock, and READs `reads` behind its CAS. A repair
// does not wait for a turn.
// Requires: `op`, which is the lock's, holds no lock, and `lock` aims at one.
// Errors: those of RemoteLock::Try, AwaitSettled, BackOff; Contended for a repair. It is not held.
// Cost: 1 RT if it is free.
Task<Status> TakeLock(const Op& op, RemoteLock& lock, std::span<const Verb> reads);

}  // namespace gossamer
