// Where memory servers listen: paths that are taken, stale or unusable, and the leftovers of dead
// servers.
#include "common/fabric/shm/socket_files.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/shm/socket.h"
#include "common/fabric/shm/test_fixture.h"

namespace gossamer::shm {
namespace {

TEST_F(ShmFabric, ALivePathIsRefusedAndFreedWhenTheServerEnds) {
  const std::string path = Path("a.sock");
  {
    const auto port = StartMemory(SmallMemory(path));
    EXPECT_EQ(port->address(), path);
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << "others may connect";
    const auto second = OpenMemoryPort(SmallMemory(path));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kInvalidArgument);
    EXPECT_NE(second.error().message.find("live memory server"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
  EXPECT_TRUE(OpenMemoryPort(SmallMemory(path)));
}

TEST_F(ShmFabric, AStalePathIsReplacedAndOtherFilesAreNot) {
  const std::string stale = Path("stale.sock");
  {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    stale.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_TRUE(OpenMemoryPort(SmallMemory(stale)));

  const std::string precious = Path("precious");
  std::ofstream(precious) << "mine";
  EXPECT_FALSE(OpenMemoryPort(SmallMemory(precious)));
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_FALSE(std::filesystem::exists(precious + ".lock"));
}

TEST_F(ShmFabric, UnusablePathsAndSizesAreInvalid) {
  for (const std::string& path : {Path(std::string(200, 'x')), Path("a b"), Path("no/such/dir")}) {
    const auto port = OpenMemoryPort(SmallMemory(path));
    ASSERT_FALSE(port) << path;
    EXPECT_EQ(port.error().code, Code::kInvalidArgument);
  }
  MemoryPortOptions options = SmallMemory();
  options.region_bytes = 1000;
  EXPECT_FALSE(OpenMemoryPort(options));
  options = SmallMemory();
  options.lock_table_bytes = 3000;
  EXPECT_FALSE(OpenMemoryPort(options));
}

TEST_F(ShmFabric, FreshPathsDiffer) {
  const auto first = OpenMemoryPort(SmallMemory()).value();
  const auto second = OpenMemoryPort(SmallMemory()).value();
  EXPECT_NE(first->address(), second->address());
  EXPECT_EQ(first->address().find(' '), std::string::npos);
}

// Process ids repeat across containers that share the directory.
TEST_F(ShmFabric, FreshPathsDoNotDependOnTheProcessId) {
  const std::string name = std::filesystem::path(FreshSocketPath()).filename();
  EXPECT_EQ(name.size(), std::string("gossamer-0123456789abcdef.sock").size());
  EXPECT_EQ(name.find(fmt::format("gossamer-{}-", ::getpid())), std::string::npos);
}

class DeadSockets : public ShmFabric {
 protected:
  void SetUp() override {
    ShmFabric::SetUp();
    ::setenv("XDG_RUNTIME_DIR", Path("").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    ShmFabric::TearDown();
  }
  // Starts a server at a fresh path or at `listen`, and kills it. Returns its address.
  static std::string KilledServer(const std::string& listen = {}) {
    int fds[2];
    EXPECT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto port = OpenMemoryPort(SmallMemory(listen)).value();
      const std::string address = port->address();
      if (::write(fds[1], address.data(), address.size()) < 0) ::_exit(1);
      ::raise(SIGKILL);
    }
    ::close(fds[1]);
    char address[256] = {};
    EXPECT_GT(::read(fds[0], address, sizeof address - 1), 0);
    ::close(fds[0]);
    ::waitpid(child, nullptr, 0);
    return address;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Path("")))
      names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(DeadSockets, AServerThatStartsClearsThem) {
  const std::string dead = KilledServer();
  EXPECT_TRUE(std::filesystem::exists(dead) && std::filesystem::exists(dead + ".lock"));
  const auto port = OpenMemoryPort(SmallMemory()).value();
  const std::string living = std::filesystem::path(port->address()).filename();
  EXPECT_EQ(Names(), (std::set<std::string>{living, living + ".lock"}));
}

TEST_F(DeadSockets, NothingElseIsCleared) {
  KilledServer(Path("gossamer-mine.sock"));
  std::ofstream(Path("gossamer-1.sock")) << "no socket";
  std::ofstream(Path("gossamer-1.sock.lock")) << "no lock";
  ::mkfifo(Path("gossamer-2.sock.lock").c_str(), 0600);
  std::filesystem::create_symlink(Path("gossamer-1.sock"), Path("gossamer-3.sock.lock"));
  const auto living = OpenMemoryPort(SmallMemory()).value();
  const std::set<std::string> before = Names();
  EXPECT_EQ(ClearDeadSockets(Path("")), 0u);
  EXPECT_EQ(Names(), before);
  EXPECT_EQ(before.size(), 8u);
  EXPECT_EQ(ClearDeadSockets(Path("nowhere")), 0u);
}

// Servers that start, stop and clear concurrently: each can be reached as long as it lives.
TEST_F(DeadSockets, ClearingAtOnceHurtsNoLivingServer) {
  for (int i = 0; i < 8; ++i) KilledServer();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 50; ++round) {
        auto listener = ListeningSocket::Bind("");
        ASSERT_TRUE(listener) << listener.error().ToString();
        ASSERT_TRUE(listener.value().Listen());
        ClearDeadSockets(Path(""));
        EXPECT_TRUE(ConnectSocket(listener.value().path()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Names(), std::set<std::string>());
}

}  // namespace
}  // namespace gossamer::shm
