#include "common/program/stop.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace gossamer {
namespace {

constexpr int64_t kOneRequestNs = 100'000'000;

// The Stop of the signal handler, which takes no argument, and when it was raised, in nanoseconds.
// Neither takes a lock.
static_assert(std::atomic<Stop*>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
std::atomic<Stop*> handler_target = nullptr;
std::atomic<int64_t> raised_at = 0;

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void OnSignal(int signal) {
  const int saved_errno = errno;
  Stop* stop = handler_target.load();
  if (stop != nullptr && !stop->raised()) {
    raised_at.store(Now());
    stop->Raise(signal);
  } else if (stop == nullptr || Now() - raised_at.load() > kOneRequestNs) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = saved_errno;
}

}  // namespace

Stop::Stop() {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
}

Stop::~Stop() {
  close(pipe_[0]);
  close(pipe_[1]);
}

void Stop::Raise(int signal) {
  signal_.store(signal, std::memory_order_release);
  const char byte = 0;
  // Fails only when the pipe is full, and then it is already readable.
  [[maybe_unused]] const ssize_t written = write(pipe_[1], &byte, 1);
}

void Stop::Reset() {
  char bytes[16];
  while (read(pipe_[0], bytes, sizeof(bytes)) > 0) {
  }
  signal_.store(0, std::memory_order_relaxed);
}

StopOnSignals::StopOnSignals(Stop& stop) {
  handler_target.store(&stop);
  struct sigaction action = {};
  action.sa_handler = OnSignal;  // no SA_RESTART: a read at a prompt must return
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

StopOnSignals::~StopOnSignals() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
  handler_target.store(nullptr);
}

}  // namespace gossamer
