#include "memory/memory_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/bootstrap/server_probe.h"
#include "common/bootstrap/test_support.h"
#include "common/embedded_memory.h"
#include "common/fabric/open/open_port.h"
#include "common/fabric/shm/memory.h"
#include "common/fabric/sim/sim.h"
#include "common/process.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Bytes of this process's regions that no page was provided for yet.
uint64_t UntouchedBytes() {
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    struct stat status{};
    if (target.starts_with(std::string("/memfd:") + shm::kRegionFileName) &&
        ::stat(file.path().c_str(), &status) == 0) {
      bytes += static_cast<uint64_t>(status.st_size - status.st_blocks * 512);
    }
  }
  return bytes;
}

MemoryServerOptions Small() {
  MemoryServerOptions options;
  options.memory_bytes = 4 << 20;
  return options;
}

Result<std::unique_ptr<MemoryServer>> Start(MemoryServerOptions options, Bootstrap* bootstrap) {
  options.bootstrap = bootstrap;
  return MemoryServer::Start(options);
}

// A client in this process with one endpoint to server 0.
struct ServedClient {
  explicit ServedClient(const std::string& address, FabricKind fabric = FabricKind::kShm) {
    ComputePortOptions options;
    options.client_uuid = RandomId();
    port = OpenComputePort(fabric, options).value();
    const Status connected = port->Connect(ServerId{0}, address);
    EXPECT_TRUE(connected) << connected.error().ToString();
    endpoint = port->NewEndpoint().value();
  }
  template <typename Reply, typename Request>
  Reply Ask(const Request& request) {
    ControlCall call;
    call.server = ServerId{0};
    std::memcpy(call.request.data(), &request, sizeof request);
    call.request_bytes = sizeof request;
    Completion completion{1, std::noop_coroutine()};
    call.completion = &completion;
    endpoint->Post(call);
    while (completion.remaining != 0) endpoint->Poll();
    EXPECT_EQ(call.status, VerbStatus::kSuccess);
    EXPECT_EQ(call.reply_bytes, sizeof(Reply));
    Reply reply;
    std::memcpy(&reply, call.reply.data(), sizeof reply);
    return reply;
  }
  uint64_t RootWordNow() {
    auto buffer = endpoint->buffers().Allocate(8).value();
    InlineBatch<1> batch(ServerId{0});
    batch.Add(Verb::FetchAdd(Space::kRegion, kRootWordOffset, 0, buffer.address()));
    Completion completion{1, std::noop_coroutine()};
    batch.completion = &completion;
    endpoint->Post(batch);
    while (completion.remaining != 0) endpoint->Poll();
    EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
    return batch.verbs()[0].old_value();
  }

  std::unique_ptr<ComputePort> port;
  std::unique_ptr<Endpoint> endpoint;
};

TEST(MemoryServer, EmbeddedServesItsProcess) {
  EmbeddedMemoryOptions options;
  options.memory_bytes = 4 << 20;
  options.parameters.max_key_bytes = 8;
  const auto memory = StartEmbeddedMemory(options);
  ASSERT_TRUE(memory) << memory.error().ToString();
  ServedClient client(memory.value()->address());
  const auto header = ReadRegionHeader(*client.endpoint, ServerId{0});
  ASSERT_TRUE(header) << header.error().ToString();
  EXPECT_EQ(header.value().parameters, options.parameters);
  EXPECT_EQ(header.value().region_bytes, uint64_t{4} << 20);
  EXPECT_EQ(header.value().chunk_bytes, uint64_t{256} << 10);
  EXPECT_EQ(header.value().server_id, 0);
  const RootWord root = RootWord::FromWord(client.RootWordNow());
  EXPECT_EQ(root.pointer().offset(), kFirstLeafOffset);
  EXPECT_EQ(root.level(), 0u);
}

TEST(MemoryServer, GivesMemoryAndLeases) {
  const auto server = Start(Small(), nullptr).value();
  {
    ServedClient client(server->address());
    EXPECT_EQ(client.Ask<control::RegisterReply>(control::RegisterRequest{}).incarnation, 1u);
    control::AllocateRequest request;
    request.bytes = 256 << 10;
    EXPECT_EQ(client.Ask<control::AllocateReply>(request).offset, kHeapOffset);
    EXPECT_EQ(server->Stat().compute_servers, 1u);
  }
  while (server->Stat().compute_servers != 0) std::this_thread::yield();
  EXPECT_EQ(server->Stat().extents, 1u);
}

TEST(MemoryServer, SecondServerHasNoRootAndFollowsTheStore) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  auto first = Start(Small(), bootstrap.get());
  ASSERT_TRUE(first) << first.error().ToString();
  auto second = Start(Small(), bootstrap.get());
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(second.value()->identity().server, ServerId{1});
  EXPECT_EQ(second.value()->record().servers.size(), 2u);
  EXPECT_THAT(second.value()->Description(),
              HasSubstr("store default server 1 fabric shm address "));

  FindOptions find;
  find.probe = FabricProbe();
  const auto found = FindStore(*bootstrap, find);
  ASSERT_TRUE(found) << found.error().ToString();
  EXPECT_EQ(found.value(), second.value()->record());

  MemoryServerOptions other = Small();
  other.parameters.node_bytes = 512;
  const auto third = Start(other, bootstrap.get());
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, HasSubstr("--node_bytes=1024"));

  ServedClient client(second.value()->address());
  EXPECT_EQ(client.RootWordNow(), 0u);
  EXPECT_TRUE(second.value()->Stop());
  EXPECT_EQ(FindStore(*bootstrap, {}).value().servers.size(), 1u);
  first.value().reset();
  EXPECT_EQ(FindStore(*bootstrap, {}).error().code, Code::kNotFound);
}

TEST(MemoryServer, AnotherServerAtTheAddressIsDeath) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  const auto server = Start(Small(), bootstrap.get()).value();
  StoreRecord record = server->record();
  EXPECT_EQ(FabricProbe()(record, record.servers[0]).liveness, Liveness::kAlive);
  record.servers[0].incarnation ^= 1;
  EXPECT_EQ(FabricProbe()(record, record.servers[0]).liveness, Liveness::kUnreachable)
      << "its process runs";
  record.servers[0].process = "-";
  EXPECT_EQ(FabricProbe()(record, record.servers[0]).liveness, Liveness::kDead);
}

struct DeafHandler final : ControlHandler {
  uint32_t Handle(uint64_t, std::span<const std::byte>,
                  std::span<std::byte, kMaxControlBytes>) override {
    return 0;
  }
  void ClientGone(uint64_t) override {}
};

// A server with another format version is alive: it must not count as dead.
TEST(MemoryServer, ServerOfAnotherFormatIsNotDeath) {
  MemoryPortOptions options;
  options.region_bytes = 1 << 20;
  options.lock_table_bytes = 4096;
  const auto port = OpenMemoryPort(FabricKind::kShm, options).value();
  RegionHeader header{};
  header.magic = kRegionMagic;
  header.format_version = kFormatVersion + 1;
  std::memcpy(port->region().data(), &header, sizeof header);
  DeafHandler handler;
  ASSERT_TRUE(port->Start(handler, RandomId()));
  const MemberRecord member{ServerId{0}, 1, "h", OwnProcessIdentity(), port->address()};
  const Probed probed = FabricProbe()({"s", 1, "shm", {}, 1, {member}}, member);
  EXPECT_EQ(probed.liveness, Liveness::kUnreachable);
  ASSERT_TRUE(probed.why);
  EXPECT_EQ(probed.why->code, Code::kCorruption);
  EXPECT_THAT(probed.why->message, HasSubstr("server 0, offset 0: region of format version "));
  port->Stop();
}

// ---- The litmus test at start-up

constexpr LitmusReport kPassed{{10, 9, 0}, {10, 9, 0}, {10, 9, 0}};
constexpr LitmusReport kFailed{{10, 9, 0}, {10, 9, 3}, {10, 9, 0}};
constexpr LitmusReport kWritesOvertake{{10, 9, 0}, {10, 9, 0}, {10, 9, 1}};

TEST(StartUpLitmus, FallsBackToWhatCostsLess) {
  const DeviceUse device_memory{OnChipLocks::kIfPossible, false};
  const DeviceUse dram{OnChipLocks::kNever, false};
  const DeviceUse one_verb{OnChipLocks::kNever, true};
  constexpr auto kDevice = LockTablePlacement::kDeviceMemory;
  constexpr auto kDram = LockTablePlacement::kDram;
  EXPECT_EQ(FallBack(device_memory, kDevice, kFailed), dram);
  EXPECT_EQ(FallBack(dram, kDram, kFailed), one_verb);
  // Requested, but the device has no memory of its own.
  EXPECT_EQ(FallBack(device_memory, kDram, kFailed), (DeviceUse{OnChipLocks::kIfPossible, true}));
  EXPECT_EQ(FallBack(one_verb, kDram, kFailed), std::nullopt);
}

// Both WRITEs go to host memory, wherever the lock is.
TEST(StartUpLitmus, LocksInDramAreNoRemedyForWritesThatOvertake) {
  constexpr auto kDevice = LockTablePlacement::kDeviceMemory;
  const DeviceUse both{OnChipLocks::kIfPossible, true};
  EXPECT_EQ(FallBack({OnChipLocks::kIfPossible, false}, kDevice, kWritesOvertake), both);
  EXPECT_EQ(FallBack(both, kDevice, kFailed), (DeviceUse{OnChipLocks::kNever, true}));
  EXPECT_EQ(FallBack({OnChipLocks::kNever, true}, LockTablePlacement::kDram, kWritesOvertake),
            std::nullopt);
}

TEST(StartUpLitmus, LocksThatMustBeOnChipStayThere) {
  constexpr auto kDevice = LockTablePlacement::kDeviceMemory;
  const DeviceUse waits{OnChipLocks::kRequired, true};
  EXPECT_EQ(FallBack({OnChipLocks::kRequired, false}, kDevice, kFailed), waits);
  EXPECT_EQ(FallBack(waits, kDevice, kFailed), std::nullopt);
}

TEST(StartUpLitmus, PassesOverARealFabricAndLeavesNoTrace) {
  MemoryServerOptions options = Small();
  options.litmus_runner = LitmusOverFabric(FabricKind::kShm);
  const auto server = Start(options, nullptr);
  ASSERT_TRUE(server) << server.error().ToString();
  EXPECT_THAT(server.value()->Description(), HasSubstr("(litmus test passed)"));
  ServedClient client(server.value()->address());
  const auto header = ReadRegionHeader(*client.endpoint, ServerId{0});
  EXPECT_TRUE(header) << header.error().ToString();
  EXPECT_EQ(RootWord::FromWord(client.RootWordNow()).pointer().offset(), kFirstLeafOffset);
  EXPECT_EQ(server.value()->Stat().extents, 0u);
}

TEST(StartUpLitmus, AServerWhoseDeviceFailsStartsAgainAndSaysSo) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  MemoryServerOptions options = Small();
  std::vector<std::string> tested;
  options.litmus_runner = [&](MemoryPort& port) -> Result<LitmusReport> {
    tested.push_back(port.address());
    EXPECT_FALSE(bootstrap->Get("default").value()) << "found before it was tested";
    return tested.size() == 1 ? kFailed : kPassed;
  };
  const auto server = Start(options, bootstrap.get());
  ASSERT_TRUE(server) << server.error().ToString();
  EXPECT_EQ(tested.size(), 2u);
  EXPECT_EQ(server.value()->record().servers[0].address, tested.back());
  EXPECT_THAT(server.value()->Description(),
              HasSubstr("(litmus test failed: clients post one verb at a time"));
  ServedClient client(server.value()->address());
  EXPECT_TRUE(ReadRegionHeader(*client.endpoint, ServerId{0}));
}

// On the same boot of the machine, for the same use.
TEST(StartUpLitmus, ADeviceIsTestedOnceForARegion) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path() + "/stores").value();
  MemoryServerOptions options = Small();
  options.region = directory.path() + "/region";
  size_t tests = 0;
  LitmusReport first = kPassed;
  options.litmus_runner = [&](MemoryPort&) -> Result<LitmusReport> {
    return ++tests == 1 ? first : kPassed;
  };
  const auto tests_of_a_start = [&](const std::string& listen) {
    tests = 0;
    options.listen = directory.path() + listen;
    const auto server = Start(options, bootstrap.get());
    EXPECT_TRUE(server) << server.error().ToString();
    if (tests == 0) {
      EXPECT_THAT(server.value()->Description(), HasSubstr("(litmus test passed before)"));
    }
    return tests;
  };
  EXPECT_EQ(tests_of_a_start("/a"), 1u);
  EXPECT_EQ(tests_of_a_start("/a"), 0u);
  EXPECT_EQ(tests_of_a_start("/a"), 0u);
  EXPECT_EQ(tests_of_a_start("/b"), 1u) << "another address may be that of another device";
  EXPECT_EQ(tests_of_a_start("/b"), 0u);
  // What has passed is the fallback.
  first = kFailed;
  EXPECT_EQ(tests_of_a_start("/c"), 2u);
  EXPECT_EQ(tests_of_a_start("/c"), 1u) << "what failed is tested again";
}

TEST(StartUpLitmus, ADeviceThatNeverOrdersIsRefused) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  MemoryServerOptions options = Small();
  options.litmus_runner = [](MemoryPort&) -> Result<LitmusReport> { return kFailed; };
  const auto server = Start(options, bootstrap.get());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kUnsupported);
  EXPECT_THAT(server.error().message, HasSubstr("3 of 10 failed"));
  EXPECT_FALSE(bootstrap->Get("default").value());
}

TEST(StartUpLitmus, AServerThatCannotReachItselfIsNotFound) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  MemoryServerOptions options = Small();
  std::string tested;
  options.litmus_runner = [&tested](MemoryPort& port) -> Result<LitmusReport> {
    tested = port.address();
    return MakeError(Code::kNodeUnreachable, "no answer within 2000 ms");
  };
  const auto server = Start(options, bootstrap.get());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(server.error().message, AllOf(HasSubstr("cannot reach itself at " + tested),
                                            HasSubstr("no answer within 2000 ms"),
                                            HasSubstr("--nolitmus starts it without this test")));
  EXPECT_FALSE(bootstrap->Get("default").value());
}

// The network is not to blame.
TEST(StartUpLitmus, AServerThatLacksMemoryForTheTestSaysSo) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  MemoryServerOptions options = Small();
  options.litmus_runner = [](MemoryPort&) -> Result<LitmusReport> {
    return MakeError(Code::kNoResources, "making a queue pair: Cannot allocate memory");
  };
  const auto server = Start(options, bootstrap.get());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kNoResources);
  EXPECT_THAT(server.error().message,
              AllOf(Not(HasSubstr("reach itself")),
                    HasSubstr("is not possible: making a queue pair: Cannot allocate memory"),
                    HasSubstr("--nolitmus starts it without this test")));
  EXPECT_FALSE(bootstrap->Get("default").value());
}

// The device does order verbs; the test pretends that it does not.
TEST(StartUpLitmus, OverVerbsAFailedServerComesBackAtItsAddress) {
  const char* address = std::getenv("SOFT_ROCE_ADDRESS");
  if (address == nullptr) GTEST_SKIP() << "no RDMA device";
  MemoryServerOptions options = Small();
  options.fabric = FabricKind::kVerbs;
  options.listen = std::string(address) + ":7031";
  size_t tests = 0;
  options.litmus_runner = [&tests](MemoryPort& port) -> Result<LitmusReport> {
    const auto report = LitmusOverFabric(FabricKind::kVerbs)(port);
    EXPECT_TRUE(report) << report.error().ToString();
    EXPECT_TRUE(report.value().passed()) << report.value().ToString();
    return ++tests == 1 ? kFailed : report;
  };
  const auto server = Start(options, nullptr);
  ASSERT_TRUE(server) << server.error().ToString();
  EXPECT_EQ(tests, 2u);
  EXPECT_EQ(server.value()->address(), options.listen);
  ServedClient client(server.value()->address(), FabricKind::kVerbs);
  EXPECT_TRUE(ReadRegionHeader(*client.endpoint, ServerId{0}));
}

// ---- Limits that are checked before clients can find the server

// Rule W2. The server that creates a store checks it, not only the first client.
TEST(MemoryServer, NodesThatExceedThePathMtuAreRefused) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  SimOptions network_options;
  network_options.path_mtu = 512;
  SimNetwork network(network_options);
  MemoryServerOptions options = Small();
  options.fabric = FabricKind::kSim;
  options.network = &network;
  const auto server = Start(options, bootstrap.get());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kInvalidArgument);
  EXPECT_THAT(server.error().message,
              AllOf(HasSubstr("--node_bytes=1024: the path MTU at sim:"), HasSubstr("is 512 bytes"),
                    HasSubstr("--node_bytes=512 or less")));
  EXPECT_FALSE(bootstrap->Get("default").value()) << "a store that nobody can use";
  options.parameters.node_bytes = 512;
  EXPECT_TRUE(Start(options, nullptr));
}

TEST(MemoryServer, OverVerbsThePathMtuIsThatOfItsPort) {
  const char* address = std::getenv("SOFT_ROCE_ADDRESS");
  if (address == nullptr) GTEST_SKIP() << "no RDMA device";
  MemoryServerOptions options = Small();
  options.fabric = FabricKind::kVerbs;
  options.listen = std::string(address) + ":0";
  options.parameters.node_bytes = 4096;
  const auto server = Start(options, nullptr);
  ASSERT_FALSE(server) << "this test wants a path MTU below 4096";
  EXPECT_EQ(server.error().code, Code::kInvalidArgument);
  EXPECT_THAT(server.error().message,
              AllOf(HasSubstr("--node_bytes=4096: the path MTU at " + std::string(address)),
                    HasSubstr("is 1024 bytes")));
}

TEST(MemoryServer, TouchesAllItsMemoryWhereItIsToldTo) {
  MemoryServerOptions options = Small();
  options.memory_bytes = 80 << 20;
  options.huge_pages = false;
  const auto lazy = Start(options, nullptr);
  ASSERT_TRUE(lazy) << lazy.error().ToString();
  const uint64_t untouched = UntouchedBytes();
  EXPECT_GT(untouched, uint64_t{70} << 20);
  options.touch = true;
  const auto eager = Start(options, nullptr);
  ASSERT_TRUE(eager) << eager.error().ToString();
  EXPECT_EQ(UntouchedBytes(), untouched);
}

TEST(MemoryServer, CanBeStoppedWhileItTouchesMemory) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  MemoryServerOptions options = Small();
  options.touch = true;
  options.join.is_to_stop = [] { return true; };
  const auto server = Start(options, bootstrap.get());
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, HasSubstr("stopped while memory was being reserved"));
  EXPECT_FALSE(bootstrap->Get("default").value());
}

TEST(MemoryServer, SaysHowMuchMemoryThereIs) {
  MemoryServerOptions options = Small();
  options.memory_bytes = uint64_t{7} << 40;
  const auto server = Start(options, nullptr);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kNoResources);
  EXPECT_THAT(server.error().message, HasSubstr("that this machine has available"));
}

}  // namespace
}  // namespace gossamer
