// The client processes of a stress run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/child_process.h"
#include "compute/verify/stress/findings.h"
#include "compute/verify/stress/options.h"
#include "compute/verify/stress/worker.h"

namespace gossamer::stress {

uint64_t OperationsDone(const RunBoard& board);

class Clients {
 public:
  // Starts them. `command` is the program with its flags, to which those of one client are added.
  Clients(const StressOptions& options, const std::string& directory, const std::string& bootstrap,
          const std::vector<std::string>& command);

  // Takes what they have written. Returns how many run.
  size_t Poll();
  // Kills a random one wherever it is, and starts another. With `only_at_work`, one that has done something, or none.
  void KillOne(const RunBoard& board, bool only_at_work = false);
  // Stops a random one wherever it is, and lets it go on a moment later. Half as long as the time between them.
  void PauseOne();

  // Of those that had done something.
  uint32_t kills() const { return kills_; }
  // No more may be killed, as there are numbers for no more.
  bool is_used_up() const { return next_number_ == options_.lives(); }
  // Those that were started last have come so far as to show that they can.
  bool SurvivorsWork(const RunBoard& board) const;
  // All have closed their stores of the eras before this one.
  bool HaveReached(uint32_t era, const RunBoard& board) const;

  // Waits for their ends.
  void Judge(Findings& findings);

 private:
  struct Client {
    uint32_t number;
    std::unique_ptr<testing::ChildProcess> process;
    testing::ChildProcess* operator->() const { return process.get(); }
  };

  Client NewClient();

  const StressOptions& options_;
  Random random_;
  std::vector<std::string> command_;
  std::vector<Client> processes_;
  uint32_t next_number_ = 0;
  uint64_t pauses_ = 0;
  uint32_t kills_ = 0;
  uint32_t killed_early_ = 0;
};

}  // namespace gossamer::stress
