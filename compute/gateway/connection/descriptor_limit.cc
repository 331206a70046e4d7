#include "compute/gateway/connection/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/admin/process_metrics.h"

namespace gossamer::gateway {
namespace {

// Descriptors beside those of clients: so many are wanted, as they cost nothing where the hard
// limit allows them.
constexpr rlim_t kWanted = 1024;
// And so many are kept free of clients where it does not.
constexpr rlim_t kKept = 32;
static_assert(kKept < kWanted);

rlimit Limits() {
  rlimit limits{};
  getrlimit(RLIMIT_NOFILE, &limits);
  return limits;
}

}  // namespace

void RaiseDescriptorLimit(uint64_t clients) {
  rlimit limits = Limits();
  const rlim_t wanted = std::min<rlim_t>(clients + kWanted, limits.rlim_max);
  if (wanted <= limits.rlim_cur) return;
  limits.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limits);
}

uint64_t RoomForClients() {
  const uint64_t taken = OpenDescriptors() + kKept;
  return DescriptorLimit() - std::min(taken, DescriptorLimit());
}

uint64_t DescriptorLimit() { return Limits().rlim_cur; }

}  // namespace gossamer::gateway
