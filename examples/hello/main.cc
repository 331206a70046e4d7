// A store inside this process: puts, a get, a scan, a delete, and many gets in flight at once.
//
// To use a store that memory servers keep instead, open it with gossamer::Store::Open({}); all else
// is the same.
#include <gossamer/store.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/key.h"

namespace {

using gossamer::Result;
using gossamer::Session;
using gossamer::Status;

// One of many lookups that share their round trips. The key is a parameter, so it lives as long as
// the task does.
gossamer::Task<void> AddLength(Session& session, std::string key, size_t& total) {
  Result<std::string> value = co_await session.AsyncGet(key);
  if (value) total += value.value().size();
}

}  // namespace

int main() {
  gossamer::LocalOptions options;
  options.memory_bytes = uint64_t{64} << 20;
  Result<std::unique_ptr<gossamer::Store>> store = gossamer::Store::OpenLocal(options);
  if (!store) return Fail("cannot open a store", store.error());
  Result<std::unique_ptr<Session>> opened = store.value()->NewSession();
  if (!opened) return Fail("cannot open a session", opened.error());
  Session& session = *opened.value();

  const std::vector<gossamer::KeyValue> moons = {{MoonKey("jupiter", "europa"), "1610"},
                                                 {MoonKey("jupiter", "io"), "1610"},
                                                 {MoonKey("mars", "deimos"), "1877"},
                                                 {MoonKey("mars", "phobos"), "1877"},
                                                 {MoonKey("saturn", "titan"), "1655"}};
  for (const gossamer::KeyValue& moon : moons) {
    if (Status put = session.Put(moon.key, moon.value); !put) return Fail("put", put.error());
  }

  Result<std::string> year = session.Get(MoonKey("saturn", "titan"));
  if (!year) return Fail("get", year.error());
  std::cout << "Titan was found in " << year.value() << ".\n";

  gossamer::ScanOptions of_jupiter;
  of_jupiter.prefix = PlanetPrefix("jupiter");
  std::unique_ptr<gossamer::ScanCursor> cursor = session.Scan(of_jupiter);
  while (cursor->Next()) std::cout << cursor->key() << " in " << cursor->value() << '\n';
  if (!cursor->status()) return Fail("scan", cursor->status().error());

  if (Status gone = session.Delete(MoonKey("mars", "deimos")); !gone)
    return Fail("delete", gone.error());
  std::cout << "Deimos is " << (session.Get(MoonKey("mars", "deimos")) ? "still there" : "gone")
            << ".\n";

  size_t total = 0;
  for (const gossamer::KeyValue& moon : moons) {
    session.Spawn(AddLength(session, moon.key, total));
  }
  session.WaitAll();
  std::cout << total << " bytes of values, fetched together.\n";
  return EXIT_SUCCESS;
}
