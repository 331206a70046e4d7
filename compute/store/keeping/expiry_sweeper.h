// ExpirySweeper: deletes the keys that have expired and that nobody has met since.
//
// Now and then it reads some leaves, drawn by chance. Once a share of their keys has expired, it
// goes through the tree and deletes all that have. So a store whose keys do not expire costs a few
// READs a minute, and of several compute servers usually one sweeps: the others find little left.
//
// It works for a share of the time, so that operations keep processors and memory servers.
//
// Thread-safety: one thread calls Start and Stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/random.h"
#include "common/resting_thread.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/store/open_session.h"

namespace gossamer {

class ExpirySweeper {
 public:
  using NewSession = std::function<Result<std::unique_ptr<OpenSession>>()>;
  using Clock = std::chrono::steady_clock;

  struct Pace {
    std::chrono::milliseconds look{5'000};  // between two looks at the tree, where keys expire,
    std::chrono::milliseconds longest_look{60'000};  // and where none was found that does
    double worth = 0.05;  // share of the keys that have expired and are worth a sweep
    // Less is swept after that time.
    std::chrono::milliseconds longest{600'000};
  };
  // What some leaves have.
  struct Sample {
    uint64_t keys = 0;
    uint64_t expiring = 0;  // that expire,
    uint64_t expired = 0;   // and those of them that have

    double share() const {
      return keys == 0 ? 0 : static_cast<double>(expired) / static_cast<double>(keys);
    }
  };

  ExpirySweeper(NewSession new_session, Pace pace, uint64_t seed)
      : new_session_(std::move(new_session)), pace_(pace), random_(seed) {}

  // Does nothing if the machine gives no thread: then keys that nobody meets keep their memory.
  void Start();
  // Ends a sweep that goes on, within a page of its keys.
  void Stop() { thread_.Stop(); }

  // Draws leaves from the whole tree, each with about equal probability. Cost: 1 RT for each level
  // of the tree and each leaf.
  static Task<Result<Sample>> Look(Tree& tree, Random& random);

 private:
  void Run();
  void Sweep(OpenSession& session, double share);

  const NewSession new_session_;
  const Pace pace_;
  Random random_;         // of the thread
  RestingThread thread_;  // uses all of the above
};

}  // namespace gossamer
