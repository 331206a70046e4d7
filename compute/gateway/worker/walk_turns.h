// WalkTurns: walks of a worker take turns, so that requests for single keys do not wait for them.
//
// A walk works for a slice of time, and then waits until the worker, which has looked at its
// sockets meanwhile, lets it go on. The worker resumes one walk for each look. So the requests of
// all others wait for one slice, however many walks there are.
//
//   WalkTurns::Slice slice(turns);
//   while (co_await cursor->AsyncNext()) {
//     if (slice.IsOver()) co_await slice.Next();
//     if (turns.must_end()) …
//   }
//
// Thread-safety: none; the worker's thread.
// Cost: a comparison for each key, and a look at the clock for every kKeysPerLook of them.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>

namespace gossamer::gateway {

class WalkTurns {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kSlice{50};
  static constexpr uint64_t kKeysPerLook = 64;
  static constexpr uint64_t kBytesLikeAKey = 256;

  class Slice {
   public:
    explicit Slice(WalkTurns& turns) : turns_(turns) {}

    // Call once for each key. `value_bytes`: which were copied with it.
    bool IsOver(size_t value_bytes = 0) {
      keys_ += 1 + value_bytes / kBytesLikeAKey;
      if (keys_ < kKeysPerLook) return false;
      keys_ = 0;
      return Clock::now() >= end_;
    }
    // The task goes on when it has its next slice.
    auto Next() { return Wait{*this, turns_.waiting_}; }
    // The same, not before the next WakeResting.
    auto Rest() { return Wait{*this, turns_.resting_}; }

   private:
    struct Wait {
      Slice& slice;
      std::deque<std::coroutine_handle<>>& walks;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> walk) { walks.push_back(walk); }
      void await_resume() { slice.end_ = Clock::now() + kSlice; }
    };

    WalkTurns& turns_;
    uint64_t keys_ = 0;
    Clock::time_point end_ = Clock::now() + kSlice;
  };

  // Lets the walk go on that has waited for the longest time. Outside of Session::Poll, as a task
  // may not be resumed in another one.
  void GiveTurn() {
    if (waiting_.empty()) return;
    const std::coroutine_handle<> walk = waiting_.front();
    waiting_.pop_front();
    walk.resume();
  }

  // Walks that have nothing to do before the next WakeResting.
  size_t resting() const { return resting_.size(); }
  // Each of them goes on for a slice, or rests again. As GiveTurn, outside of Session::Poll.
  void WakeResting() {
    for (const std::coroutine_handle<> walk : std::exchange(resting_, {})) walk.resume();
  }

  // From now on, until LetGoOn, walks answer with this error line instead of going on.
  void EndAll(std::string_view error) { end_error_ = error; }
  void LetGoOn() { end_error_ = {}; }
  bool must_end() const { return !end_error_.empty(); }
  std::string_view end_error() const { return end_error_; }

 private:
  std::deque<std::coroutine_handle<>> waiting_;
  std::deque<std::coroutine_handle<>> resting_;
  std::string_view end_error_;  // a constant's
};

}  // namespace gossamer::gateway
