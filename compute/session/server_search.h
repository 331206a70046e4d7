// ServerSearch: an operation waits for a memory server that joined after the store was opened.
#pragma once

#include <cstdint>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct ServerSearch : Scheduler::Sleeper {
  ServerSearch(Scheduler& own, ServerId sought) : Sleeper(own), server(sought) {}

  const ServerId server;
  Status found = Ok();
};

// kGoesOn: another thread sets `found` and then wakes the search.
enum class SearchState : uint8_t { kEnded, kGoesOn };

}  // namespace gossamer
