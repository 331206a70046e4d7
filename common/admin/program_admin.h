// ProgramAdmin: the admin endpoint of a server program, from before it serves its clients until
// after.
//
//   auto admin = ProgramAdmin::Start({.address = "127.0.0.1:7401"},
//                                    {"gossamer-memory", "memory server"});
//                                      // /readyz: 503 "the memory server is starting"
//   auto server = …
//   admin.value()->Serve({.families = …, .state = …});   // /readyz: 200
//   admin.value()->StopServing();      // /readyz: 503 "the memory server is stopping"
//
// An address that cannot be listened on is thus found before a client can connect.
//
// Thread-safety: one thread makes these calls; the endpoint's thread calls what it serves under a
// mutex.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/admin/admin_server.h"
#include "common/admin/process_metrics.h"

namespace gossamer {

class ProgramAdmin {
 public:
  struct Names {
    std::string program;  // "gossamer-memory"
    std::string title;    // "memory server"
  };
  // What there is to show of a program that serves, beside the figures of its process and those
  // fields of /state that every program has.
  using Served = AdminContent;

  // Errors: those of AdminServer::Start.
  static Result<std::unique_ptr<ProgramAdmin>> Start(const AdminOptions& options, Names names);
  ProgramAdmin(const ProgramAdmin&) = delete;
  ProgramAdmin& operator=(const ProgramAdmin&) = delete;

  // What `served` uses must live until StopServing, or longer than this object.
  void Serve(Served served);
  // Waits for a request that is being answered.
  void StopServing();

  const std::string& address() const { return endpoint_->address(); }

 private:
  explicit ProgramAdmin(Names names);

  std::vector<prometheus::MetricFamily> Families() const;
  Status Readiness() const;
  // Requires (unchecked): the mutex.
  Status ReadinessLocked() const;
  nlohmann::ordered_json State() const;

  const Names names_;
  const ProcessMetrics process_;
  mutable std::mutex mutex_;  // for the next two
  Served served_;             // empty functions: nothing
  std::string not_ready_;
  std::unique_ptr<AdminServer> endpoint_;  // the last member: its thread uses the others
};

}  // namespace gossamer
