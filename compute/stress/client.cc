#include "compute/stress/client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "compute/stress/run.h"

namespace gossamer::stress {

Result<SharedBoard> SharedBoard::Open(const std::string& directory) {
  const std::string path = directory + "/board";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(RunBoard)) != 0) {
    return MakeError(Code::kInvalidArgument, "cannot write " + path);
  }
  // A file of zeros is a board on which nothing has happened.
  void* mapped = mmap(nullptr, sizeof(RunBoard), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return MakeError(Code::kExhausted, "cannot map " + path);
  return SharedBoard(static_cast<RunBoard*>(mapped));
}

SharedBoard::~SharedBoard() {
  if (board_ != nullptr) munmap(board_, sizeof(RunBoard));
}

std::string HistoryPath(const std::string& directory, uint32_t writer) {
  return directory + "/history-" + std::to_string(writer);
}

Status RunThreads(const StressOptions& options, uint32_t client, Store& store,
                  const std::string& directory, RunBoard& board) {
  const uint64_t workers = uint64_t{options.clients} * options.threads;
  std::vector<std::thread> threads;
  std::vector<Status> results(options.threads, Ok());
  threads.reserve(options.threads);
  for (uint32_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] {
      const uint32_t writer = client * options.threads + i;
      const uint64_t operations =
          options.operations / workers + (writer < options.operations % workers ? 1 : 0);
      results[i] = [&]() -> Status {
        BOOST_OUTCOME_TRY(history, HistoryWriter::Create(HistoryPath(directory, writer)));
        Worker worker(options, writer, history, board.clients[client], board);
        BOOST_OUTCOME_TRYV(worker.Run(store, operations));
        return history.Close();
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    BOOST_OUTCOME_TRYV(result);
  }
  return Ok();
}

Status RunClient(const StressOptions& options, uint32_t client, const std::string& bootstrap,
                 const std::string& directory) {
  BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory));
  OpenOptions open;
  open.bootstrap = bootstrap;
  open.fabric = options.fabric;
  open.device = options.device;
  open.cache_bytes = options.cache_bytes;
  open.lock_timeout_ms = options.lock_timeout_ms;
  BOOST_OUTCOME_TRY(store, Store::Open(open));
  return RunThreads(options, client, *store, directory, *board.operator->());
}

}  // namespace gossamer::stress
