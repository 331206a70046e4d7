// The memory that a store takes from its servers, and gives back on closing even after its
// connections were lost once.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "compute/store/testing/bootstrapped_store.h"

namespace gossamer {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);

bool HasPath(int fd, NameOf name_of) {
  sockaddr_un name{};
  socklen_t bytes = sizeof name;
  if (name_of(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return false;
  return name.sun_family == AF_UNIX && bytes > sizeof(sa_family_t) && name.sun_path[0] != 0;
}

// Ends of connections, by descriptor: those of clients, whose peer has a path, and those of memory
// servers.
struct Ends {
  std::set<int> clients;
  size_t servers = 0;
};

Ends Connections() {
  Ends ends;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (HasPath(fd, getpeername)) ends.clients.insert(fd);
    sockaddr_un peer{};
    socklen_t bytes = sizeof peer;
    const bool is_connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
    if (is_connected && HasPath(fd, getsockname)) ++ends.servers;
  }
  return ends;
}

// Waits until the memory servers notice and close their ends.
void Lose(const std::set<int>& clients) {
  const size_t before = Connections().servers;
  for (const int fd : clients) EXPECT_EQ(shutdown(fd, SHUT_RDWR), 0);
  while (Connections().servers > before - clients.size()) std::this_thread::yield();
}

class ReleaseTest : public BootstrappedStore {
 protected:
  static constexpr int kClients = 5;

  enum class Lost : uint8_t { kNothing, kAllBeforeTheSession, kTheStoresOwn };

  uint64_t FreeBytes() { return Open()->Stat().value().servers[0].free_bytes; }
  // A client opens sessions in turn; each writes a value to a block and closes.
  void Live(Lost lost) {
    const auto store = Open();
    const std::set<int> own = Connections().clients;
    if (lost == Lost::kAllBeforeTheSession) Lose(own);
    for (int i = 0; i < 3; ++i) {
      const auto session = store->NewSession().value();
      ASSERT_TRUE(session->Put("key", std::string(100, 'v')));
      if (i == 0 && lost == Lost::kTheStoresOwn) Lose(own);
      ASSERT_TRUE(session->Put("key", std::string(100, 'w')));
    }
  }
  uint64_t BytesTaken(Lost lost) {
    const uint64_t before = FreeBytes();
    for (int i = 0; i < kClients; ++i) Live(lost);
    return before - FreeBytes();
  }

  const std::unique_ptr<EmbeddedMemory> memory_ = StartMemory();
};

TEST_F(ReleaseTest, ConnectionsThatWereLostOnceCostNoMemory) {
  Live(Lost::kNothing);  // the first client takes more than later ones
  const uint64_t taken = BytesTaken(Lost::kNothing);
  EXPECT_EQ(BytesTaken(Lost::kAllBeforeTheSession), taken);
  EXPECT_EQ(BytesTaken(Lost::kTheStoresOwn), taken);
}

}  // namespace
}  // namespace gossamer
