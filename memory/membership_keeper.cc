#include "memory/membership_keeper.h"

#include <glog/logging.h>

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

MembershipKeeper::MembershipKeeper(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe)
    : member_(bootstrap, joined, std::move(probe)), thread_([this] { Run(); }) {}

void MembershipKeeper::Run() {
  LookReport report;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Look look = member_.LookAfterRecord();
    if (report.IsWorthALine(look)) LOG(WARNING) << look.sentence;
    lock.lock();
    stopped_.wait_for(lock, Bootstrap::kLookInterval, [this] { return stopping_; });
  }
}

void MembershipKeeper::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status MembershipKeeper::Leave() {
  Stop();
  return member_.Leave();
}

}  // namespace gossamer
