#include "compute/lab/run_together.h"

#include <latch>
#include <thread>
#include <vector>

#include "common/start_thread.h"

namespace gossamer::lab {

Status RunTogether(uint32_t threads, const std::function<void(uint32_t thread)>& body) {
  std::latch started(threads);
  bool cancelled = false;  // written before `started` opens, read after
  std::vector<std::thread> running;
  Status status = Ok();
  for (uint32_t number = 0; number < threads; ++number) {
    Result<std::thread> thread = StartThread("use a tree", [&, number] {
      started.arrive_and_wait();
      if (!cancelled) body(number);
    });
    if (!thread) {
      cancelled = true;
      status = thread.error();
      started.count_down(threads - number);
      break;
    }
    running.push_back(std::move(thread).value());
  }
  for (std::thread& thread : running) thread.join();
  return status;
}

}  // namespace gossamer::lab
