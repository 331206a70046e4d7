// Messages of the control service: a compute server registers with a memory server and gets memory.
//
// A request is one struct that starts with a Header. The reply is the paired struct or an
// ErrorReply. Both are sent as they are in memory, at most 256 B, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/lock_word.h"

namespace gossamer::control {

inline constexpr uint16_t kProtocolVersion = 10;

enum class Type : uint16_t {
  kError = 0,
  kRegister = 1,
  kAllocate = 2,
  kRelease = 3,
  kStat = 4,
  kListExtents = 5,
  kRenew = 6,
  kLeaseQuery = 7,
  kEpoch = 8,
  kClientQuery = 9,
  kSweep = 10,
  kGiveUp = 11,
};

struct Header {
  Type type;
  uint16_t version = kProtocolVersion;
  uint32_t reserved = 0;
};

// A server's memory and its use. Clients decide by it where to allocate.
struct Usage {
  uint64_t heap_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t node_bytes = 0;  // of extents that hold nodes
  uint64_t block_bytes = 0;
};

// The process of a compute server, for diagnostics only.
struct ProcessName {
  static constexpr size_t kMaxHostBytes = 59;
  uint32_t process_id = 0;  // 0: not known
  uint8_t host_bytes = 0;   // at most kMaxHostBytes: a longer name is cut
  char host[kMaxHostBytes] = {};
};

// A possible reply to any request.
struct ErrorReply {
  Header header{Type::kError};
  uint8_t code = 0;  // gossamer::Code
  uint8_t message_bytes = 0;
  char message[238] = {};
};

// Registers the sending compute server (the connection knows its uuid). If the same compute server
// registers again, it gets the same lease while that is in force, Fenced while the old lease is
// being ended, and then a new one (rule L2). A queue pair belongs to the lease of the reply that it
// carried, and ends with it.
struct RegisterRequest {
  Header header{Type::kRegister};
  ProcessName process;
};
struct RegisterReply {
  Header header{Type::kRegister};
  uint16_t compute_id = 0;  // 1..65535
  uint16_t reserved = 0;
  uint32_t incarnation = 0;  // 24 bits, never 0
  uint32_t lease_ms = 0;     // the lease ends unless it is renewed within this; 0: it does not
  uint32_t reserved2 = 0;
  Usage usage;
  uint64_t clock_us = 0;  // the server's time, in microseconds since 1970
};

// Memory that waits for its owner to give it up (see GiveUpRequest): [offset, offset + bytes).
struct WaitingRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Renews the sender's lease, as any request does. `epoch`: the sender has acknowledged all epochs
// up to it (see EpochRequest). The reply offers memory of the sender's that others have given back.
// The sender gives it up by a GiveUpRequest. If there are new refusals, the sender gives back what
// it does not use.
// Errors: Fenced when there is no lease.
struct RenewRequest {
  Header header{Type::kRenew};
  uint32_t epoch = 0;
  uint32_t reserved = 0;
};
struct RenewReply {
  static constexpr uint16_t kMaxRanges = 13;
  Header header{Type::kRenew};
  uint64_t clock_us = 0;  // as in RegisterReply, as is the next
  uint32_t lease_ms = 0;
  uint32_t compute_servers = 0;  // registered now
  uint32_t epoch = 0;            // the present one
  uint32_t acknowledged =
      0;  // the last one that the sender has acknowledged, or in which its first lease began
  uint16_t waiting = 0;   // ranges. kMaxRanges: there may be more
  uint16_t refusals = 0;  // how often there was not enough memory, so far; it wraps around
  uint32_t offer = 0;     // the number of this offer, if ranges wait: each has another one
  WaitingRange ranges[kMaxRanges] = {};
};

// Epochs tell when pointers of the past are gone. A memory server counts them. A compute server
// acknowledges an epoch once no operation runs any more that began before it learned of the epoch,
// its caches hold nothing from before, and it has given back all that it had removed before from
// the tree and does not keep. The first lease of a compute server begins in the present epoch, a
// later one in the epoch that it has acknowledged.
inline constexpr uint32_t kFirstEpoch = 1;  // of a memory server
// `start`: 1: starts the next epoch.
struct EpochRequest {
  Header header{Type::kEpoch};
  uint32_t start = 0;
  uint32_t reserved = 0;
};
struct EpochReply {
  Header header{Type::kEpoch};
  uint32_t epoch = 0;  // the present one
  uint32_t acknowledged =
      0;  // all compute servers whose leases are in force have acknowledged this one
  ProcessName
      last;  // one of those that have acknowledged no later one, unless this is the present one
};

// Asks whether a lease, for example that of a lock word, is in force. 0: it has ended for good and
// its holder is fenced: none of the holder's verbs lands any more, and its locks may be taken (rule
// L6). A lease that was never granted is not in force.
struct LeaseQueryRequest {
  Header header{Type::kLeaseQuery};
  uint16_t compute_id = 0;
  uint16_t reserved = 0;
  uint32_t incarnation = 0;
};
struct LeaseQueryReply {
  Header header{Type::kLeaseQuery};
  uint32_t in_force = 0;  // 0 or 1
  uint32_t reserved = 0;
  ProcessName holder;  // as it registered; empty when the lease is not in force
};

// Asks whether a compute server has a lease here.
struct ClientQueryRequest {
  Header header{Type::kClientQuery};
  uint64_t client_uuid = 0;
};
struct ClientQueryReply {
  Header header{Type::kClientQuery};
  uint32_t in_force = 0;  // 0 or 1
  uint32_t incarnation = 0;
};

// Compute servers agree on sweeps by this. A sweep gives back what compute servers have left behind
// that ended. A memory server counts the leases that ended so: without a farewell. A farewell
// counts for nothing if the lease began before another one ended so: nodes of the one may have been
// lost by the other.
enum class SweepStep : uint8_t {
  kAsk = 0,
  kBegin = 1,  // the sender sweeps, unless another one does
  kEnd = 2,    // it does not any more. So it is when its lease ends
  kDone = 3,   // what leases up to `ended` have left is swept
  kFarewell =
      4,  // the sender has given back all memory that is not in the tree. To ask for more takes this back
};
struct SweepRequest {
  Header header{Type::kSweep};
  SweepStep step = SweepStep::kAsk;
  uint8_t reserved[3] = {};
  uint32_t ended = 0;
};
struct SweepReply {
  Header header{Type::kSweep};
  uint32_t ended = 0;      // so many leases may have left memory behind; it wraps around
  uint32_t swept = 0;      // the `ended` of the last sweep
  uint32_t is_sender = 0;  // 1: the sender sweeps
  uint32_t reserved = 0;
};

// The contents of an extent; a client requests one kind at a time.
enum class ExtentKind : uint8_t { kNodes = 1, kBlocks = 2 };

// Requests at least `bytes` of memory. The server grants whole chunks, or what clients gave back.
// Of what waits for the sender, it grants several extents at once, each of at least `bytes`.
// Errors: Exhausted when there is none. The memory belongs to the lease that the reply names, and
// to no later one (rule U4).
struct AllocateRequest {
  Header header{Type::kAllocate};
  uint64_t bytes = 0;
  ExtentKind kind = ExtentKind::kNodes;
  uint8_t reserved[7] = {};
};
struct GrantedRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint8_t generation = 0;  // for the pointers to this memory
  uint8_t reserved[7] = {};
};
struct AllocateReply {
  static constexpr uint8_t kMaxMore = 8;
  Header header{Type::kAllocate};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint16_t compute_id = 0;
  uint8_t generation = 0;  // for the pointers to this memory
  uint8_t more = 0;        // further extents
  uint32_t incarnation = 0;
  Usage usage;  // with these extents handed out
  GrantedRange extents[kMaxMore] = {};
};

// What memory was, that is given back.
enum class Past : uint8_t {
  kUnused = 0,    // there were no pointers to it
  kUsed = 1,      // nothing refers to it any more
  kOrphaned = 3,  // its owner is gone, and so are all pointers to it: a sweeper has seen to that
};

// Memory handed out that nothing refers to any more: [offset, offset + bytes).
struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint8_t generation =
      0;  // of the last pointers to used memory; of the first ones to unused memory
  Past past = Past::kUnused;
  uint16_t compute_id = 0;   // the owner of orphaned memory
  uint32_t incarnation = 0;  // and the lease
};

// Gives memory back. The compute server that removed the last reference to used memory gives that
// back, even if it is not the owner. The owner gives back memory that was never used. Anybody gives
// back what is orphaned. The server hands the memory out again to its owner, and to others once the
// owner has given it back or up, or the owner's lease has ended. The request names the sender's
// lease under which the memory became free. Under a later lease the memory may be another's. So it
// may be if the answer is lost: the request is not repeated.
// Errors: Fenced if that lease has ended.
struct ReleaseRequest {
  static constexpr uint32_t kMaxRanges = 9;
  Header header{Type::kRelease};
  uint16_t count = 0;
  uint16_t compute_id = 0;
  uint32_t incarnation = 0;
  Range ranges[kMaxRanges] = {};
};
struct ReleaseReply {
  Header header{Type::kRelease};
  uint32_t refused = 0;  // bit i: range i was not handed out like that. The others were taken back
  uint32_t reserved = 0;
};

// Gives up the waiting memory that a RenewReply has offered: others may get it. The last offer to a
// lease is open, and of that the memory which has waited ever since. So a request that lands late
// gives up nothing that its sender has been granted again meanwhile, even if that waits once more
// (rule G1), and to repeat it does no harm.
// Errors: Fenced if the lease has ended to which the offer was made.
struct GiveUpRequest {
  Header header{Type::kGiveUp};
  uint32_t offer = 0;
  uint16_t compute_id = 0;  // of the lease
  uint16_t reserved = 0;
  uint32_t incarnation = 0;
  uint32_t reserved2 = 0;
};
struct GiveUpReply {
  Header header{Type::kGiveUp};
  uint64_t bytes = 0;  // given up
};

struct StatRequest {
  Header header{Type::kStat};
};
struct StatReply {
  Header header{Type::kStat};
  Usage usage;
  uint64_t extents = 0;          // handed out
  uint32_t compute_servers = 0;  // registered now
  uint32_t lock_table_on_chip = 0;
  uint64_t waiting_bytes = 0;   // given back, but not yet given up by their owners
  uint64_t orphaned_bytes = 0;  // of owners whose leases have ended; some or all may be in use
  // Why the lock table is not where, or as large as, it was wished, for people: cut, and with zeros
  // behind. Empty: it is.
  char lock_table_why[120] = {};
};

// Lists the extents that are handed out, in order of offset, for `check`.
struct ListExtentsRequest {
  Header header{Type::kListExtents};
  uint64_t from_offset = 0;
};
struct Extent {
  uint64_t offset;
  uint64_t bytes;
  uint64_t client_uuid;  // of the owner
  uint32_t incarnation;  // of the owner's lease
  uint16_t owner;        // compute id
  ExtentKind kind;
  uint8_t is_waiting : 1;   // given back by another
  uint8_t is_orphaned : 1;  // the owner's lease has ended
};
struct ListExtentsReply {
  static constexpr uint32_t kMaxExtents = 7;
  Header header{Type::kListExtents};
  uint32_t count = 0;
  uint32_t more = 0;  // 1: ask again from the end of the last one
  Extent extents[kMaxExtents] = {};
};

inline constexpr size_t kMaxMessageBytes = 256;
static_assert(sizeof(Header) == 8 && sizeof(Usage) == 32 && sizeof(ErrorReply) == 248 &&
              sizeof(ProcessName) == 64 && sizeof(RegisterRequest) == 72 &&
              sizeof(RegisterReply) == 64 && sizeof(RenewRequest) == 16 &&
              sizeof(RenewReply) == 248 && sizeof(EpochRequest) == 16 && sizeof(EpochReply) == 80 &&
              sizeof(LeaseQueryRequest) == 16 && sizeof(LeaseQueryReply) == 80 &&
              sizeof(AllocateRequest) == 24 && sizeof(AllocateReply) == 256 &&
              sizeof(ReleaseRequest) == 232 && sizeof(ReleaseReply) == 16 && sizeof(Range) == 24 &&
              sizeof(StatRequest) == 8 && sizeof(StatReply) == 192 &&
              sizeof(ListExtentsRequest) == 16 && sizeof(Extent) == 32 &&
              sizeof(ListExtentsReply) == 240 && sizeof(ClientQueryRequest) == 16 &&
              sizeof(ClientQueryReply) == 16 && sizeof(SweepRequest) == 16 &&
              sizeof(SweepReply) == 24 && sizeof(GiveUpRequest) == 24 && sizeof(GiveUpReply) == 16);
static_assert(sizeof(ListExtentsReply) <= kMaxMessageBytes &&
              sizeof(RenewReply) <= kMaxMessageBytes && sizeof(AllocateReply) <= kMaxMessageBytes &&
              sizeof(ReleaseRequest) <= kMaxMessageBytes && sizeof(ErrorReply) <= kMaxMessageBytes);
static_assert(std::is_trivially_copyable_v<ListExtentsReply>);

}  // namespace gossamer::control
