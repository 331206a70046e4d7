// QueuePairPage: the memory that a client and a memory server share for one queue pair, in a memfd
// of its own.
//
//   line 0   server -> client   closed, replies_sent, fences_heavily
//   line 1   client -> server   busy
//   line 2   client -> server   journal: valid, space, length, offset
//   line 3.. client -> server   journal: payload, one path MTU
//   behind it   server alone    is_used, client: of a page that outlives its server (pages.h)
//
// The journal makes a WRITE of at most one path MTU atomic with respect to death. The client
// records the WRITE, sets `valid`, applies it, and clears `valid`. If the client dies in between,
// it has posted nothing later on this queue pair (an unlock, for one), so the server can apply the
// WRITE again. Program order alone orders the steps: a killed thread has executed a prefix of its
// instructions. The server must know that the process has ended: a client whose connection is lost
// may still be performing verbs.
//
// `busy` and `closed` are a Dekker pair. A client sets `busy` before it performs verbs, then
// performs none if it finds `closed` set. A server sets `closed`, then waits until `busy` is clear.
// After that no verb of this queue pair can land. Between its two steps each has a fence: the
// client, which enters often, a light one if the server says that its own is heavy
// (`fences_heavily`; common/asymmetric_fence.h).
//
// The server does not trust the page: it bounds-checks what it finds there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/fabric/shm/memory.h"
#include "common/fabric/shm/shared_copy.h"
#include "common/fabric/verb.h"

namespace gossamer::shm {

inline constexpr uint32_t kPathMtu = 4096;  // bytes

struct WriteJournal {
  std::atomic<uint32_t> valid;
  uint32_t space;
  uint32_t length;
  uint32_t reserved;
  uint64_t offset;
  alignas(64) std::array<std::byte, kPathMtu> payload;
};

struct QueuePairPage {
  std::atomic<uint32_t> closed;
  std::atomic<uint32_t> replies_sent;
  std::atomic<uint32_t> fences_heavily;  // set before the client sees the page
  alignas(64) std::atomic<uint32_t> busy;
  alignas(64) WriteJournal journal;
  alignas(64) std::atomic<uint32_t> is_used;
  std::array<char, 128> client;  // its process; ends with zeros
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(offsetof(QueuePairPage, busy) == 64);
static_assert(offsetof(QueuePairPage, journal) == 128);
static_assert(offsetof(WriteJournal, payload) == 64);

inline constexpr size_t kQueuePairPageBytes = 8192;
static_assert(sizeof(QueuePairPage) <= kQueuePairPageBytes);

// Client: writes `length` (1 .. kPathMtu) bytes to `space` so that death leaves all or nothing.
inline void JournalledWrite(WriteJournal& journal, const SpaceView& view, Space space,
                            uint64_t offset, uint32_t length, const std::byte* from) {
  SharedCopy(journal.payload.data(), from, length);
  journal.space = static_cast<uint32_t>(space);
  journal.length = length;
  journal.offset = offset;
  journal.valid.store(1, std::memory_order_release);
  SharedCopy(view.data + offset, from, length);
  journal.valid.store(0, std::memory_order_release);
}

// Server, for a dead client: finishes the WRITE that it died in. Returns whether there was one.
inline bool FinishWrite(const WriteJournal& journal, const SharedMemory& memory) {
  if (journal.valid.load(std::memory_order_acquire) != 1) return false;
  const uint32_t space = journal.space;
  const uint32_t length = journal.length;
  const uint64_t offset = journal.offset;
  if (space > 1 || length == 0 || length > kPathMtu) return false;
  // No client WRITEs to a lock table, and that of a former process is gone.
  if (static_cast<Space>(space) == Space::kLockTable && memory.is_kept()) return false;
  const SpaceView& view = memory.view(static_cast<Space>(space));
  if (!view.Contains(offset, length)) return false;
  SharedCopy(view.data + offset, journal.payload.data(), length);
  std::atomic_thread_fence(std::memory_order_release);
  return true;
}

}  // namespace gossamer::shm
