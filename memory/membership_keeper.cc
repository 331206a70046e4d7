#include "memory/membership_keeper.h"

#include <glog/logging.h>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace gossamer {

bool LookReport::IsWorthALine(const Look& look) {
  ++looks_;
  if (look.finding == Finding::kInPlace) return false;
  const auto found = reported_.find(look.finding);
  if (found != reported_.end() && found->second.sentence == look.sentence &&
      looks_ - found->second.look < kLooksPerReport) {
    return false;
  }
  reported_[look.finding] = {look.sentence, looks_};
  return true;
}

MembershipKeeper::MembershipKeeper(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe,
                                   Note note)
    : member_(bootstrap, joined, std::move(probe)),
      note_(std::move(note)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void MembershipKeeper::NoteKnown() {
  if (!note_ || noted_ == member_.known()) return;
  noted_ = member_.known();
  note_(noted_);
}

void MembershipKeeper::Run(const std::stop_token& stop) {
  LookReport report;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const Look look = member_.LookAfterRecord();
    NoteKnown();
    if (report.IsWorthALine(look)) LOG(WARNING) << look.sentence;
    stopped.wait_for(lock, stop, Bootstrap::kLookInterval, [] { return false; });
  }
}

Status MembershipKeeper::Leave() {
  Stop();
  return member_.Leave();
}

}  // namespace gossamer
