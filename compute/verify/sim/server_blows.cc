#include "compute/verify/sim/server_blows.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

namespace gossamer::simulator {

bool ServerBlows::Strike(Blow::Kind kind) {
  switch (kind) {
    case Blow::Kind::kDeath: End(); return true;
    case Blow::Kind::kSuccession: StartSuccessor(); return true;
    case Blow::Kind::kStall: StopOrSlow(); return true;
    case Blow::Kind::kRecord: membership_.Disturb(random_); return true;
    case Blow::Kind::kJoin:
      membership_.Join(options_, random_.Below(100) < scene_.plan.low_mtu_percent);
      return true;
    case Blow::Kind::kReturn: returns_.Strike(); return true;
    case Blow::Kind::kKill:
    case Blow::Kind::kPause:
    case Blow::Kind::kLeave: return false;
  }
  return false;
}

EmbeddedMemory* ServerBlows::PickServer(size_t first, size_t& number) {
  number = first + random_.Below(memory_.size() - first);
  return memory_[number].get();
}

void ServerBlows::End() {
  constexpr uint64_t kMostStepsWithout = 4000;
  const bool are_repaired = scene_.plan.repair_us != 0;
  size_t number = 0;
  // Server 0 has the root word.
  EmbeddedMemory* const server = PickServer(are_repaired ? 1 : 0, number);
  if (server == nullptr) return;
  scene_.recorder.Note(fmt::format("memory server {} dies", number));
  if (are_repaired) {
    scene_.lost.insert(ServerId{static_cast<uint16_t>(number)});
    scene_.recorder.MayLoseAll(scene_.plan.work.keys());
    scene_.verdict.ServerIsLost();
  }
  without_successor_.push_back(server->address());
  memory_[number].reset();
  ++dead_servers_;
  if (random_.Below(100) >= scene_.plan.successor_percent) return;
  const uint64_t steps = random_.Below(2) == 0 ? 0 : random_.Below(kMostStepsWithout);
  schedule_.Add({scene_.workload.begun(), steps, Blow::Kind::kSuccession});
}

// The successor's own network has no faults.
void ServerBlows::StartSuccessor() {
  const std::string address = without_successor_.back();
  without_successor_.pop_back();
  const SimFaults faults = scene_.network.options().faults;
  scene_.network.SetFaults({});
  const auto number = static_cast<uint32_t>(successors_.size());
  auto successor =
      Successor::Start(options_, address, number, scene_.plan.work.keys(),
                       [this](uint32_t key) { return scene_.workload.keys().Text(key); });
  scene_.network.SetFaults(faults);
  if (!successor) {
    return scene_.verdict.Wrong("no memory server can be started at " + address + ": " +
                                successor.error().ToString());
  }
  scene_.recorder.Note("a memory server of another store is at " + address);
  successors_.push_back(std::move(successor.value()));
}

void ServerBlows::StopOrSlow() {
  constexpr std::chrono::microseconds kSlowest{200};
  size_t number = 0;
  EmbeddedMemory* const server = PickServer(0, number);
  if (server == nullptr) return;
  SimNetwork& network = scene_.network;
  const auto until = network.Now() + std::chrono::microseconds(
                                         1 + random_.Below(scene_.plan.longest_stall_ms * 1000));
  const bool stops = random_.Below(2) == 0;
  scene_.recorder.Note(fmt::format("memory server {}{} until {}", number,
                                   stops ? " stops" : " is slow", TimeText(until)));
  if (stops) {
    network.StopServer(server->address(), until);
  } else {
    network.SlowServer(server->address(), until, kSlowest);
  }
}

void ServerBlows::CheckSuccessors() {
  for (const auto& successor : successors_) {
    if (auto change = successor->FindChange()) scene_.verdict.Wrong(std::move(*change));
  }
}

}  // namespace gossamer::simulator
