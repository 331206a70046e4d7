// ServerFinder: makes memory servers known that joined after the store was opened, or came back.
//
// Finding a server reads the bootstrap and connects: seconds if one of them is silent. Sessions
// leave that to a thread, so that only the operations that need the server wait for it.
//
// Thread-safety: any thread may call `Find`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "common/status.h"
#include "compute/session/links.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class ServerFinder {
 public:
  using Learn = std::function<Status(ServerId, uint64_t gone)>;

  // `learn` blocks until the server is known, in another incarnation than the one that is gone if
  // that is not 0, or returns why it is not. `learn_new` blocks until all servers are known that
  // have joined, as far as they can be reached.
  ServerFinder(Learn learn, std::function<void()> learn_new)
      : learn_(std::move(learn)), learn_new_(std::move(learn_new)) {}
  ~ServerFinder() { Stop(); }

  // From now on `learn` runs in a thread, which the first search starts. Before, it runs in `Find`:
  // the simulator has no threads. Requires: no search yet.
  void UseThread() {
    assert(!thread_.joinable());
    uses_thread_ = true;
  }

  SearchState Find(ServerSearch& search);
  // Call when memory is short: somebody may have started another server. Has the thread look, if
  // the last look was some time ago, and returns at once. Does nothing without a thread.
  void LookForNew();
  // Ends the searches under way. A search that begins afterwards finds nothing.
  void Stop();

 private:
  void Run();

  // Has the thread run. Requires (unchecked): the mutex.
  Status StartRunning();

  const Learn learn_;
  const std::function<void()> learn_new_;
  bool uses_thread_ = false;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<ServerSearch*> searches_;
  bool looks_for_new_ = false;
  std::chrono::steady_clock::time_point next_look_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gossamer
