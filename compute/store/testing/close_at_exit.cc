// Opens a store that the destructor of a variable closes. The variable is `static`,
// `function_static`, `thread_local`, or `thread` for a thread_local of another thread. Exits with 1
// on a failure.
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "gossamer/store.h"

namespace gossamer {
namespace {

struct Opened {
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
};

Opened static_store;
thread_local Opened thread_store;

Opened& FunctionStatic() {
  static Opened opened;
  return opened;
}

// Leaves coroutine frames in this thread's pool.
bool OpenInto(Opened& opened) {
  LocalOptions options;
  options.memory_bytes = uint64_t{16} << 20;
  Result<std::unique_ptr<Store>> store = Store::OpenLocal(options);
  if (!store) {
    std::cerr << store.error().ToString() << '\n';
    return false;
  }
  opened.store = std::move(store.value());
  Result<std::unique_ptr<Session>> session = opened.store->NewSession();
  if (!session) {
    std::cerr << session.error().ToString() << '\n';
    return false;
  }
  opened.session = std::move(session.value());
  const Status put = opened.session->Put("key", std::string(100, 'v'));
  if (!put) std::cerr << put.error().ToString() << '\n';
  return put.has_value();
}

bool Run(std::string_view which) {
  if (which == "static") return OpenInto(static_store);
  if (which == "function_static") return OpenInto(FunctionStatic());
  if (which == "thread_local") return OpenInto(thread_store);
  bool is_open = false;
  if (which == "thread") std::thread([&] { is_open = OpenInto(thread_store); }).join();
  return is_open;
}

}  // namespace
}  // namespace gossamer

int main(int argc, char** argv) { return argc == 2 && gossamer::Run(argv[1]) ? 0 : 1; }
