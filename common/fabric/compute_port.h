// A compute server's side of a fabric: it connects to memory servers, and opens an endpoint for
// each thread.
//
// Thread-safety: all functions are thread-safe, unless they say otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/fabric/endpoint.h"
#include "common/status.h"
#include "gossamer/device_stat.h"
#include "gossamer/rdma_options.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class SimulatedNetwork;

struct ComputePortOptions {
  RdmaOptions rdma = {};                  // verbs
  uint32_t connection_timeout_ms = 2000;  // after this, a lost peer is an error
  // `Connect` and each new queue pair fail with Unsupported where the path MTU is smaller (rule
  // W2). Bytes; 0: any MTU.
  uint32_t least_path_mtu = 0;
  uint64_t client_uuid = 0;             // names this compute server in its connections; not 0
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
};

// The NodeUnreachable message when another incarnation answers at the address than the one
// connected to.
inline constexpr std::string_view kStartedAnew =
    "this memory server has been started anew, and what it held is gone: open the store again";

// The error of a port that is not connected to the memory server.
Error NotConnected(ServerId server);

// Errors: Unsupported if `path_mtu`, that of the path to `address`, is below what the options
// require.
Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address);

// A compute server's side of a fabric.
class ComputePort {
 public:
  virtual ~ComputePort() = default;
  // Sets `ComputePortOptions::least_path_mtu` for later `Connect` and `NewEndpoint` calls, when the
  // caller does not know it as the port is opened. Requires (unchecked): no other thread uses the
  // port.
  virtual void RequirePathMtu(uint32_t bytes) = 0;
  // Makes `server` reachable at `address` (from `MemoryPort::address`). All later queue pairs to
  // `server` are to this `incarnation`, or, if 0, to the one that answers now. A server restarted
  // at the same address is another server (rule U6) and has none of the old one's data.
  // Errors: NodeUnreachable if no server or another incarnation answers there; Unsupported if the
  // path MTU is already known and too small.
  virtual Status Connect(ServerId server, const std::string& address, uint64_t incarnation = 0) = 0;
  // A new endpoint with a queue pair to each connected server that can be reached. Blocks for up to
  // the connection timeout if a server is silent. The port outlives the endpoint. verbs: if the
  // options name no device, this selects the one that reaches the first connected server, or
  // without servers the machine's first.
  virtual Result<std::unique_ptr<Endpoint>> NewEndpoint() = 0;
  // Whether this process may have `endpoints` more, each with queue pairs to `servers` memory
  // servers. Errors: NoResources, with what to do.
  virtual Status CheckRoomFor(uint32_t /*endpoints*/, uint32_t /*servers*/) { return Ok(); }
  // The RDMA device, once it is known. Other fabrics have none.
  virtual DeviceStat device() { return {}; }
};

}  // namespace gossamer
