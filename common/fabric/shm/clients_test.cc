// Clients that misbehave: they send nonsense, say nothing, stay in the middle of their verbs, or
// exhaust descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/shm/socket.h"
#include "common/fabric/shm/test_fixture.h"

namespace gossamer::shm {
namespace {

// A client's end of a connection, without the fabric's code behind it.
class HandMadeClient {
 public:
  explicit HandMadeClient(const std::string& path) : socket_(ConnectSocket(path).value()) {
    EXPECT_TRUE(socket_);
    const int flags = ::fcntl(socket_.get(), F_GETFL);
    ::fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK);
  }

  const UniqueFd& socket() const { return socket_; }
  bool HangsUp(int within_ms) const {
    pollfd event{socket_.get(), 0, 0};
    return ::poll(&event, 1, within_ms) == 1 && (event.revents & POLLHUP) != 0;
  }
  // Requests a queue pair, in place of those named.
  void SayHello(uint64_t uuid, uint64_t old_queue_pair = 0, uint64_t other_queue_pair = 0) {
    Hello hello;
    hello.kind = HelloKind::kQueuePair;
    hello.client_uuid = uuid;
    hello.old_queue_pair = old_queue_pair;
    hello.other_queue_pair = other_queue_pair;
    EXPECT_EQ(SendMessage(socket_, std::as_bytes(std::span(&hello, 1)), {}, true), Transfer::kDone);
  }
  // Whether it was granted; `wait`: block for the answer.
  bool IsWelcome(bool wait) {
    Welcome message;
    size_t bytes = 0;
    const Transfer transfer = ReceiveMessage(
        socket_, std::as_writable_bytes(std::span(&message, 1)), &bytes, &descriptors_, wait);
    if (transfer != Transfer::kDone || message.accepted != 1) return false;
    mapping_ = MapFile(descriptors_.back()).value();
    queue_pair_ = message.queue_pair;
    return true;
  }
  uint64_t queue_pair() const { return queue_pair_; }
  // The page of its queue pair.
  QueuePairPage& page() { return *reinterpret_cast<QueuePairPage*>(mapping_.data()); }
  // Stops in the middle of a WRITE of ones to the start of the region, before the first of them.
  void StopInAWrite() {
    page().busy = 1;
    page().journal.payload.fill(std::byte{1});
    page().journal.length = 64;
    page().journal.valid = 1;
  }
  // As a network failure does. The client lives and may not notice.
  void LoseConnection() { ASSERT_EQ(::shutdown(socket_.get(), SHUT_RDWR), 0); }

 private:
  UniqueFd socket_;
  std::vector<UniqueFd> descriptors_;
  MemoryMapping mapping_;
  uint64_t queue_pair_ = 0;
};

TEST_F(ShmFabric, AClientThatSpeaksNonsenseIsCutOff) {
  const auto memory = StartMemory(SmallMemory());
  for (const size_t bytes : {size_t{1}, sizeof(Hello), sizeof(Call)}) {
    const HandMadeClient client(memory->address());
    const std::vector<std::byte> nonsense(bytes, std::byte{0x42});
    ASSERT_EQ(SendMessage(client.socket(), nonsense, {}, true), Transfer::kDone);
    Transfer last = Transfer::kDone;
    for (size_t received = 0; last == Transfer::kDone;) {
      Welcome welcome;
      last = ReceiveMessage(client.socket(), std::as_writable_bytes(std::span(&welcome, 1)),
                            &received, nullptr, true);
      if (last == Transfer::kDone) {
        EXPECT_EQ(welcome.accepted, 0U);
      }
    }
    EXPECT_EQ(last, Transfer::kLost);
  }
}

// Its hello may be shorter or longer than this version's.
TEST_F(ShmFabric, AClientOfAnotherVersionIsToldSo) {
  const auto memory = StartMemory(SmallMemory());
  for (const size_t bytes : {sizeof(Hello) - 8, sizeof(Hello), sizeof(Hello) + 8}) {
    const HandMadeClient client(memory->address());
    std::vector<std::byte> hello(bytes);
    const uint32_t magic = kMagic - 1;
    std::memcpy(hello.data(), &magic, sizeof magic);
    ASSERT_EQ(SendMessage(client.socket(), hello, {}, true), Transfer::kDone);
    Welcome welcome;
    size_t received = 0;
    const auto into = std::as_writable_bytes(std::span(&welcome, 1));
    ASSERT_EQ(ReceiveMessage(client.socket(), into, &received, nullptr, true), Transfer::kDone)
        << "no answer to " << bytes << " bytes";
    EXPECT_EQ(welcome.accepted, 0u);
    EXPECT_STREQ(welcome.reason.data(), "another version of the shm fabric");
  }
}

// A server of another version may close the connection without an answer.
TEST_F(ShmFabric, AServerThatClosesTheConnectionMayBeOfAnotherVersion) {
  const std::string path = Path("closes.sock");
  ListeningSocket server = ListeningSocket::Bind(path).value();
  ASSERT_TRUE(server.Listen());
  std::atomic<bool> ends = false;
  std::thread closes([&] {
    while (!ends) {
      if (!server.Accept()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  ComputePortOptions options;
  options.client_uuid = 5;
  const Status connected = OpenComputePort(options).value()->Connect(ServerId{0}, path);
  ends = true;
  closes.join();
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("version"), std::string::npos)
      << connected.error().message;
}

TEST_F(ShmFabric, WhoConnectsAndSaysNothingIsCutOffAndAnIdleQueuePairIsNot) {
  MemoryPortOptions options = SmallMemory(Path("quiet.sock"));
  options.connection_timeout_ms = 1000;
  const auto memory = StartMemory(options);
  const auto compute = Connect(memory->address());
  const auto endpoint = compute->NewEndpoint().value();
  const HandMadeClient quiet(memory->address());
  EXPECT_TRUE(quiet.HangsUp(30'000));
  handler_.AwaitTicks(20);
  EXPECT_EQ(handler_.gone, 0);
  const BufferLease buffer = endpoint->buffers().Allocate(8).value();
  InlineBatch<1> batch;
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address()));
  endpoint->Post(batch);
  while (endpoint->Poll() == 0) std::this_thread::yield();
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
}

// They stay longer than the connection time-out allows.
TEST_F(ShmFabric, ManyWhoSayNothingKeepNobodyOut) {
  MemoryPortOptions options = SmallMemory(Path("quiet.sock"));
  options.connection_timeout_ms = 1'000'000;
  const auto memory = StartMemory(options);
  std::deque<HandMadeClient> quiet;
  for (int i = 0; i < 140; ++i) {
    quiet.emplace_back(memory->address());
    handler_.AwaitTicks(i % 20 == 0 ? 1 : 0);
  }
  EXPECT_TRUE(quiet[0].HangsUp(30'000));
  EXPECT_FALSE(quiet[139].HangsUp(0));
  const auto compute = Connect(memory->address());
  EXPECT_TRUE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
}

// The client stays in the middle of its verbs as long as the test needs.
TEST_F(ShmFabric, AFenceWaitsForVerbsUnderWayAndSoDoesWhoConnectsMeanwhile) {
  const auto memory = StartMemory(SmallMemory(Path("fence.sock")));
  HandMadeClient old(memory->address());
  old.SayHello(5);
  ASSERT_TRUE(old.IsWelcome(true));
  old.page().busy = 1;

  memory->Fence(5);
  while (old.page().closed == 0) std::this_thread::yield();
  HandMadeClient anew(memory->address());
  anew.SayHello(5);
  HandMadeClient stranger(memory->address());
  stranger.SayHello(6);
  EXPECT_TRUE(stranger.IsWelcome(true)) << "others are served";
  handler_.AwaitTicks(5);
  EXPECT_EQ(handler_.gone, 0) << "while verbs may still land";
  EXPECT_FALSE(anew.IsWelcome(false)) << "into a life that has not ended";

  old.page().busy = 0;
  EXPECT_TRUE(anew.IsWelcome(true));
  EXPECT_EQ(handler_.gone, 1);
}

// Another client may take the lock under which the verbs were posted as soon as the server says
// that this one is gone.
TEST_F(ShmFabric, AClientThatLosesItsConnectionIsNotGoneWhileItsVerbsAreUnderWay) {
  for (const bool is_fenced : {false, true}) {
    SCOPED_TRACE(is_fenced);
    handler_.gone = 0;
    const auto memory = StartMemory(SmallMemory(Path("loss.sock")));
    HandMadeClient client(memory->address());
    client.SayHello(5);
    ASSERT_TRUE(client.IsWelcome(true));
    client.StopInAWrite();

    if (is_fenced) memory->Fence(5);
    client.LoseConnection();
    while (client.page().closed == 0) std::this_thread::yield();
    HandMadeClient stranger(memory->address());
    stranger.SayHello(6);
    EXPECT_TRUE(stranger.IsWelcome(true)) << "others are served";
    handler_.AwaitTicks(5);
    EXPECT_EQ(handler_.gone, 0) << "while verbs may still land";
    EXPECT_EQ(memory->region()[0], std::byte{0})
        << "the client lives and finishes its WRITE itself";

    client.page().journal.valid = 0;
    client.page().busy = 0;
    while (handler_.gone == 0) std::this_thread::yield();
    EXPECT_EQ(memory->region()[0], std::byte{0});
  }
}

// The thread that replaces them may be another than the one that is in the middle of verbs there.
TEST_F(ShmFabric, WhoReplacesQueuePairsIsWelcomeWhenNoneOfTheirVerbsCanLand) {
  for (const bool has_lost_them : {false, true}) {
    SCOPED_TRACE(has_lost_them);
    handler_.gone = 0;
    const auto memory = StartMemory(SmallMemory(Path("replace.sock")));
    HandMadeClient old(memory->address());
    HandMadeClient other(memory->address());
    for (HandMadeClient* const replaced : {&old, &other}) {
      replaced->SayHello(5);
      ASSERT_TRUE(replaced->IsWelcome(true));
      replaced->StopInAWrite();
    }
    if (has_lost_them) {
      old.LoseConnection();
      other.LoseConnection();
    }
    {
      HandMadeClient anew(memory->address());
      anew.SayHello(5, old.queue_pair(), other.queue_pair());
      for (HandMadeClient* const replaced : {&old, &other}) {
        while (replaced->page().closed == 0) std::this_thread::yield();
        handler_.AwaitTicks(5);
        ASSERT_FALSE(anew.IsWelcome(false)) << "while verbs of the old queue pairs may land";
        replaced->page().journal.valid = 0;
        replaced->page().busy = 0;
      }
      EXPECT_TRUE(anew.IsWelcome(true));
      EXPECT_EQ(memory->region()[0], std::byte{0});
      handler_.AwaitTicks(5);
      EXPECT_EQ(handler_.gone, 0) << "the new queue pair counts before the last old one ends";
    }
    while (handler_.gone == 0) std::this_thread::yield();
  }
}

TEST_F(ShmFabric, StopDoesNotWaitForeverForAFencedClient) {
  MemoryPortOptions options = SmallMemory(Path("stop.sock"));
  options.connection_timeout_ms = 50;
  const auto memory = StartMemory(options);
  HandMadeClient client(memory->address());
  client.SayHello(5);
  ASSERT_TRUE(client.IsWelcome(true));
  client.page().busy = 1;
  memory->Fence(5);
  handler_.AwaitTicks(2);
  memory->Stop();
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(ShmFabric, ServesOnWithoutFileDescriptorsAndTakesClientsInAgainLater) {
  const auto memory = StartMemory(SmallMemory(Path("full.sock")));
  const auto compute = Connect(memory->address());
  const auto endpoint = compute->NewEndpoint().value();
  // One descriptor, for the client's end of a connection, and none for the server's.
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
  EXPECT_EQ(call.status, VerbStatus::kSuccess) << "an earlier client is served";
  taken.clear();
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
}

}  // namespace
}  // namespace gossamer::shm
