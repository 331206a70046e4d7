#include "compute/gateway/peers/peer_links.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

std::string Message(const std::string& channel, const std::string& text) {
  return "*3\r\n" + Bulk("message") + Bulk(channel) + Bulk(text);
}

// Two gateways of a store, with links to each other.
class PeerLinksTest : public GatewayTest {
 protected:
  struct Server {
    std::string path;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<PeerLinks> links;
    Connection Connect() const { return Connection(path); }
  };

  void SetUp() override {
    directory_ = testing::TempDir() + "peer_links_" + std::to_string(getpid());
    std::filesystem::create_directory(directory_);
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
    LocalOptions local;
    local.memory_bytes = uint64_t{64} << 20;
    store_ = std::move(Store::OpenLocal(local).value());
  }
  void TearDown() override {
    for (Server& one : servers_) one.links.reset();
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  void Add(GatewayOptions options = {}) {
    const uint64_t id = servers_.size() + 1;
    Server server;
    server.path = directory_ + "/" + std::to_string(id) + ".sock";
    options.listen = {"unix:" + server.path};
    server.gateway = std::move(Gateway::Start(std::move(options), *store_).value());
    server.links = Link(id, server.path, *server.gateway);
    servers_.push_back(std::move(server));
  }
  std::unique_ptr<PeerLinks> Link(uint64_t id, const std::string& path, Gateway& gateway) {
    return std::move(PeerLinks::Start(std::move(OpenBootstrap("dir:" + directory_).value()), "s",
                                      {id, "ant", "unix:" + path, gateway.peer_token(), 0},
                                      gateway.peer_queue())
                         .value());
  }
  void AwaitPeers(uint64_t count) {
    for (const Server& one : servers_) {
      while (one.links->figures().peers != count) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

  std::string directory_;
  std::vector<Server> servers_;
};

TEST_F(PeerLinksTest, BringsMessagesToOtherServersInOrder) {
  Add();
  Add();
  Add();
  AwaitPeers(2);
  Connection two = servers_[1].Connect();
  Connection three = servers_[2].Connect();
  two.Expect(Request({"SUBSCRIBE", "c"}), "*3\r\n" + Bulk("subscribe") + Bulk("c") + ":1\r\n");
  three.Expect(Request({"PSUBSCRIBE", "*"}), "*3\r\n" + Bulk("psubscribe") + Bulk("*") + ":1\r\n");
  Connection publisher = servers_[0].Connect();
  std::string requests;
  std::string replies;
  std::string messages;
  for (int i = 0; i < 1000; ++i) {
    requests += Request({"PUBLISH", "c", std::to_string(i)});
    replies += ":0\r\n";
    messages += Message("c", std::to_string(i));
  }
  publisher.Expect(requests, replies);
  EXPECT_EQ(two.Receive(messages.size()), messages);
  const std::string first = "*4\r\n" + Bulk("pmessage") + Bulk("*") + Bulk("c") + Bulk("0");
  EXPECT_EQ(three.Receive(first.size()), first);
  while (servers_[0].links->figures().sent < 2002) std::this_thread::yield();  // with two logins
  EXPECT_EQ(servers_[0].links->figures().lost, 0u);
  EXPECT_EQ(servers_[1].links->figures().connected, 0u);  // it has sent nothing
}

TEST_F(PeerLinksTest, KnowsPeersByTheirTokenWherePasswordsAreNeeded) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  Add(options);
  Add(options);
  AwaitPeers(1);
  Connection subscriber = servers_[1].Connect();
  subscriber.Expect(Request({"GOSSAMER.PEER", "PUBLISH", "c", "m"}),
                    "-NOAUTH this is for compute servers: clients send PUBLISH\r\n");
  subscriber.Send(Request({"GOSSAMER.PEER", "LOGIN", servers_[0].gateway->peer_token()}));
  EXPECT_TRUE(subscriber.ReceiveLine().starts_with("-WRONGPASS"));
  subscriber.Expect(Request({"AUTH", "secret"}), "+OK\r\n");
  subscriber.Expect(Request({"SUBSCRIBE", "c"}),
                    "*3\r\n" + Bulk("subscribe") + Bulk("c") + ":1\r\n");
  Connection publisher = servers_[0].Connect();
  publisher.Expect(Request({"AUTH", "secret"}), "+OK\r\n");
  const std::string text(1 << 20, 'x');  // more than a client without a login may send
  publisher.Expect(Request({"PUBLISH", "c", text}), ":0\r\n");
  const std::string message = Message("c", text);
  EXPECT_EQ(subscriber.Receive(message.size()), message);
}

TEST_F(PeerLinksTest, LosesMessagesForAPeerThatIsGone) {
  Add();
  Add();
  AwaitPeers(1);
  std::filesystem::remove(
      servers_[1].path);  // nobody reaches it, and its links say that it is there
  Connection publisher = servers_[0].Connect();
  publisher.Expect(Request({"PUBLISH", "c", "m"}), ":0\r\n");
  while (servers_[0].links->figures().lost == 0) std::this_thread::yield();
  // It is back, as another process.
  servers_[1].links.reset();
  servers_.pop_back();
  Add();
  AwaitPeers(1);
  Connection subscriber = servers_[1].Connect();
  subscriber.Expect(Request({"SUBSCRIBE", "c"}),
                    "*3\r\n" + Bulk("subscribe") + Bulk("c") + ":1\r\n");
  while (servers_[0].links->figures().connected == 0) {
    publisher.Expect(Request({"PUBLISH", "c", "again"}), ":0\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string message = Message("c", "again");
  EXPECT_EQ(subscriber.Receive(message.size()), message);
}

}  // namespace
}  // namespace gossamer::gateway
