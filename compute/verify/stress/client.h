// One client of a stress run: its threads, the logs they leave in the run's directory, and what it
// reports meanwhile.
#pragma once

#include <string>

#include "compute/verify/stress/worker.h"

namespace gossamer::stress {

// Owns the mapping.
class SharedBoard {
 public:
  // Creates the file if it does not exist.
  static Result<SharedBoard> Open(const std::string& directory);
  SharedBoard(SharedBoard&& other) noexcept : board_(std::exchange(other.board_, nullptr)) {}
  SharedBoard& operator=(SharedBoard&&) = delete;
  ~SharedBoard();

  RunBoard* operator->() const { return board_; }
  RunBoard& operator*() const { return *board_; }

 private:
  explicit SharedBoard(RunBoard* board) : board_(board) {}

  RunBoard* board_;
};

// Log of one thread in one era.
std::string HistoryPath(const std::string& directory, uint32_t era, uint32_t writer);
// Logs of one client.
std::string LossesPath(const std::string& directory, uint32_t client);
std::string FailurePath(const std::string& directory, uint32_t client);

// Runs the threads of client number `client`. Returns when all have ended.
Status RunThreads(const StressOptions& options, uint32_t client, uint32_t era,
                  const NextStore& next_store, const std::string& directory, RunBoard& board);

// One client process of `RunCluster`. It opens the store of each era.
Status RunClient(const StressOptions& options, uint32_t client, const std::string& bootstrap,
                 const std::string& directory);

}  // namespace gossamer::stress
