#include "compute/research/sherman/local_locks.h"

#include <cassert>

namespace gossamer::sherman {

void LocalLocks::AddServer(ServerId server, uint64_t lock_table_bytes) {
  if (tables_.size() <= ToInteger(server)) tables_.resize(ToInteger(server) + 1);
  tables_[ToInteger(server)] = std::make_unique<Lock[]>(lock_table_bytes / sizeof(uint64_t));
}

bool LocalLocks::HandsOver(LockPlace place) {
  Lock& lock = LockAt(place);
  const Guard guard(lock);
  return !lock.waiters.empty() && lock.handovers < kMostHandovers;
}

void LocalLocks::Release(LockPlace place, bool hands_over) {
  Lock& lock = LockAt(place);
  Waiter* next = nullptr;
  {
    const Guard guard(lock);
    assert(lock.is_taken && (!hands_over || !lock.waiters.empty()));
    lock.handovers = hands_over ? lock.handovers + 1 : 0;
    lock.is_taken = !lock.waiters.empty();
    if (lock.is_taken) next = &lock.waiters.Pop();
  }
  if (next == nullptr) return;
  next->has_remote = hands_over;
  Scheduler::Wake(*next);
}

}  // namespace gossamer::sherman
