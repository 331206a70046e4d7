// Memory servers of a run that are killed at any moment, and come back with what their memory held.
//
// The network calls when one is due, so that it happens in the middle of anything, also while a
// client blocks. A server comes back after some time, at the same or another address, under another
// incarnation. Sometimes it is killed again before anybody has found it.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/embedded_memory.h"
#include "common/random.h"
#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

class Returns {
 public:
  // `options`: of the run's memory servers. All arguments must outlive this object.
  Returns(Scene& scene, const EmbeddedMemoryOptions& options, Membership::Memory& memory,
          Membership& membership)
      : scene_(scene),
        options_(options),
        memory_(memory),
        membership_(membership),
        random_(scene.plan.seed, kReturnStream) {}

  // One or several memory servers are killed soon.
  void Strike();
  // Whether no server is to be killed, or to come back.
  bool are_over() const { return due_ == 0; }
  // Whether a server is away now.
  bool are_away() const { return away_ != 0; }
  uint64_t returned() const { return returned_; }

 private:
  using Duration = std::chrono::nanoseconds;
  static constexpr uint64_t kReturnStream = ~uint64_t{17};

  void CallIn(Duration time, std::function<void()> act);
  Duration UpTo(uint64_t longest_us) { return Duration(random_.Below(longest_us * 1000)); }
  Duration DrawAbsence();
  void KillIn(Duration time, size_t server);
  void Kill(size_t server);
  void Return(size_t server, const std::string& address);

  Scene& scene_;
  const EmbeddedMemoryOptions& options_;
  Membership::Memory& memory_;
  Membership& membership_;
  Random random_;
  uint32_t due_ = 0;
  uint32_t away_ = 0;
  uint64_t returned_ = 0;
};

}  // namespace gossamer::simulator
