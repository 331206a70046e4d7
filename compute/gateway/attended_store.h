// AttendedStore: a store that a compute server serves, and what looks after it.
#pragma once

#include <chrono>
#include <memory>

#include "common/admin/program_admin.h"
#include "common/status.h"
#include "compute/gateway/auto_sweeper.h"
#include "compute/gateway/gateway.h"
#include "compute/metrics/store_watch.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

struct AttendedStore {
  std::unique_ptr<Store> store;
  std::unique_ptr<AutoSweeper> sweeper = {};  // may be null
  std::unique_ptr<StoreWatch> watch = {};
};

// Starts what looks after `attended.store`. `sweep_after`: 0: without a sweeper.
Status Attend(AttendedStore& attended, std::chrono::seconds sweep_after);

// What --admin shows of both. They outlive it.
ProgramAdmin::Served ServedBy(const AttendedStore& attended, const Gateway& gateway);

}  // namespace gossamer::gateway
