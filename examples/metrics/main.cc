// A program that shows its metrics by HTTP while it uses a store: two threads put and get, until
// Enter or the end of the input. Open the address that it prints in a browser.
#include <gossamer/metrics.h>
#include <gossamer/store.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

void Work(gossamer::Store& store, int number, const std::atomic<bool>& is_ending) {
  const auto session = store.NewSession();
  if (!session) return;
  for (int i = 0; !is_ending; i = (i + 1) % 10'000) {
    const std::string key = std::to_string(number) + ":" + std::to_string(i);
    if (!session.value()->Put(key, "value")) return;
    if (!session.value()->Get(key)) return;
  }
}

}  // namespace

int main() {
  const auto metrics = gossamer::ServeMetrics({.address = "127.0.0.1:0"});
  gossamer::LocalOptions options;  // OpenOptions has the same member
  options.memory_bytes = uint64_t{64} << 20;
  options.observer = metrics;
  const auto store = gossamer::Store::OpenLocal(options);
  if (!store) {
    std::cerr << store.error().ToString() << '\n';
    return EXIT_FAILURE;
  }
  std::cout << "http://" << metrics->address() << "/" << std::endl;

  std::atomic<bool> is_ending = false;
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number) {
    threads.emplace_back(Work, std::ref(*store.value()), number, std::cref(is_ending));
  }
  std::cin.get();
  is_ending = true;
  for (std::thread& thread : threads) thread.join();
  return EXIT_SUCCESS;
}
