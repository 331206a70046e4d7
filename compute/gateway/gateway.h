// Gateway: serves a store to clients of the Redis protocol.
//
// Thread-safety: one thread starts and stops it, and calls Use.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compute/gateway/commands/gateway_options.h"
#include "compute/gateway/connection/listener.h"
#include "compute/gateway/worker/worker.h"
#include "compute/metrics/worker_metrics.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

// What cannot work of the options, found before anything is opened. Errors: InvalidArgument, a
// sentence that begins with the flag of gossamer-compute: "--threads: give 1 to 256".
//
// Of the addresses: what is none, what is given twice, and what other machines may reach without a
// password.
Status CheckAddresses(const GatewayOptions& options);
// Of all that is a number.
Status CheckNumbers(const GatewayOptions& options);

class Gateway {
 public:
  // `store` outlives the gateway, or is used until `Use` returns. Clients are served once it
  // returns. Raises the process's soft limit of open files for them. If the hard limit is too low,
  // max_clients is lowered, and a warning logged.
  // Errors: InvalidArgument: an address cannot be listened on, or is open to other machines without
  // a password. Unsupported if there are no descriptors for clients. Those of Store::NewSession.
  static Result<std::unique_ptr<Gateway>> Start(GatewayOptions options, Store& store);
  // Whether the ports of `options` are free now: for a program that first waits for something.
  // Errors: those of Start that concern addresses, but for paths.
  static Status CheckPorts(const GatewayOptions& options);
  // Ends what is in flight, and disconnects all clients.
  ~Gateway();

  // Serves `store` from now on, to the clients that are connected, too. What they have asked of the
  // store before is answered
  // first: walks with an error. Nothing uses that one any more when this returns.
  // Errors: those of Store::NewSession; nothing has changed then.
  Status Use(Store& store);

  // "127.0.0.1:7400,unix:/run/gossamer.sock"; empty if there is none.
  const std::string& addresses() const { return addresses_; }
  // Likewise, those of TLS.
  const std::string& tls_addresses() const { return tls_addresses_; }
  const std::shared_ptr<WorkerMetrics>& metrics() const { return metrics_; }
  // They live as long as the gateway.
  const ClientMemory& memory() const { return shared_.memory; }
  const Channels& channels() const { return shared_.channels; }
  // What clients publish is there for the other compute servers.
  PeerQueue& peer_queue() { return shared_.peer_queue; }
  // What those show to this gateway.
  const std::string& peer_token() const { return shared_.identity.peer_token; }

 private:
  explicit Gateway(GatewayOptions options);

  Status Open(Store& store);
  Status OpenListener(const std::string& where, bool is_tls);
  Status FitMaxClients();

  GatewayOptions options_;  // not changed once clients are served
  const std::shared_ptr<WorkerMetrics> metrics_;
  Shared shared_;
  std::string addresses_;
  std::string tls_addresses_;
  std::vector<std::string> paths_;                // of sockets, to be removed
  std::vector<std::vector<Listener>> listeners_;  // of each worker, which takes them
  std::vector<std::unique_ptr<Worker>> workers_;  // before the threads that run them
  std::vector<std::thread> threads_;
};

}  // namespace gossamer::gateway
