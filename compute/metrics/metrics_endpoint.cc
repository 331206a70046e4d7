#include <errno.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/admin/listen_address.h"
#include "common/admin/program_admin.h"
#include "common/version.h"
#include "compute/metrics/counters_metrics.h"
#include "compute/metrics/store_watch.h"
#include "gossamer/metrics.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

class ProgramMetrics final : public MetricsEndpoint {
 public:
  explicit ProgramMetrics(MetricsOptions options) : options_(std::move(options)) {
    if (options_.program.empty()) options_.program = program_invocation_short_name;
  }

  Status Begin() override {
    BOOST_OUTCOME_TRY(address, ParseListenAddress(options_.address));
    if (!address.is_loopback() && !options_.for_other_machines) {
      return MakeError(Code::kInvalidArgument,
                       options_.address +
                           " may be reached from other machines: give an address of the loopback "
                           "interface, or set MetricsOptions::for_other_machines");
    }
    const std::lock_guard guard(mutex_);
    if (admin_ != nullptr) {
      return MakeError(Code::kInvalidArgument,
                       "these metrics are those of a store that is open: give each store its own");
    }
    BOOST_OUTCOME_TRY(admin,
                      ProgramAdmin::Start({.address = options_.address,
                                           .for_other_machines = options_.for_other_machines,
                                           .hosts = options_.hosts,
                                           .flag = "address of the metrics"},
                                          {.program = options_.program, .title = "program"}));
    admin_ = std::move(admin);
    return Ok();
  }

  void Opened(Store& store) override {
    const std::lock_guard guard(mutex_);
    Result<std::unique_ptr<StoreWatch>> watch =
        StoreWatch::Start(store, "restart this program to use that one");
    if (watch) watch_ = std::move(watch.value());  // without it, /state has no memory servers
    admin_->Serve({.families =
                       [&store] {
                         Families families;
                         AddCounters(store.counters(), families);
                         AddDeviceOf(store, families);
                         families.Gauge("gossamer_sessions", "Sessions that are open.",
                                        uint64_t{store.sessions()});
                         return families.Take();
                       },
                   .state =
                       [&store, watch = watch_.get()] {
                         Json state = watch != nullptr ? watch->State() : Json::object();
                         state["sessions"] = store.sessions();
                         state.update(CountersState(store.counters()));
                         state["hot_leaves"] = HotLeavesState(store);
                         return state;
                       }});
  }

  void Ended() override {
    const std::lock_guard guard(mutex_);
    admin_.reset();  // which waits for a request that is being answered
    watch_.reset();
  }

  std::string address() const override {
    const std::lock_guard guard(mutex_);
    return admin_ != nullptr ? admin_->address() : "";
  }

 private:
  MetricsOptions options_;
  mutable std::mutex mutex_;  // for what follows
  std::unique_ptr<StoreWatch> watch_;
  std::unique_ptr<ProgramAdmin> admin_;
};

}  // namespace

std::shared_ptr<MetricsEndpoint> ServeMetrics(MetricsOptions options) {
  return std::make_shared<ProgramMetrics>(std::move(options));
}

}  // namespace gossamer
