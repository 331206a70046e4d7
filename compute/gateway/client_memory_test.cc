// What clients of the gateway hold once they have been answered.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
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
  ASSERT_NO_FATAL_FAILURE(Open());
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
  // Of each client a part, and twice the 64 values of 1 MiB that the store reads at a time. The answers have 2 GiB.
  EXPECT_LT(most, before + (size_t{600} << 20));
  EXPECT_EQ(clients[0].ReceiveLine(), "*239");
  for (int i = 0; i < 239; ++i) ASSERT_TRUE(clients[0].ReceiveBulk() == value) << i;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(clients[1].ReceiveBulk() == value) << i;
  clients[0].Expect("PING\r\n", "+PONG\r\n");
}

// A fake store, as sessions keep buffers of their own.
class IdleMemoryTest : public GatewayTest {
 public:
  ~IdleMemoryTest() override { gateway_.reset(); }

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
TEST_F(IdleMemoryTest, ABatchDoesNotKeepLongValues) {
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
TEST_F(IdleMemoryTest, NothingIsKeptOfARequestOfManyKeys) {
  ASSERT_NO_FATAL_FAILURE(OpenFake());
  Connection client = Connect();
  client.Expect("PING\r\n", "+PONG\r\n");
  const size_t before = AllocatedBytes();
  client.Expect(Request(std::vector<std::string>(200'001, "EXISTS")), ":0\r\n");
  client.Expect("PING\r\n", "+PONG\r\n");
  EXPECT_LT(AllocatedBytes(), before + (size_t{1} << 20));
}

}  // namespace
}  // namespace gossamer::gateway
