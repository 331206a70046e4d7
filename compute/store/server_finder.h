// ServerFinder: makes memory servers known that joined after the store was opened.
//
// Finding a server reads the bootstrap and connects: seconds if one of them is silent. Sessions
// leave that to a thread, so that only the operations that need the server wait for it.
//
// Thread-safety: any thread may call `Find`.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "common/status.h"
#include "compute/session/server_search.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class ServerFinder {
 public:
  // `find` blocks until the server is known, or returns why it is not.
  explicit ServerFinder(std::function<Status(ServerId)> find) : find_(std::move(find)) {}
  ~ServerFinder() { Stop(); }

  // From now on `find` runs in a thread, which the first search starts. Before, it runs in `Find`: the simulator has
  // no threads. Requires: no search yet.
  void UseThread() { uses_thread_ = true; }

  SearchState Find(ServerSearch& search);
  // Requires: no search goes on.
  void Stop();

 private:
  void Run();

  const std::function<Status(ServerId)> find_;
  bool uses_thread_ = false;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<ServerSearch*> searches_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gossamer
