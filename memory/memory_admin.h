// MemoryAdmin: the admin endpoint of a memory server's program, from before the server starts until after it stops.
//
//   auto admin = MemoryAdmin::Start("127.0.0.1:7401", build);   // /readyz: 503 "the memory server is starting"
//   auto server = MemoryServer::Start(…);
//   admin.value()->Serve(*server.value());                      // /readyz: 200
//   admin.value()->StopServing();                               // /readyz: 503 "the memory server is stopping"
//   server.value()->Stop();
//
// An address that cannot be listened on is thus found before the server joins its store.
//
// Thread-safety: one thread makes these calls; the endpoint's thread reads the server under a mutex. A request
// takes the control service's mutex for as long as it takes to copy its figures; verbs of clients need neither.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/admin/admin_server.h"
#include "common/admin/process_metrics.h"
#include "memory/memory_metrics.h"
#include "memory/memory_server.h"

namespace gossamer {

class MemoryAdmin {
 public:
  // Errors: those of AdminServer::Start.
  static Result<std::unique_ptr<MemoryAdmin>> Start(const std::string& address, BuildFacts build);
  MemoryAdmin(const MemoryAdmin&) = delete;
  MemoryAdmin& operator=(const MemoryAdmin&) = delete;

  // `server` must live until StopServing, or longer than this object.
  void Serve(const MemoryServer& server);
  // Waits for a request that reads the server.
  void StopServing();

  const std::string& address() const { return endpoint_->address(); }

 private:
  class ServerMetrics;

  explicit MemoryAdmin(BuildFacts build);

  // Nothing while there is no server. `use`: called with facts and figures.
  template <typename Use>
  auto WithServer(Use use) const -> std::optional<decltype(use(MemoryFacts{}, MemoryFigures{}))>;
  Status Readiness() const;
  nlohmann::ordered_json State() const;

  const BuildFacts build_;
  const std::shared_ptr<ProcessMetrics> process_;
  mutable std::mutex mutex_;  // for the next two
  const MemoryServer* server_ = nullptr;
  std::string not_ready_ = "the memory server is starting";
  std::unique_ptr<AdminServer> endpoint_;  // the last member: its thread uses the others
};

}  // namespace gossamer
