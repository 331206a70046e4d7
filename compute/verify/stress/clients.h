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
  // Starts the clients. `command` is the program with its flags; flags for each client are added.
  Clients(const StressOptions& options, const std::string& directory, const std::string& bootstrap,
          const std::vector<std::string>& command);

  // Reads the clients' output. Returns how many run.
  size_t Poll();
  // Kills a random client at any point and starts another. With `only_at_work`, does so only if the
  // client has done something.
  void KillOne(const RunBoard& board, bool only_at_work = false);
  // Stops a random client at any point and resumes it a moment later. On average a stop lasts half
  // as long as the time between stops.
  void PauseOne();

  // Kills of clients that had done something.
  uint32_t kills() const { return kills_; }
  // No client may be killed any more, because no client number is left.
  bool is_used_up() const { return next_number_ == options_.lives(); }
  // Whether the clients started last have done enough to show that they work.
  bool SurvivorsWork(const RunBoard& board) const;
  // Whether all that the clients do now began after `since`.
  bool HaveWorkedOn(int64_t since, const RunBoard& board) const;
  // Whether all clients have closed their stores of earlier eras.
  bool HaveReached(uint32_t era, const RunBoard& board) const;

  // Waits for the clients to end.
  void Judge(Findings& findings);

 private:
  struct ClientProcess {
    uint32_t number;
    std::unique_ptr<ChildProcess> process;
    ChildProcess* operator->() const { return process.get(); }
  };

  ClientProcess NewClient();

  const StressOptions& options_;
  Random random_;
  std::vector<std::string> command_;
  std::vector<ClientProcess> processes_;
  uint32_t next_number_ = 0;
  uint64_t pauses_ = 0;
  uint32_t kills_ = 0;
  uint32_t killed_early_ = 0;
};

}  // namespace gossamer::stress
