// What clients of the gateway hold once they have been answered.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <string>
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
