#include "compute/verify/sim/returns.h"

#include <fmt/core.h>

#include <functional>
#include <utility>

#include "compute/verify/sim/draw.h"

namespace gossamer::simulator {

void Returns::CallIn(Duration time, std::function<void()> act) {
  ++due_;
  scene_.network.CallAt(scene_.network.Now() + time, [this, act = std::move(act)] {
    --due_;
    act();
  });
}

void Returns::Strike() {
  const bool are_several = Chance(random_, 40);
  const bool at_once = Chance(random_, 50);
  const Duration soon = UpTo(OneOf<uint64_t>(random_, {1, 20, 1000}));
  const size_t first = random_.Below(memory_.size());
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (i != 0 && (!are_several || Chance(random_, 30))) continue;
    KillIn(at_once ? soon : soon + UpTo(1000), (first + i) % memory_.size());
  }
}

void Returns::KillIn(Duration time, size_t server) {
  CallIn(time, [this, server] { Kill(server); });
}

Returns::Duration Returns::DrawAbsence() {
  return UpTo(OneOf<uint64_t>(random_, {1, 100, 5000, scene_.plan.longest_absence_us}));
}

void Returns::Kill(size_t server) {
  if (memory_[server] == nullptr) return;
  const std::string address = memory_[server]->address();
  scene_.recorder.Note(fmt::format("memory server {} is killed, and will come back", server));
  scene_.verdict.ServerGoes(server);
  ++away_;
  membership_.End(server);
  const Duration absence = DrawAbsence();
  const std::string next = Chance(random_, 50) ? address : std::string();
  CallIn(absence, [this, server, next] { Return(server, next); });
}

void Returns::Return(size_t server, const std::string& address) {
  constexpr uint64_t kTryAgainUs = 200;
  constexpr uint64_t kFirstIncarnation = 100'000;
  EmbeddedMemoryOptions options = options_;
  if (server == 0) options.memory_bytes = scene_.plan.bytes_of_first.value_or(options.memory_bytes);
  options.listen = address;
  if (!membership_.Return(server, options, kFirstIncarnation + returned_)) {
    return CallIn(Duration(kTryAgainUs * 1000),
                  [this, server, address] { Return(server, address); });
  }
  ++returned_;
  --away_;
  scene_.verdict.ServerIsBack(server);
  scene_.recorder.Note(
      fmt::format("memory server {} is back at {}", server, memory_[server]->address()));
  if (Chance(random_, scene_.plan.again_percent)) {
    KillIn(UpTo(OneOf<uint64_t>(random_, {1, 30, 500})), server);
  }
}

}  // namespace gossamer::simulator
