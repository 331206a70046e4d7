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

inline constexpr uint16_t kProtocolVersion = 5;

enum class Type : uint16_t {
  kError = 0,
  kRegister = 1,
  kAllocate = 2,
  kRelease = 3,
  kStat = 4,
  kListExtents = 5,
  kRenew = 6,
  kLeaseQuery = 7,
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

// Registers the sending compute server (the connection knows its uuid). If the same compute server registers
// again, it gets the same lease while that is in force, Fenced while the old lease is being ended, and then
// a new one (rule L2). A queue pair belongs to the lease of the reply that it carried, and ends with it.
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
};

// Renews the sender's lease, as any request does. Errors: Fenced when there is none.
struct RenewRequest {
  Header header{Type::kRenew};
};
struct RenewReply {
  Header header{Type::kRenew};
  uint32_t lease_ms = 0;         // as in RegisterReply
  uint32_t compute_servers = 0;  // registered now
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

// The contents of an extent; a client requests one kind at a time.
enum class ExtentKind : uint8_t { kNodes = 1, kBlocks = 2 };

// Requests at least `bytes` of memory. The server grants whole chunks, or what clients gave back. Errors: Exhausted when
// there is none. The memory belongs to the lease that the reply names, and to no later one (rule U4).
struct AllocateRequest {
  Header header{Type::kAllocate};
  uint64_t bytes = 0;
  ExtentKind kind = ExtentKind::kNodes;
  uint8_t reserved[7] = {};
};
struct AllocateReply {
  Header header{Type::kAllocate};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint16_t compute_id = 0;
  uint8_t generation = 0;  // for the pointers to this memory
  uint8_t reserved = 0;
  uint32_t incarnation = 0;
  Usage usage;  // with this extent handed out
};

// Memory handed out that nothing refers to any more: [offset, offset + bytes).
struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint8_t generation = 0;  // for the next pointers to it
  uint8_t was_used = 0;    // 1: there were pointers to it
  uint8_t reserved[6] = {};
};

// Gives memory back. It is handed out again to its owner, and to others once the owner's lease has ended or the owner
// itself has given it back. Whoever made the last reference to used memory vanish gives it back, whoever it was handed out to;
// memory that was never used is given back by its owner. A request whose answer is lost is not repeated: the memory may be
// another's by then. The lease is the sender's when the memory became free: under a later one it may be another's, too.
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

struct StatRequest {
  Header header{Type::kStat};
};
struct StatReply {
  Header header{Type::kStat};
  Usage usage;
  uint64_t extents = 0;          // handed out
  uint32_t compute_servers = 0;  // registered now
  uint32_t lock_table_on_chip = 0;
};

// Lists the extents that are handed out, in order of offset, for `check`.
struct ListExtentsRequest {
  Header header{Type::kListExtents};
  uint64_t from_offset = 0;
};
struct Extent {
  uint64_t offset;
  uint64_t bytes;
  uint16_t owner;  // compute id
  ExtentKind kind;
  uint8_t reserved[5];
};
struct ListExtentsReply {
  static constexpr uint32_t kMaxExtents = 9;
  Header header{Type::kListExtents};
  uint32_t count = 0;
  uint32_t more = 0;  // 1: ask again from the end of the last one
  Extent extents[kMaxExtents] = {};
};

inline constexpr size_t kMaxMessageBytes = 256;
static_assert(sizeof(Header) == 8 && sizeof(Usage) == 32 && sizeof(ErrorReply) == 248 &&
              sizeof(ProcessName) == 64 && sizeof(RegisterRequest) == 72 &&
              sizeof(RegisterReply) == 56 && sizeof(RenewRequest) == 8 &&
              sizeof(RenewReply) == 16 && sizeof(LeaseQueryRequest) == 16 &&
              sizeof(LeaseQueryReply) == 80 && sizeof(AllocateRequest) == 24 &&
              sizeof(AllocateReply) == 64 && sizeof(ReleaseRequest) == 232 &&
              sizeof(ReleaseReply) == 16 && sizeof(Range) == 24 && sizeof(StatRequest) == 8 &&
              sizeof(StatReply) == 56 && sizeof(ListExtentsRequest) == 16 && sizeof(Extent) == 24 &&
              sizeof(ListExtentsReply) == 232);
static_assert(sizeof(ListExtentsReply) <= kMaxMessageBytes &&
              sizeof(ReleaseRequest) <= kMaxMessageBytes && sizeof(ErrorReply) <= kMaxMessageBytes);
static_assert(std::is_trivially_copyable_v<ListExtentsReply>);

}  // namespace gossamer::control
