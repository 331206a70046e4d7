#include "memory/region_checker.h"

#include <fmt/core.h>
#include <glog/logging.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/start_thread.h"
#include "common/text/human.h"
#include "proto/region.h"

namespace gossamer {
namespace {

constexpr std::chrono::seconds kSayEvery{10};
constexpr size_t kMostLines = 20;       // of the log about damage
constexpr size_t kMostSuspects = 1000;  // that are kept in mind
constexpr uint64_t kPaceBytes = 256 << 10;
constexpr int kLooks = 20;  // at a suspect within the patience
// What keeps changing for so many times the patience is no damage.
constexpr int kMostPatience = 12;

}  // namespace

RegionChecker::RegionChecker(LivingRegion region, RegionCheckOptions options)
    : region_(std::move(region)), options_(options), finder_(region_) {}

RegionChecker::~RegionChecker() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  ends_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status RegionChecker::Start() {
  BOOST_OUTCOME_TRY(thread, StartThread("check what the region holds", [this] { Run(); }));
  thread_ = std::move(thread);
  return Ok();
}

RegionCheck RegionChecker::report() const {
  const std::lock_guard guard(mutex_);
  return report_;
}

void RegionChecker::Run() {
  // Of this thread alone, as Linux does it.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
  const uint64_t node_bytes = region_.parameters.node_bytes;
  const uint64_t total = NodeBytes();
  {
    const std::lock_guard guard(mutex_);
    report_.total_bytes = total;
  }
  LOG(INFO) << "checking in the background the " << HumanBytes(total) << " of nodes that this "
            << "server came back with, and the values that they refer to";
  paced_ = said_ = Clock::now();
  if (region_.server == ServerId{0}) {
    Check(kRootWordOffset);
    Check(kFirstLeafOffset);
    if (!Pace(node_bytes)) return;
  }
  uint64_t at = kHeapOffset;
  while (const auto extent = region_.next_extent(at)) {
    const uint64_t end = extent->offset + extent->bytes;
    at = (extent->offset + node_bytes - 1) / node_bytes * node_bytes;
    if (extent->kind != control::ExtentKind::kNodes || extent->is_waiting) at = end;
    for (; at + node_bytes <= end; at += node_bytes) {
      Check(at);
      if (!Pace(node_bytes)) return;
    }
    at = end;
  }
  if (!Settle()) return;
  const std::lock_guard guard(mutex_);
  report_.is_over = true;
  report_.total_bytes = report_.bytes;
  const std::string what = HumanBytes(report_.bytes) + " of nodes and their values";
  if (report_.damaged == 0) {
    LOG(INFO) << "checked " << what << ": no damage";
  } else {
    LOG(ERROR)
        << "checked " << what << ": " << HumanQuantity(report_.damaged, "part")
        << " damaged; `gossamer check` says which nodes, and reads of them end as Corruption";
  }
}

std::vector<Damage> RegionChecker::Look(uint64_t offset) {
  return offset == kRootWordOffset ? finder_.LookAtRoot() : finder_.LookAtNode(offset);
}

void RegionChecker::Check(uint64_t offset) {
  for (Damage& damage : Look(offset)) {
    Place place(damage.offset, std::move(damage.what));
    const Clock::time_point now = Clock::now();
    if (damaged_.contains(place)) continue;
    suspects_.try_emplace(std::move(place), Suspect{offset, damage.bytes, now, now});
  }
}

bool RegionChecker::Settle() {
  while (!suspects_.empty()) {
    if (!Sleep(options_.patience / kLooks)) return false;
    LookAtSuspectsAgain();
  }
  return true;
}

void RegionChecker::LookAtSuspectsAgain() {
  // Many may be found by a look at one node.
  std::map<uint64_t, std::vector<Damage>> seen;
  finder_.ForgetExtents();
  for (auto at = suspects_.begin(); at != suspects_.end();) {
    const auto& [place, suspect] = *at;
    const auto [looked, is_new] = seen.try_emplace(suspect.node);
    if (is_new) looked->second = Look(suspect.node);
    const State state = Judge(place, at->second, looked->second);
    if (state == State::kDamaged) Confirm(place);
    at = state == State::kUnclear ? std::next(at) : suspects_.erase(at);
  }
}

RegionChecker::State RegionChecker::Judge(const Place& place, Suspect& suspect,
                                          const std::vector<Damage>& seen) const {
  const Clock::time_point now = Clock::now();
  const auto same = std::ranges::find_if(seen, [&place](const Damage& damage) {
    return damage.offset == place.first && damage.what == place.second;
  });
  if (same == seen.end() || now - suspect.noted > kMostPatience * options_.patience) {
    return State::kSound;
  }
  if (same->bytes != suspect.bytes) {
    suspect.bytes = same->bytes;
    suspect.since = now;
  }
  return now - suspect.since < options_.patience ? State::kUnclear : State::kDamaged;
}

void RegionChecker::Confirm(const Place& place) {
  if (damaged_.size() < kMostLines) {
    LOG(ERROR) << "this region is damaged at offset " << place.first << ": " << place.second;
  } else if (damaged_.size() == kMostLines) {
    LOG(ERROR) << "more of this region is damaged, and only counted";
  }
  damaged_.insert(place);
  const std::lock_guard guard(mutex_);
  report_.damaged = damaged_.size();
}

bool RegionChecker::Pace(uint64_t bytes) {
  {
    const std::lock_guard guard(mutex_);
    report_.bytes += bytes;
    report_.total_bytes = std::max(report_.total_bytes, report_.bytes);
    if (ends_) return false;
  }
  if (suspects_.size() >= kMostSuspects && !Settle()) return false;
  const uint64_t read = finder_.bytes_read() - paced_bytes_;
  if (read < kPaceBytes) return true;
  paced_bytes_ += read;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> takes(static_cast<double>(read) /
                                            static_cast<double>(options_.bytes_per_second));
  paced_ = std::max(paced_ + std::chrono::duration_cast<Clock::duration>(takes), now);
  if (now - said_ >= kSayEvery) {
    said_ = now;
    const RegionCheck so_far = report();
    LOG(INFO) << "checked " << HumanBytes(so_far.bytes) << " of " << HumanBytes(so_far.total_bytes);
  }
  return Sleep(paced_ - now);
}

bool RegionChecker::Sleep(Clock::duration time) {
  std::unique_lock guard(mutex_);
  return !ends_changed_.wait_for(guard, time, [this] { return ends_; });
}

uint64_t RegionChecker::NodeBytes() const {
  uint64_t bytes = region_.server == ServerId{0} ? region_.parameters.node_bytes : 0;
  uint64_t at = kHeapOffset;
  while (const auto extent = region_.next_extent(at)) {
    const bool is_checked = extent->kind == control::ExtentKind::kNodes && !extent->is_waiting;
    if (is_checked) bytes += extent->bytes;
    at = extent->offset + extent->bytes;
  }
  return bytes;
}

}  // namespace gossamer
