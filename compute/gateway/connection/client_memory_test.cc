// What clients of the gateway hold once they have been answered.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"
#include "compute/testing/fake_store.h"

namespace gossamer::gateway {
namespace {

// Sanitizers have allocators of their own, of which this sees nothing.
size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Memory is short when clients have not taken so many bytes; they have little time to take them.
GatewayOptions WithRoomForAnswers(uint64_t bytes) {
  GatewayOptions options;
  options.client_memory_bytes = 4 * bytes;
  options.patience = std::chrono::milliseconds(600);
  return options;
}

// Takes the answer to `request`: a list of `count` times the value. A client that has no processor
// for a moment is slow as well, and may be disconnected: then it asks again. Returns how often it
// was.
size_t TakeValues(Connection& client, const std::function<Connection()>& connect,
                  const std::string& request, const std::string& value, size_t count) {
  constexpr size_t kMostTries = 20;
  for (size_t tries = 0; tries < kMostTries; ++tries) {
    bool is_there = client.ReceiveLine() == "*" + std::to_string(count);
    for (size_t i = 0; i < count && is_there; ++i) is_there = client.ReceiveBulk() == value;
    if (is_there) return tries;
    client = connect();
    client.Send(request);
  }
  ADD_FAILURE() << "there is no answer";
  return kMostTries;
}

// Of thousands of clients, most are idle.
TEST_F(GatewayTest, AClientThatHasBeenAnsweredHoldsLittleMemory) {
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr size_t kClients = 200;
  std::vector<Connection> clients;
  clients.reserve(kClients + 1);
  clients.push_back(Connect());
  clients.back().Expect("PING\r\n", "+PONG\r\n");
  const size_t before = AllocatedBytes();
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(Connect());
    clients.back().Expect("PING\r\n", "+PONG\r\n");
  }
  EXPECT_LT(AllocatedBytes(), before + kClients * 16 * 1024);
}

// Each asks for 240 MiB, and reads nothing. Others are served meanwhile.
TEST_F(GatewayTest, LongAnswersThatNobodyReadsTakeLittleMemory) {
  GatewayOptions options;
  options.patience = std::chrono::minutes(10);  // two of them are read in the end
  ASSERT_NO_FATAL_FAILURE(Open(options));
  constexpr size_t kValueBytes = size_t{1} << 20;
  const std::string value(kValueBytes, 'v');
  Connection other = Connect();
  other.Expect(Request({"SET", "k", value}), "+OK\r\n");
  std::vector<std::string> mget(240, "k");
  mget[0] = "MGET";
  std::string gets;
  for (int i = 0; i < 200; ++i) gets += Request({"GET", "k"});
  const size_t before = AllocatedBytes();
  std::vector<Connection> clients;
  clients.reserve(10);
  for (int i = 0; i < 10; ++i) {
    clients.push_back(Connect());
    clients.back().Send(i % 2 == 0 ? Request(mget) : gets);
  }
  size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    other.Expect(Request({"GET", "absent"}), "$-1\r\n");
    most = std::max(most, AllocatedBytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Of each client a part, and what is on its way. The answers have 2 GiB.
  EXPECT_LT(most, before + (size_t{100} << 20));
  EXPECT_EQ(clients[0].ReceiveLine(), "*239");
  for (int i = 0; i < 239; ++i) ASSERT_TRUE(clients[0].ReceiveBulk() == value) << i;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(clients[1].ReceiveBulk() == value) << i;
  clients[0].Expect("PING\r\n", "+PONG\r\n");
}

// Clients that take nothing are disconnected once memory is short, and what waited for the memory
// goes on.
TEST_F(GatewayTest, SlowReadersAreDisconnectedWhileMemoryIsShort) {
  ASSERT_NO_FATAL_FAILURE(Open(WithRoomForAnswers(uint64_t{4} << 20)));
  const std::string value(size_t{1} << 20, 'v');
  Connection other = Connect();
  other.Expect(Request({"SET", "k", value}), "+OK\r\n");
  const auto disconnected = [&other] {
    other.Send(Request({"INFO", "stats"}));
    const std::string name = "client_output_buffer_limit_disconnections:";
    const std::string info = other.ReceiveBulk();
    return std::stoul(info.substr(info.find(name) + name.size()));
  };
  constexpr size_t kClients = 8;
  std::vector<Connection> clients;
  clients.reserve(kClients);
  std::string gets;
  for (int i = 0; i < 50; ++i) gets += Request({"GET", "k"});
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(Connect());
    clients.back().Send(gets);
  }
  while (disconnected() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // The untaken answers of the clients that stay have fewer bytes than the bound.
  std::vector<std::string> mget(41, "k");
  mget[0] = "MGET";
  other.Send(Request(mget));
  const size_t others = TakeValues(other, [this] { return Connect(); }, Request(mget), value, 40);
  size_t whole = 0;
  for (Connection& client : clients) {
    client.EndSending();
    whole += client.ReceiveToEnd().size() == 50 * Bulk(value).size() ? 1 : 0;
  }
  EXPECT_EQ(whole + disconnected(), kClients + others);
}

// Nor do clients hold up others that take a little of a long answer now and then.
TEST_F(GatewayTest, AClientThatTakesLittleIsDisconnectedWhenMemoryIsVeryShort) {
  ASSERT_NO_FATAL_FAILURE(Open(WithRoomForAnswers(uint64_t{16} << 20)));
  const std::string value(size_t{1} << 20, 'v');
  Connection other = Connect();
  for (int i = 0; i < 7; ++i) {
    other.Expect(Request({"SET", "long" + std::to_string(i), value}), "+OK\r\n");
  }
  constexpr size_t kSlow = 8;
  std::vector<Connection> slow;
  slow.reserve(kSlow);
  for (size_t i = 0; i < kSlow; ++i) {
    slow.push_back(Connect());
    slow.back().Send("GOSSAMER.SCAN\r\n");
  }
  EXPECT_EQ(slow.front().ReceiveLine(), "*14");
  std::vector<std::string> mget(31, "long1");
  mget[0] = "MGET";
  other.Send(Request(mget));
  std::atomic<bool> has_ended = false;
  std::thread reader([&] {
    TakeValues(other, [this] { return Connect(); }, Request(mget), value, 30);
    has_ended = true;
  });
  std::vector<size_t> taken(kSlow);
  while (!has_ended) {
    for (size_t i = 0; i < kSlow; ++i) taken[i] += slow[i].Receive(10'000).size();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  reader.join();
  size_t cut = 0;
  for (size_t i = 0; i < kSlow; ++i) {
    slow[i].EndSending();
    cut += taken[i] + slow[i].ReceiveToEnd().size() < 7 * value.size() ? 1 : 0;
  }
  EXPECT_GT(cut, 0U);
}

// Those that wait for their next part hold nothing of the last one: all of them together would have
// more than there is.
TEST_F(GatewayTest, ManyReadersOfLongAnswersGoOnWhileMemoryIsShort) {
  GatewayOptions options = WithRoomForAnswers(uint64_t{4} << 20);
  options.patience = std::chrono::minutes(10);
  ASSERT_NO_FATAL_FAILURE(Open(options));
  constexpr size_t kClients = 64;
  constexpr int kValues = 20;
  const std::string value(150'000, 'v');
  std::vector<std::string> mget(1 + kValues, "k");
  mget[0] = "MGET";
  std::vector<Connection> clients;
  clients.reserve(kClients);
  for (size_t i = 0; i < kClients; ++i) clients.push_back(Connect());
  clients[0].Expect(Request({"SET", "k", value}), "+OK\r\n");
  for (Connection& client : clients) client.Send(Request(mget));
  std::vector<std::thread> readers;
  for (Connection& client : clients) {
    readers.emplace_back([&client, &value] {
      EXPECT_EQ(client.ReceiveLine(), "*20");
      for (int i = 0; i < kValues; ++i) {
        ASSERT_TRUE(client.ReceiveBulk() == value) << i;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

// A fake store, as sessions keep buffers of their own.
class FakeStoreMemoryTest : public GatewayTest {
 public:
  ~FakeStoreMemoryTest() override { gateway_.reset(); }

 protected:
  void OpenFake() {
    path_ = testing::TempDir() + "gateway_" + std::to_string(getpid()) + ".sock";
    GatewayOptions options;
    options.listen = {"unix:" + path_};
    gateway_ = std::move(Gateway::Start(options, fake_).value());
  }

  FakeStore fake_;
};

// Also where the values are long and the answers are short.
TEST_F(FakeStoreMemoryTest, ABatchDoesNotKeepLongValues) {
  constexpr size_t kValueBytes = size_t{1} << 20;
  ASSERT_NO_FATAL_FAILURE(OpenFake());
  fake_.state().map["k"] = std::string(kValueBytes, 'v');
  Connection client = Connect();
  client.Expect("PING\r\n", "+PONG\r\n");
  const size_t before = AllocatedBytes();
  std::string lengths;
  std::string answers;
  for (int i = 0; i < 32; ++i) {
    lengths += Request({"STRLEN", "k"});
    answers += ":1048576\r\n";
  }
  client.Expect(lengths, answers);
  client.Expect("PING\r\n", "+PONG\r\n");  // that batch is over
  EXPECT_LT(AllocatedBytes(), before + kValueBytes);
}

// Nor the words of requests with many.
TEST_F(FakeStoreMemoryTest, NothingIsKeptOfARequestOfManyKeys) {
  ASSERT_NO_FATAL_FAILURE(OpenFake());
  Connection client = Connect();
  client.Expect("PING\r\n", "+PONG\r\n");
  const size_t before = AllocatedBytes();
  client.Expect(Request(std::vector<std::string>(200'001, "EXISTS")), ":0\r\n");
  client.Expect("PING\r\n", "+PONG\r\n");
  EXPECT_LT(AllocatedBytes(), before + (size_t{1} << 20));
}

// More keys than one batch reads. Every 4,500th read of the store fails.
TEST_F(FakeStoreMemoryTest, AFailureInTheMiddleOfALongReplyEndsTheConnection) {
  constexpr size_t kFirstFailure = 4500;
  fake_.state().fail_interval = kFirstFailure;
  fake_.state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 is gone");
  fake_.state().map["k"] = std::string(100, 'v');
  ASSERT_NO_FATAL_FAILURE(OpenFake());
  Connection client = Connect();
  std::vector<std::string> mget(5001, "k");
  mget[0] = "MGET";
  client.Send(Request(mget));
  const std::string reply = client.ReceiveToEnd();
  const std::string one = Bulk(fake_.state().map["k"]);
  const std::string begin = "*5000\r\n";
  ASSERT_TRUE(reply.starts_with(begin + one)) << reply.substr(0, 200);
  EXPECT_EQ((reply.size() - begin.size()) % one.size(), 0u) << "a value is cut";
  EXPECT_LT(reply.size(), begin.size() + kFirstFailure * one.size());
  EXPECT_EQ(reply.find("UNREACHABLE"), std::string::npos) << "an error inside an array";
}

// In the first part of a reply, it is an error as any other.
TEST_F(FakeStoreMemoryTest, AFailureAtTheBeginningOfALongReplyIsAnError) {
  fake_.state().fail_interval = 2;
  fake_.state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 is gone");
  fake_.state().map["k"] = std::string(100, 'v');
  ASSERT_NO_FATAL_FAILURE(OpenFake());
  Connection client = Connect();
  client.Expect(Request(std::vector<std::string>(5001, "EXISTS")),
                "-UNREACHABLE memory server 1 is gone\r\n");
  client.Expect("PING\r\n", "+PONG\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
