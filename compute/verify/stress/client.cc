#include "compute/verify/stress/client.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "compute/verify/stress/connection_losses.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {

Result<SharedBoard> SharedBoard::Open(const std::string& directory) {
  const std::string path = directory + "/board";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(RunBoard)) != 0) {
    return MakeError(Code::kInvalidArgument, "cannot write " + path);
  }
  // A file of zeros is a valid empty board.
  void* mapped = mmap(nullptr, sizeof(RunBoard), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return MakeError(Code::kNoResources, "cannot map " + path);
  return SharedBoard(static_cast<RunBoard*>(mapped));
}

SharedBoard::~SharedBoard() {
  if (board_ != nullptr) munmap(board_, sizeof(RunBoard));
}

std::string HistoryPath(const std::string& directory, uint32_t era, uint32_t writer) {
  return fmt::format("{}/history-{}-{}", directory, era, writer);
}

std::string FailurePath(const std::string& directory, uint32_t client) {
  return fmt::format("{}/failures-{}", directory, client);
}

std::string LossesPath(const std::string& directory, uint32_t client) {
  return fmt::format("{}/losses-{}", directory, client);
}

Status RunThreads(const StressOptions& options, uint32_t client, uint32_t era,
                  const NextStore& next_store, const std::string& directory, RunBoard& board) {
  const uint64_t workers = uint64_t{options.clients} * options.threads;
  BOOST_OUTCOME_TRY(failures, FailureLog::Open(FailurePath(directory, client)));
  std::vector<std::thread> threads;
  std::vector<Status> results(options.threads, Ok());
  threads.reserve(options.threads);
  for (uint32_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] {
      const uint32_t writer = client * options.threads + i;
      const uint64_t operations =
          options.operations / workers + (writer < options.operations % workers ? 1 : 0);
      results[i] = [&]() -> Status {
        BOOST_OUTCOME_TRY(history, HistoryWriter::Create(HistoryPath(directory, era, writer)));
        Worker worker(options, writer, era, {history, failures, board.clients[client]}, board);
        BOOST_OUTCOME_TRYV(worker.Run(next_store, operations));
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

namespace {

// How long a store other than the era's may be found before the next era is announced.
constexpr std::chrono::seconds kAnnouncement{20};

// Opens the store of an era, and retries until the era is over.
class Opener {
 public:
  Opener(const StressOptions& options, uint32_t client, const RunBoard& board, FailureLog& failures,
         ClientReport& report)
      : options_(options), client_(client), board_(board), failures_(failures), report_(report) {}

  // Returns null if the era is over.
  Result<std::unique_ptr<Store>> Open(const OpenOptions& open, uint32_t era) {
    while (!board_.stop && board_.era == era) {
      const int64_t start = NowNs();
      Result<std::unique_ptr<Store>> store = Store::Open(open);
      if (store) ++report_.stores;
      if (!options_.is_campaign()) return store;
      if (!store) {
        BOOST_OUTCOME_TRYV(Failed(Call::kOpen, start, store.error()));
        continue;
      }
      const Result<StoreStat> stat = store.value()->Stat();
      if (!stat) {
        BOOST_OUTCOME_TRYV(Failed(Call::kStat, start, stat.error()));
        continue;
      }
      BOOST_OUTCOME_TRY(is_ours, IsOf(era, stat.value().store_id));
      if (is_ours) return store;
    }
    return nullptr;
  }

 private:
  Status Failed(Call call, int64_t start, const Error& error) {
    ++report_.failures;
    BOOST_OUTCOME_TRYV(failures_.Append(MakeFailedCall(call, client_, start, NowNs(), error)));
    std::this_thread::sleep_for(kTryAgain);
    return Ok();
  }

  // The next era's store exists before its era begins, so it may be found. Any third store is an
  // error.
  Result<bool> IsOf(uint32_t era, uint64_t store_id) {
    if (store_id == board_.store_of[era]) return true;
    const auto deadline = std::chrono::steady_clock::now() + kAnnouncement;
    while (std::chrono::steady_clock::now() < deadline || store_id == board_.store_of[era + 1]) {
      if (board_.stop || board_.era != era) return false;
      std::this_thread::sleep_for(kTryAgain);
    }
    return MakeError(
        Code::kCorruption,
        fmt::format("a store was opened that is neither that of era {} nor of the next", era));
  }

  const StressOptions& options_;
  const uint32_t client_;
  const RunBoard& board_;
  FailureLog& failures_;
  ClientReport& report_;
};

// The stores that a client's threads have open. A store stays open until its last session ends.
class Stores {
 public:
  Stores(const StressOptions& options, const OpenOptions& open, uint32_t client, uint32_t era,
         Opener& opener)
      : is_reopening_(options.reopen),
        open_(open),
        era_(era),
        opener_(opener),
        random_(options.seed, ~uint64_t{client} << 16 | era) {}

  // When reopening, every eighth session opens the store anew; later sessions share that store.
  Result<std::shared_ptr<Store>> Next() {
    {
      const std::lock_guard lock(mutex_);
      const bool anew = current_ == nullptr || (is_reopening_ && random_.Below(8) == 0);
      if (!anew) return current_;
    }
    BOOST_OUTCOME_TRY(opened, opener_.Open(open_, era_));
    const std::shared_ptr<Store> store = std::move(opened);
    const std::lock_guard lock(mutex_);
    if (store != nullptr) current_ = store;
    return store;
  }

 private:
  const bool is_reopening_;
  const OpenOptions& open_;
  const uint32_t era_;
  Opener& opener_;
  std::mutex mutex_;
  Random random_;
  std::shared_ptr<Store> current_;
};

}  // namespace

Status RunClient(const StressOptions& options, uint32_t client, const std::string& bootstrap,
                 const std::string& directory) {
  BOOST_OUTCOME_TRY(board, SharedBoard::Open(directory));
  BOOST_OUTCOME_TRY(failures, FailureLog::Open(FailurePath(directory, client)));
  OpenOptions open = options.Opening(bootstrap);
  open.cache_bytes = options.cache_bytes;
  open.lock_timeout_ms = options.lock_timeout_ms;
  ClientReport& report = board->clients[client];
  std::unique_ptr<ConnectionLosses> losses;
  if (options.loss_ms != 0) {
    BOOST_OUTCOME_TRY(started, ConnectionLosses::Start(options.loss_ms, options.seed + client,
                                                       LossesPath(directory, client)));
    losses = std::move(started);
  }
  Opener opener(options, client, *board, failures, report);
  do {
    const uint32_t era = board->era;
    report.era = era;
    Stores stores(options, open, client, era, opener);
    BOOST_OUTCOME_TRYV(
        RunThreads(options, client, era, [&] { return stores.Next(); }, directory, *board));
  } while (options.is_campaign() && !board->stop);
  return Ok();
}

}  // namespace gossamer::stress
