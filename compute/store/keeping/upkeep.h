// Upkeep: does what operations leave to be done for the tree: merges.
//
// A thread with its own session does it, so that no operation waits for it, and no lock stays held
// while a session's thread is elsewhere. The thread starts at the first note.
//
// Thread-safety: any thread may call `Wake`; one thread calls `Stop`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/status.h"
#include "common/task.h"
#include "compute/store/open_session.h"

namespace gossamer {

class Upkeep {
 public:
  using NewSession = std::function<Result<std::unique_ptr<OpenSession>>()>;

  Upkeep(MergeQueue& merges, NewSession new_session)
      : merges_(merges), new_session_(std::move(new_session)) {}
  ~Upkeep() { Stop(); }
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Call when something was noted. Does nothing if the machine gives no thread: then nodes stay as
  // they are.
  void Wake();
  // Ends the thread once it has done what is noted, or for 100 ms as much as it can: what it leaves
  // would stay unmerged until the next delete there.
  void Stop();

  // Merges over `tree` until nothing is noted, or `stopping` is set.
  static Task<void> Work(MergeQueue& merges, Tree& tree, const std::atomic<bool>& stopping);

 private:
  void Run();

  MergeQueue& merges_;
  const NewSession new_session_;
  std::atomic<bool> stopping_ = false;  // leave what is noted
  std::mutex mutex_;
  std::condition_variable wake_;
  bool has_news_ = false;    // guarded by mutex_
  bool is_closing_ = false;  // guarded by mutex_
  bool has_ended_ = false;   // guarded by mutex_
  std::thread thread_;       // guarded by mutex_ until Stop
};

}  // namespace gossamer
