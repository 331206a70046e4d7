#include "memory/memory_admin.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace gossamer {

class MemoryAdmin::ServerMetrics final : public prometheus::Collectable {
 public:
  explicit ServerMetrics(const MemoryAdmin* admin) : admin_(admin) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    return admin_->WithServer(MemoryFamilies).value_or(std::vector<prometheus::MetricFamily>{});
  }

 private:
  const MemoryAdmin* const admin_;
};

MemoryAdmin::MemoryAdmin(BuildFacts build)
    : build_(build), process_(std::make_shared<ProcessMetrics>(std::move(build))) {}

Result<std::unique_ptr<MemoryAdmin>> MemoryAdmin::Start(const std::string& address,
                                                        BuildFacts build) {
  std::unique_ptr<MemoryAdmin> admin(new MemoryAdmin(std::move(build)));
  AdminContent content;
  content.metrics = {admin->process_, std::make_shared<ServerMetrics>(admin.get())};
  content.readiness = [&admin = *admin] { return admin.Readiness(); };
  content.state = [&admin = *admin] { return admin.State(); };
  BOOST_OUTCOME_TRY(endpoint, AdminServer::Start({.address = address}, std::move(content)));
  admin->endpoint_ = std::move(endpoint);
  return admin;
}

void MemoryAdmin::Serve(const MemoryServer& server) {
  const std::lock_guard guard(mutex_);
  server_ = &server;
  not_ready_.clear();
}

void MemoryAdmin::StopServing() {
  const std::lock_guard guard(mutex_);
  server_ = nullptr;
  not_ready_ = "the memory server is stopping";
}

template <typename Use>
auto MemoryAdmin::WithServer(Use use) const
    -> std::optional<decltype(use(MemoryFacts{}, MemoryFigures{}))> {
  const std::lock_guard guard(mutex_);
  if (server_ == nullptr) return std::nullopt;
  return use(server_->Facts(), MemoryFigures{server_->Stat(), server_->Clients()});
}

Status MemoryAdmin::Readiness() const {
  const std::lock_guard guard(mutex_);
  if (not_ready_.empty()) return Ok();
  return MakeError(Code::kNodeUnreachable, not_ready_);
}

nlohmann::ordered_json MemoryAdmin::State() const {
  nlohmann::ordered_json state = {{"program", "gossamer-memory"},
                                  {"version", build_.version},
                                  {"uptime_seconds", process_->uptime().count()}};
  const auto server = WithServer(MemoryState);
  if (server) state.update(*server);
  const Status ready = Readiness();
  if (!ready) state["not_ready"] = ready.error().message;
  return state;
}

}  // namespace gossamer
