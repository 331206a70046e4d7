#include "common/admin/program_admin.h"

#include <prometheus/collectable.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/admin/metrics.h"

namespace gossamer {

class ProgramAdmin::ServedMetrics final : public prometheus::Collectable {
 public:
  explicit ServedMetrics(const ProgramAdmin* admin) : admin_(admin) {}

  std::vector<prometheus::MetricFamily> Collect() const override { return admin_->Families(); }

 private:
  const ProgramAdmin* const admin_;
};

ProgramAdmin::ProgramAdmin(Names names, BuildFacts build)
    : names_(std::move(names)),
      version_(build.version),
      process_(std::make_shared<ProcessMetrics>(std::move(build))),
      not_ready_("the " + names_.title + " is starting") {}

Result<std::unique_ptr<ProgramAdmin>> ProgramAdmin::Start(const AdminOptions& options, Names names,
                                                          BuildFacts build) {
  std::unique_ptr<ProgramAdmin> admin(new ProgramAdmin(std::move(names), std::move(build)));
  AdminContent content;
  content.metrics = {admin->process_, std::make_shared<ServedMetrics>(admin.get())};
  content.readiness = [&admin = *admin] { return admin.Readiness(); };
  content.state = [&admin = *admin] { return admin.State(); };
  BOOST_OUTCOME_TRY(endpoint, AdminServer::Start(options, std::move(content)));
  admin->endpoint_ = std::move(endpoint);
  return admin;
}

void ProgramAdmin::Serve(Served served) {
  const std::lock_guard guard(mutex_);
  served_ = std::move(served);
  not_ready_.clear();
}

void ProgramAdmin::StopServing() {
  const std::lock_guard guard(mutex_);
  served_ = {};
  not_ready_ = "the " + names_.title + " is stopping";
}

std::vector<prometheus::MetricFamily> ProgramAdmin::Families() const {
  const std::lock_guard guard(mutex_);
  auto all = served_.families ? served_.families() : std::vector<prometheus::MetricFamily>{};
  gossamer::Families more;
  more.Gauge("gossamer_ready", "Whether /readyz answers 200: 1, else 0.")
      .Add({}, uint64_t{ReadinessLocked().has_value()});
  for (prometheus::MetricFamily& family : more.Take()) all.push_back(std::move(family));
  return all;
}

Status ProgramAdmin::Readiness() const {
  const std::lock_guard guard(mutex_);
  return ReadinessLocked();
}

Status ProgramAdmin::ReadinessLocked() const {
  if (!not_ready_.empty()) return MakeError(Code::kNodeUnreachable, not_ready_);
  return served_.readiness ? served_.readiness() : Ok();
}

nlohmann::ordered_json ProgramAdmin::State() const {
  nlohmann::ordered_json state = {{"program", names_.program},
                                  {"version", version_},
                                  {"uptime_seconds", process_->uptime().count()}};
  const std::lock_guard guard(mutex_);
  if (served_.state) state.update(served_.state());
  if (const Status ready = ReadinessLocked(); !ready) state["not_ready"] = ready.error().message;
  return state;
}

}  // namespace gossamer
