// One client of a stress run: its threads, the logs they leave in the run's directory, and what it tells meanwhile.
#pragma once

#include <string>

#include "compute/stress/worker.h"

namespace gossamer::stress {

// Owns the mapping.
class SharedBoard {
 public:
  // Creates the file if there is none.
  static Result<SharedBoard> Open(const std::string& directory);
  SharedBoard(SharedBoard&& other) noexcept : board_(std::exchange(other.board_, nullptr)) {}
  SharedBoard& operator=(SharedBoard&&) = delete;
  ~SharedBoard();

  RunBoard* operator->() const { return board_; }

 private:
  explicit SharedBoard(RunBoard* board) : board_(board) {}

  RunBoard* board_;
};

std::string HistoryPath(const std::string& directory, uint32_t writer);

// Runs the threads of client number `client` and returns when all have ended.
Status RunThreads(const StressOptions& options, uint32_t client, Store& store,
                  const std::string& directory, RunBoard& board);

}  // namespace gossamer::stress
