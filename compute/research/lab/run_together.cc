#include "compute/research/lab/run_together.h"

#include <latch>
#include <thread>
#include <vector>

#include "common/start_thread.h"
#ifdef GOSSAMER_HAS_UNODB
#include "qsbr.hpp"
#endif

namespace gossamer::lab {
namespace {

#ifdef GOSSAMER_HAS_UNODB
// Only the main thread and threads of UnoDB's own class may use its tree.
void Run(const std::function<void(uint32_t thread)>& body, uint32_t number) {
  unodb::qsbr_thread(body, number).join();
}

// UnoDB frees no memory while a thread that takes part in its reclamation waits.
class MainThreadRests {
 public:
  MainThreadRests() { unodb::this_thread().qsbr_pause(); }
  MainThreadRests(const MainThreadRests&) = delete;
  MainThreadRests& operator=(const MainThreadRests&) = delete;
  ~MainThreadRests() { unodb::this_thread().qsbr_resume(); }
};
#else
void Run(const std::function<void(uint32_t thread)>& body, uint32_t number) { body(number); }
class MainThreadRests {};
#endif

}  // namespace

Status RunTogether(uint32_t threads, const std::function<void(uint32_t thread)>& body) {
  std::latch started(threads);
  bool cancelled = false;  // written before `started` opens, read after
  std::vector<std::thread> running;
  Status status = Ok();
  for (uint32_t number = 0; number < threads; ++number) {
    Result<std::thread> thread = StartThread("use a tree", [&, number] {
      started.arrive_and_wait();
      if (!cancelled) Run(body, number);
    });
    if (!thread) {
      cancelled = true;
      status = thread.error();
      started.count_down(threads - number);
      break;
    }
    running.push_back(std::move(thread).value());
  }
  [[maybe_unused]] const MainThreadRests rests;
  for (std::thread& thread : running) thread.join();
  return status;
}

}  // namespace gossamer::lab
