// The metrics of a program that uses a store, by HTTP: what gossamer-compute serves with --admin.
//
//   auto metrics = gossamer::ServeMetrics({.address = "127.0.0.1:7402"});
//   gossamer::OpenOptions options;
//   options.observer = metrics;
//   auto store = gossamer::Store::Open(options);          // curl http://127.0.0.1:7402/metrics
//
// While the store is open, there are /metrics (Prometheus), /healthz, /readyz, /state (JSON), and a
// live page at /. The figures are those of all sessions of the store, and of the process.
//
// This is a library of its own, beside that of the store: gossamer::metrics of the CMake package,
// or gossamer-metrics of pkg-config. It works with the static library of the store and with the
// shared one.
//
// Errors, of `Store::Open`: InvalidArgument if the address cannot be parsed or listened on, or may
// be reached from other machines although `for_other_machines` is false, or if the metrics are
// those of another store that is open.
//
// Cost: a thread of its own, which sleeps until a request comes. Operations do the same work as
// without it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/observer.h"

namespace gossamer {

struct MetricsOptions {
  std::string address = {};  // ADDRESS:PORT, numeric, IPv6 in brackets; port 0: a free one
  std::string program = {};  // a name for the page; empty: that of the process
  // There is no authentication and no encryption: without this, only addresses of the loopback
  // interface are served.
  bool for_other_machines = false;
  // Names under which requests come, beside localhost and that of the machine; numeric addresses
  // need none. Others are answered 403, as a web page that has its own name resolve to this address
  // could read the figures.
  std::vector<std::string> hosts = {};
};

class MetricsEndpoint : public StoreObserver {
 public:
  // With the port that was chosen: "127.0.0.1:40123". Empty unless a store is open.
  virtual std::string address() const = 0;
};

// Serves once it is the `observer` of a store.
std::shared_ptr<MetricsEndpoint> ServeMetrics(MetricsOptions options);

}  // namespace gossamer
