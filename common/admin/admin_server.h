// AdminServer: the admin HTTP endpoint of a server program: metrics, health, readiness, state, a
// live page.
//
//   auto admin = AdminServer::Start({.address = "127.0.0.1:7401"},
//                                   {.families = [&] { return MyFamilies(); },
//                                    .state = [&] { return MyState(); }});
//   if (!admin) return Failure(kProgram, admin.error().message);
//
//   /metrics   the families, as Prometheus text 0.0.4
//   /healthz   200 "ok": the process serves
//   /readyz    200 "ready", or 503 with the reason
//   /state     the JSON of `state`, for the page and for scripts
//   /          a page that draws /state
//
// Invariants:
//   - It binds the address that it was given, and nothing else ([::] takes no IPv4 connections).
//   - All its work is done by one thread of its own, with all signals blocked. No thread of the
//     data path takes part.
//   - It reads at most `max_connections` connections; as many more are answered 503, others closed.
//   - Every connection is closed that needs longer than `timeout` for a request or a reply.
//   - It answers GET and HEAD without a body, and changes nothing. There is no authentication:
//     other machines reach it only if the caller says so. A request for a name that a web page may
//     have is answered 403 (host_names.h).
//
// The destructor waits for the callback that runs, if any, closes all connections and joins the
// thread. What the callbacks of the content use must outlive the server.
// Thread-safety: one thread starts and destroys it; `address` may be called by any.
#pragma once

#include <prometheus/metric_family.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gossamer {

// What an endpoint shows. One thread calls these, that of the endpoint, one at a time. They must
// return soon, and must not wait for a thread of the data path: they copy what such threads have
// published.
struct AdminContent {
  std::function<std::vector<prometheus::MetricFamily>()> families = {};  // empty: none
  std::function<nlohmann::ordered_json()> state = {};                    // empty: an empty object
  // An error's message is the reason why this process cannot do its work now. Empty: always ready.
  std::function<Status()> readiness = {};
};

struct AdminOptions {
  std::string address = {};  // ADDRESS:PORT, numeric, IPv6 in brackets; port 0: a free one
  std::chrono::milliseconds timeout{10'000};
  size_t max_connections = 64;
  // There is no authentication: without this, only addresses of the loopback interface are listened
  // on.
  bool for_other_machines = false;
  std::vector<std::string> hosts = {};  // names of this machine in requests: see host_names.h
  std::string flag = "--admin";         // what gave the address, for messages
};

// Errors: InvalidArgument, a sentence, if `address` cannot be parsed, or may be reached from other
// machines and is not to be.
Status CheckAdminAddress(std::string_view address, bool for_other_machines);

class AdminServer {
 public:
  // Errors: InvalidArgument for an address that is not allowed, or cannot be parsed or listened on
  // ("cannot listen on 127.0.0.1:7401: Address already in use; give another --admin"); Unsupported
  // if there is no thread.
  static Result<std::unique_ptr<AdminServer>> Start(const AdminOptions& options,
                                                    AdminContent content);
  virtual ~AdminServer() = default;
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // With the port that was chosen: "127.0.0.1:40123".
  const std::string& address() const { return address_; }

 protected:
  AdminServer() = default;

  std::string address_;
};

}  // namespace gossamer
