// What --wait of a program does: it opens a store that may not be there yet.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <string>

#include "common/program/stop.h"
#include "common/status.h"

namespace gossamer {

// Returns what `open` returns. Calls it again and again, for up to `patience`, while its error is
// one that ends when a memory server starts or answers again (NotFound, NodeUnreachable), and
// `stop` is not raised. Calls `waits` with each such error whose message is another one than that
// before.
template <typename Open>
auto OpenPatiently(const Open& open, std::chrono::seconds patience, const Stop& stop,
                   const std::function<void(const Error&)>& waits) -> decltype(open()) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPauseMs = 200;
  const Clock::time_point deadline = Clock::now() + patience;
  std::string last;
  for (;;) {
    auto opened = open();
    if (opened) return opened;
    const Error& error = opened.error();
    const bool may_come = error.code == Code::kNotFound || error.code == Code::kNodeUnreachable;
    if (!may_come || stop.raised() || Clock::now() >= deadline) return opened;
    if (error.message != last) waits(error);
    last = error.message;
    pollfd stopped{stop.fd(), POLLIN, 0};
    poll(&stopped, 1, kPauseMs);
  }
}

}  // namespace gossamer
