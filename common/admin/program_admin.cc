#include "common/admin/program_admin.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/admin/metrics.h"
#include "common/version.h"

namespace gossamer {

ProgramAdmin::ProgramAdmin(Names names)
    : names_(std::move(names)), not_ready_("the " + names_.title + " is starting") {}

Result<std::unique_ptr<ProgramAdmin>> ProgramAdmin::Start(const AdminOptions& options,
                                                          Names names) {
  std::unique_ptr<ProgramAdmin> admin(new ProgramAdmin(std::move(names)));
  BOOST_OUTCOME_TRY(
      endpoint,
      AdminServer::Start(options, {.families = [&own = *admin] { return own.Families(); },
                                   .state = [&own = *admin] { return own.State(); },
                                   .readiness = [&own = *admin] { return own.Readiness(); }}));
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
  gossamer::Families all;
  process_.AddTo(all);
  if (served_.families) all.Append(served_.families());
  all.Gauge("gossamer_ready", "Whether /readyz answers 200: 1, else 0.",
            uint64_t{ReadinessLocked().has_value()});
  return all.Take();
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
                                  {"version", BuildVersion()},
                                  {"uptime_seconds", process_.uptime().count()}};
  const std::lock_guard guard(mutex_);
  if (served_.state) state.update(served_.state());
  if (const Status ready = ReadinessLocked(); !ready) state["not_ready"] = ready.error().message;
  return state;
}

}  // namespace gossamer
