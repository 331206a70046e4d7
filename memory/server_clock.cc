#include "memory/server_clock.h"

#include <glog/logging.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "common/process.h"
#include "common/text/human.h"

namespace gossamer {
namespace {

constexpr int64_t kMicro = 1'000'000;
// More than that is worth a line.
constexpr int64_t kSmallStepUs = kMicro;

int64_t SinceBootUs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * kMicro + now.tv_nsec / 1000;
}

int64_t MachineTimeUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ServerClock::ServerClock(KeptRegion* region) : region_(region) {
  const int64_t since_boot = SinceBootUs();
  const int64_t own = MachineTimeUs() - since_boot;
  const ClockNote note = region_ == nullptr ? ClockNote{} : region_->clock();
  if (note.last_us == 0) {
    offset_us_ = own;
  } else if (region_->IsOfThisBoot()) {
    offset_us_ = note.offset_us;
    if (std::abs(own - offset_us_) > kSmallStepUs) {
      LOG(WARNING) << "the store's clock is "
                   << HumanDuration(static_cast<double>(std::abs(own - offset_us_)) / kMicro)
                   << (own > offset_us_ ? " behind" : " ahead of")
                   << " this machine's, which was set meanwhile: times that keys are given to "
                      "expire at are meant by the store's";
    }
  } else {
    offset_us_ = std::max(own, static_cast<int64_t>(note.last_us) - since_boot);
  }
  Note();
}

uint64_t ServerClock::NowUs() const { return static_cast<uint64_t>(SinceBootUs() + offset_us_); }

void ServerClock::Note() const {
  if (region_ != nullptr) region_->NoteClock({offset_us_, NowUs()});
}

}  // namespace gossamer
