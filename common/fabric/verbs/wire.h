// The messages between the two ends of a verbs connection: the connection manager's private data,
// and the header of a control message.
//
//   client                                   memory server
//     | -- connect request: ConnectRequest ---> |
//     | <-- accept: ConnectReply -------------- |   or reject: ConnectReply with a reason
//     | -- SEND: ControlHeader, request ------> |
//     | <-- SEND: ControlHeader, reply -------- |   in the order of the requests
//
// The connection manager pads private data with zeros, and carries 56 bytes in a request, 196 in an
// accept and 148 in a reject. Integers are little-endian, as in remote memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/fabric/work_request.h"

namespace gossamer::verbs {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kProtocolMagic = 0x52534f47;  // "GOSR"
inline constexpr uint16_t kProtocolVersion = 4;

enum class RequestKind : uint16_t {
  kProbe = 0,   // Answered by a reject with kNone: which server is here, if any?
  kAttach = 1,  // Requests a queue pair.
};

struct ConnectRequest {
  uint32_t magic = kProtocolMagic;
  uint16_t version = kProtocolVersion;
  RequestKind kind = RequestKind::kProbe;
  uint64_t client_uuid = 0;
  uint64_t incarnation = 0;  // Of the expected memory server; 0: any.
  // Connections of this client to destroy before this one is accepted; 0: none.
  uint64_t replaces = 0;
  uint64_t also_destroys = 0;
};
static_assert(sizeof(ConnectRequest) == 40);
static_assert(offsetof(ConnectRequest, client_uuid) == 8);
static_assert(offsetof(ConnectRequest, also_destroys) == 32);
static_assert(sizeof(ConnectRequest) <= 56, "private data of a connect request");

enum class RejectReason : uint16_t {
  kNone = 0,
  kProtocol = 1,          // Magic or version differ from the server's.
  kOtherIncarnation = 2,  // Not the expected memory server: it was restarted.
  kResources = 3,         // The server's device has no queue pair left.
};

struct RemoteMemory {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t key = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(RemoteMemory) == 24);

struct ConnectReply {
  uint32_t magic = kProtocolMagic;
  uint16_t version = kProtocolVersion;
  RejectReason reason = RejectReason::kNone;
  uint64_t incarnation = 0;
  uint64_t connection_id = 0;  // Identifies this connection in a later `replaces`.
  RemoteMemory region;
  RemoteMemory lock_table;
  uint32_t verbs_at_once = 0;  // maximum that a queue pair may have in flight; 0: its depth
  uint32_t unused = 0;
};
static_assert(sizeof(ConnectReply) == 80);
static_assert(offsetof(ConnectReply, region) == 24);
static_assert(sizeof(ConnectReply) <= 148, "private data of a reject");

struct ControlHeader {
  uint32_t sequence = 0;  // counts the requests of a connection; a reply repeats its request's
  uint32_t bytes = 0;     // bytes that follow
};
static_assert(sizeof(ControlHeader) == 8);

// Control messages that one connection may have in flight. Each end keeps this many receives
// posted, so a message always finds one.
inline constexpr uint32_t kControlDepth = 8;
inline constexpr size_t kControlSlotBytes = 320;  // a message, in whole cache lines
static_assert(sizeof(ControlHeader) + kMaxControlBytes <= kControlSlotBytes);
static_assert(kControlSlotBytes % 64 == 0);

}  // namespace gossamer::verbs
