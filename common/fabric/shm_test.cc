// What the conformance suite cannot see of the shm fabric: socket paths, the journal, refusals.
#include "common/fabric/shm.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/shm_compute_port.h"
#include "common/fabric/shm_memory.h"
#include "common/fabric/shm_queue_pair.h"
#include "common/fabric/shm_socket.h"
#include "common/fabric/shm_socket_files.h"
#include "common/random_id.h"

namespace gossamer::shm {
namespace {

// Answers nothing, and counts.
class EmptyHandler final : public ControlHandler {
 public:
  uint32_t Handle(uint64_t, std::span<const std::byte>,
                  std::span<std::byte, kMaxControlBytes>) override {
    return 0;
  }
  void ClientGone(uint64_t) override { ++gone; }
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point) override {
    ++ticks;
    return {};
  }
  void AwaitTicks(int count) const {
    for (const int until = ticks + count; ticks < until;) std::this_thread::yield();
  }

  std::atomic<int> gone = 0;
  std::atomic<int> ticks = 0;
};

MemoryPortOptions SmallMemory(const std::string& listen = {}) {
  MemoryPortOptions options;
  options.region_bytes = 65536;
  options.lock_table_bytes = 4096;
  options.listen = listen;
  return options;
}

// A connected socket whose calls block.
UniqueFd HandMadeClient(const std::string& path) {
  UniqueFd socket = ConnectSocket(path).value();
  EXPECT_TRUE(socket);
  const int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK);
  return socket;
}

class ShmFabric : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "gossamer-shm-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path(const std::string& name) const { return directory_ / name; }

  EmptyHandler handler_;

 private:
  std::filesystem::path directory_;
};

TEST_F(ShmFabric, ALivePathIsRefusedAndFreedWhenTheServerEnds) {
  const std::string path = Path("a.sock");
  {
    const auto port = OpenMemoryPort(SmallMemory(path)).value();
    ASSERT_TRUE(port->Start(handler_, RandomId()));
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

// 0 would be no bound at all for sockets, and the greatest ones none for poll.
TEST_F(ShmFabric, ATimeoutIsABound) {
  for (const uint32_t timeout_ms : {0u, ~0u}) {
    MemoryPortOptions memory = SmallMemory(Path("a.sock"));
    memory.connection_timeout_ms = timeout_ms;
    const auto memory_port = gossamer::OpenMemoryPort(FabricKind::kShm, memory);
    ASSERT_FALSE(memory_port);
    EXPECT_EQ(memory_port.error().code, Code::kInvalidArgument);
    ComputePortOptions compute;
    compute.client_uuid = 1;
    compute.connection_timeout_ms = timeout_ms;
    const auto compute_port = gossamer::OpenComputePort(FabricKind::kShm, compute);
    ASSERT_FALSE(compute_port);
    EXPECT_EQ(compute_port.error().code, Code::kInvalidArgument);
  }
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
  EXPECT_EQ(name.find("gossamer-" + std::to_string(::getpid()) + "-"), std::string::npos);
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
  // Starts a server at a fresh path, or at `listen`, and kills it: its address.
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
  const std::string chosen = KilledServer(Path("gossamer-mine.sock"));
  std::ofstream(Path("gossamer-1.sock")) << "no socket";
  std::ofstream(Path("gossamer-1.sock.lock"));
  ::mkfifo(Path("gossamer-2.sock.lock").c_str(), 0600);
  std::filesystem::create_symlink(Path("gossamer-1.sock"), Path("gossamer-3.sock.lock"));
  const auto living = OpenMemoryPort(SmallMemory()).value();
  const std::set<std::string> before = Names();
  EXPECT_EQ(ClearDeadSockets(Path("")), 0u);
  EXPECT_EQ(Names(), before);
  EXPECT_EQ(before.size(), 8u);
  EXPECT_EQ(ClearDeadSockets(Path("nowhere")), 0u);
}

// Servers that start, stop and clear at once: each can be reached as long as it lives.
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

TEST_F(ShmFabric, SaysWhatItsMemoryIs) {
  for (const bool in_process_only : {false, true}) {
    for (const bool huge_pages : {false, true}) {
      MemoryPortOptions options = SmallMemory();
      options.region_bytes = uint64_t{4} << 20;
      options.in_process_only = in_process_only;
      options.huge_pages = huge_pages;
      const std::string description = OpenMemoryPort(options).value()->memory_description();
      if (huge_pages) {
        EXPECT_TRUE(description.starts_with("2 MB pages") ||
                    description.find("(no huge pages:") != std::string::npos)
            << description;
      } else {
        EXPECT_EQ(description, "4 KB pages");
      }
    }
  }
}

TEST_F(ShmFabric, AnEndpointOutlivesItsMemoryServer) {
  auto memory = OpenMemoryPort(SmallMemory()).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  ComputePortOptions options;
  options.client_uuid = 5;
  const auto compute = OpenComputePort(options).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, memory->address()));
  const auto endpoint = compute->NewEndpoint().value();
  memory.reset();
  const BufferLease buffer = endpoint->buffers().Allocate(64).value();
  InlineBatch<1> batch;
  batch.Add(Verb::Read(0, 64, buffer.address()));
  endpoint->Post(batch);
  EXPECT_EQ(endpoint->Poll(), 1U);
  EXPECT_EQ(batch.status(), VerbStatus::kUnknown);
}

TEST_F(ShmFabric, ARestartedServerIsAnotherOne) {
  const std::string path = Path("restart.sock");
  auto memory = OpenMemoryPort(SmallMemory(path)).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  memory->region()[0] = std::byte{1};
  ComputePortOptions options;
  options.client_uuid = 5;
  const auto compute = OpenComputePort(options).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, path));
  const auto endpoint = compute->NewEndpoint().value();
  memory.reset();
  memory = OpenMemoryPort(SmallMemory(path)).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  const Status reconnected = endpoint->Reconnect(ServerId{0});
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(reconnected.error().message, ::testing::HasSubstr("started anew"));
  EXPECT_FALSE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
  // It is another server, which may be connected to as such.
  ASSERT_TRUE(compute->Connect(ServerId{1}, path));
}

TEST_F(ShmFabric, AClientThatSpeaksNonsenseIsCutOff) {
  const auto memory = OpenMemoryPort(SmallMemory()).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  for (const size_t bytes : {size_t{1}, sizeof(Hello), sizeof(Call)}) {
    const UniqueFd socket = HandMadeClient(memory->address());
    const std::vector<std::byte> nonsense(bytes, std::byte{0x42});
    ASSERT_EQ(SendMessage(socket, nonsense, {}, true), Transfer::kDone);
    Transfer last = Transfer::kDone;
    for (size_t received = 0; last == Transfer::kDone;) {
      Welcome welcome;
      last = ReceiveMessage(socket, std::as_writable_bytes(std::span(&welcome, 1)), &received,
                            nullptr, true);
      if (last == Transfer::kDone) {
        EXPECT_EQ(welcome.accepted, 0U);
      }
    }
    EXPECT_EQ(last, Transfer::kLost);
  }
}

bool HangsUp(const UniqueFd& socket, int within_ms) {
  pollfd event{socket.get(), 0, 0};
  return ::poll(&event, 1, within_ms) == 1 && (event.revents & POLLHUP) != 0;
}

TEST_F(ShmFabric, WhoConnectsAndSaysNothingIsCutOffAndAnIdleQueuePairIsNot) {
  MemoryPortOptions options = SmallMemory(Path("quiet.sock"));
  options.connection_timeout_ms = 1000;
  const auto memory = OpenMemoryPort(options).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  ComputePortOptions client;
  client.client_uuid = 5;
  const auto compute = OpenComputePort(client).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, memory->address()));
  const auto endpoint = compute->NewEndpoint().value();
  const UniqueFd quiet = HandMadeClient(memory->address());
  EXPECT_TRUE(HangsUp(quiet, 30'000));
  handler_.AwaitTicks(20);
  EXPECT_EQ(handler_.gone, 0);
  const BufferLease buffer = endpoint->buffers().Allocate(8).value();
  InlineBatch<1> batch;
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address()));
  endpoint->Post(batch);
  while (endpoint->Poll() == 0) std::this_thread::yield();
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
}

// Longer than the connection time-out lets them.
TEST_F(ShmFabric, ManyWhoSayNothingKeepNobodyOut) {
  MemoryPortOptions options = SmallMemory(Path("quiet.sock"));
  options.connection_timeout_ms = 1'000'000;
  const auto memory = OpenMemoryPort(options).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  std::vector<UniqueFd> quiet;
  for (int i = 0; i < 140; ++i) {
    quiet.push_back(HandMadeClient(memory->address()));
    handler_.AwaitTicks(i % 20 == 0 ? 1 : 0);
  }
  EXPECT_TRUE(HangsUp(quiet[0], 30'000));
  EXPECT_FALSE(HangsUp(quiet[139], 0));
  ComputePortOptions client;
  client.client_uuid = 5;
  const auto compute = OpenComputePort(client).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, memory->address()));
  EXPECT_TRUE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
}

TEST_F(ShmFabric, UuidZeroIsInvalid) {
  EXPECT_EQ(OpenComputePort(ComputePortOptions{}).error().code, Code::kInvalidArgument);
}

// A hand-made client that is in the midst of its verbs for as long as the test likes.
TEST_F(ShmFabric, AFenceWaitsForVerbsUnderWayAndSoDoesWhoConnectsMeanwhile) {
  const auto memory = OpenMemoryPort(SmallMemory(Path("fence.sock"))).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  const auto say_hello = [&](const UniqueFd& socket, uint64_t uuid) {
    Hello hello;
    hello.kind = HelloKind::kQueuePair;
    hello.client_uuid = uuid;
    ASSERT_EQ(SendMessage(socket, std::as_bytes(std::span(&hello, 1)), {}, true), Transfer::kDone);
  };
  const auto welcome = [](const UniqueFd& socket, std::vector<UniqueFd>* fds, bool wait) {
    Welcome message;
    size_t bytes = 0;
    const Transfer transfer =
        ReceiveMessage(socket, std::as_writable_bytes(std::span(&message, 1)), &bytes, fds, wait);
    return transfer == Transfer::kDone ? message.accepted == 1 : false;
  };
  const UniqueFd old = HandMadeClient(memory->address());
  std::vector<UniqueFd> fds;
  say_hello(old, 5);
  ASSERT_TRUE(welcome(old, &fds, true));
  const Mapping mapping = Mapping::OfFile(fds.back()).value();
  auto& page = *reinterpret_cast<QueuePairPage*>(mapping.data());
  page.busy = 1;

  memory->Fence(5);
  while (page.closed == 0) std::this_thread::yield();
  const UniqueFd anew = HandMadeClient(memory->address());
  say_hello(anew, 5);
  const UniqueFd stranger = HandMadeClient(memory->address());
  say_hello(stranger, 6);
  EXPECT_TRUE(welcome(stranger, nullptr, true)) << "others are served";
  handler_.AwaitTicks(5);
  EXPECT_EQ(handler_.gone, 0) << "while verbs may still land";
  EXPECT_FALSE(welcome(anew, nullptr, false)) << "into a life that has not ended";

  page.busy = 0;
  EXPECT_TRUE(welcome(anew, nullptr, true));
  EXPECT_EQ(handler_.gone, 1);
}

TEST_F(ShmFabric, StopDoesNotWaitForeverForAFencedClient) {
  MemoryPortOptions options = SmallMemory(Path("stop.sock"));
  options.connection_timeout_ms = 50;
  const auto memory = OpenMemoryPort(options).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  ComputePortOptions client;
  client.client_uuid = 5;
  const auto compute = OpenComputePort(client).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, memory->address()));
  auto& port = dynamic_cast<ShmComputePort&>(*compute);
  Handshake handshake = port.StartHandshake(ServerId{0}, 0, 0).value();
  while (!handshake.Step().value()) handshake.Wait();
  const QueuePairGrant grant = port.Accept(ServerId{0}, handshake).value();
  reinterpret_cast<QueuePairPage*>(grant.page.data())->busy = 1;
  memory->Fence(5);
  handler_.AwaitTicks(2);
  memory->Stop();
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(ShmFabric, ServesOnWithoutFileDescriptorsAndTakesClientsInAgainLater) {
  const auto memory = OpenMemoryPort(SmallMemory(Path("full.sock"))).value();
  ASSERT_TRUE(memory->Start(handler_, RandomId()));
  ComputePortOptions options;
  options.client_uuid = 5;
  const auto compute = OpenComputePort(options).value();
  ASSERT_TRUE(compute->Connect(ServerId{0}, memory->address()));
  const auto endpoint = compute->NewEndpoint().value();
  // A descriptor for the client's end of a connection, and none for the server's.
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{64, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> taken;
  for (UniqueFd fd(::dup(0)); fd; fd = UniqueFd(::dup(0))) taken.push_back(std::move(fd));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memory->address().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  handler_.AwaitTicks(5);
  ControlCall call;
  Completion completion{1, std::noop_coroutine()};
  call.completion = &completion;
  endpoint->Post(call);
  while (completion.remaining != 0) endpoint->Poll();
  EXPECT_EQ(call.status, VerbStatus::kSuccess) << "who was there before is served";
  taken.clear();
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
}

class Journal : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = SharedMemory::Create(SmallMemory()).value();
    page_ = std::make_unique<QueuePairPage>();
    page_->journal.payload.fill(std::byte{7});
  }
  // What a client leaves that dies between `valid` and its last byte.
  void LeaveBehind(uint32_t space, uint64_t offset, uint32_t length) {
    page_->journal.space = space;
    page_->journal.offset = offset;
    page_->journal.length = length;
    page_->journal.valid = 1;
  }
  std::span<std::byte> region() { return {memory_->view(Space::kRegion).data, 65536}; }
  auto Sevens() { return std::count(region().begin(), region().end(), std::byte{7}); }

  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<QueuePairPage> page_;
};

TEST_F(Journal, FinishesTheWriteInProgress) {
  LeaveBehind(0, 65536 - 4096, 4096);
  EXPECT_TRUE(FinishWrite(page_->journal, *memory_));
  EXPECT_EQ(Sevens(), 4096);
  EXPECT_EQ(region().back(), std::byte{7});
}

TEST_F(Journal, NothingInProgressIsNothingToFinish) {
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  JournalledWrite(page_->journal, memory_->view(Space::kRegion), Space::kRegion, 100, 3,
                  page_->journal.payload.data() + 64);
  EXPECT_EQ(Sevens(), 3);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
}

TEST_F(Journal, IsNotTrusted) {
  LeaveBehind(0, 65536 - 4095, 4096);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, ~uint64_t{0} - 10, 64);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, 0, kPathMtu + 1);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(2, 0, 64);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, 0, 0);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  EXPECT_EQ(Sevens(), 0);
}

}  // namespace
}  // namespace gossamer::shm
