// The endpoint as a socket sees it: what it answers to good, bad, slow and many clients.
#include "common/admin/admin_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/admin/testing/raw_client.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kHealthz[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

class AdminServerTest : public ::testing::Test {
 protected:
  void Start(AdminOptions options = {}) {
    options.address = "127.0.0.1:0";
    AdminContent content;
    content.state = [this] {
      ++states_;
      return nlohmann::ordered_json{{"key", "\xff\xfe"}};
    };
    content.readiness = [this]() -> Status {
      if (is_ready_) return Ok();
      return MakeError(Code::kNodeUnreachable, "server 1 does not answer");
    };
    auto started = AdminServer::Start(options, std::move(content));
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(started).value();
  }
  std::string Get(std::string_view path) const { return RawClient(server_->address()).Get(path); }
  std::string Send(std::string_view bytes) const {
    RawClient client(server_->address());
    client.Send(bytes);
    return client.ReadToEnd();
  }

  std::atomic<bool> is_ready_{true};
  std::atomic<int> states_{0};
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, ServesAllPaths) {
  Start();
  EXPECT_THAT(Get("/healthz"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nready\n")));
  EXPECT_THAT(Get("/metrics"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("version=0.0.4")));
  EXPECT_THAT(Get("/"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/html"),
                              HasSubstr("default-src 'none'"), HasSubstr("<!doctype html>"),
                              HasSubstr("</html>")));
  // Bytes that are no UTF-8 become U+FFFD.
  EXPECT_THAT(Get("/state?since=1"),
              AllOf(HasSubstr("Content-Type: application/json"), HasSubstr("no-store"),
                    EndsWith("{\"key\":\"\xef\xbf\xbd\xef\xbf\xbd\"}\n")));
  is_ready_ = false;
  EXPECT_THAT(Get("/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("server 1 does not answer\n")));
}

// A web page has its own name resolve to this address, and its browser ask for that.
TEST_F(AdminServerTest, NamesThatAWebPageMayHaveAreRefused) {
  AdminOptions options;
  options.hosts = {"db-1.example"};
  Start(options);
  const auto get = [this](std::string_view path, const std::string& host) {
    return Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: " + host +
                "\r\nConnection: close\r\n\r\n");
  };
  for (const std::string_view path : {"/state", "/metrics", "/"}) {
    EXPECT_THAT(
        get(path, "evil.example:7500"),
        AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("--admin_hosts"), Not(HasSubstr("key"))))
        << path;
  }
  EXPECT_EQ(states_, 0);
  for (const std::string host : {"db-1.example:7500", "127.0.0.1", "[::1]:7500", "localhost"}) {
    EXPECT_THAT(get("/state", host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  EXPECT_THAT(Send("GET /healthz HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
}

TEST_F(AdminServerTest, OtherMachinesReachItOnlyIfTheCallerSaysSo) {
  for (const std::string_view address : {"0.0.0.0:0", "[::]:0", "10.0.0.1:7500"}) {
    const auto refused = AdminServer::Start({.address = std::string(address)}, {});
    ASSERT_FALSE(refused) << address;
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("may be reached from other machines"),
                                               HasSubstr("--admin_for_other_machines")));
  }
  EXPECT_TRUE(AdminServer::Start({.address = "0.0.0.0:0", .for_other_machines = true}, {}));
}

TEST_F(AdminServerTest, HeadHasTheHeaderOfGetWithoutItsBody) {
  Start();
  const std::string reply =
      Send("HEAD /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 6\r\n"),
                           EndsWith("\r\n\r\n")));
}

TEST_F(AdminServerTest, RefusesWhatItDoesNotServe) {
  Start();
  EXPECT_THAT(Get("/nothing"), AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("nothing is here")));
  EXPECT_THAT(Send("DELETE /state HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n"),
                    EndsWith("only GET and HEAD are served here\n")));
  EXPECT_THAT(Send("POST /state HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Connection: close\r\n")));
  EXPECT_THAT(Send("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(states_, 0);
}

TEST_F(AdminServerTest, AnswersBytesThatAreNoRequest) {
  Start();
  for (const std::string_view bytes :
       {"\r\n\r\nnonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    RawClient client(server_->address());
    client.Send(bytes);
    client.EndSending();
    EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 400 ")) << bytes;
  }
  const std::string long_header = "GET / HTTP/1.1\r\nX: " + std::string(64 << 10, 'x') + "\r\n\r\n";
  EXPECT_THAT(Send(long_header), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Send(std::string(64 << 10, 'x')), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(Get("/healthz"), EndsWith("ok\n"));
}

TEST_F(AdminServerTest, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client(server_->address());
  client.Send(
      "GET /healthz HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\nGET /no");
  const std::string first = client.ReadUntil("text/html");
  EXPECT_LT(first.find("\r\n\r\nok\n"), first.find("\r\n\r\nready\n"));
  client.Send("thing HTTP/1.0\r\n\r\n");  // HTTP/1.0 closes
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("404"));
}

TEST_F(AdminServerTest, AClientThatLeavesEarlyHarmsNobody) {
  Start();
  for (int i = 0; i < 50; ++i) {
    RawClient client(server_->address());
    client.Send(i % 2 == 0 ? "GET / HT" : "GET / HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(Get("/healthz"), EndsWith("ok\n"));
}

TEST_F(AdminServerTest, ClosesSlowClients) {
  Start({.timeout = milliseconds(200)});
  RawClient idle(server_->address());
  RawClient slow(server_->address());
  // A byte now and then does not prolong its time.
  std::atomic<bool> is_done{false};
  std::thread trickle([&] {
    while (!is_done) {
      slow.Send("G");
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  std::string reply;  // On a busy machine this client may be slow, too.
  while (reply.find("ok\n") == std::string::npos) reply = Get("/healthz");
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_THAT(slow.ReadToEnd(), Not(HasSubstr("200 OK")));
  is_done = true;
  trickle.join();
}

TEST_F(AdminServerTest, AClientThatDoesNotReadIsClosed) {
  Start({.timeout = milliseconds(200), .max_connections = 1});
  RawClient client(server_->address());
  // More replies than the buffers of both ends take.
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "GET / HTTP/1.1\r\n\r\n";
  client.Send(many);
  // Its place becomes free.
  std::string reply;
  while (reply.find("ok\n") == std::string::npos) reply = Get("/healthz");
}

TEST_F(AdminServerTest, RefusesTooManyConnections) {
  Start({.max_connections = 8});
  std::list<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    RawClient& client = clients.emplace_back(server_->address());
    client.Send(kHealthz);
    EXPECT_THAT(client.ReadUntil("ok\n"), EndsWith("ok\n"));
  }
  EXPECT_THAT(RawClient(server_->address()).ReadToEnd(),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too many connections")));
  clients.pop_front();
  std::string reply;
  while (reply.find("ok\n") == std::string::npos) reply = Get("/healthz");
  clients.back().Send(kHealthz);
  EXPECT_THAT(clients.back().ReadUntil("ok\n"), EndsWith("ok\n"));
}

TEST_F(AdminServerTest, EndsWithConnectionsOpen) {
  Start();
  RawClient idle(server_->address());
  RawClient half(server_->address());
  half.Send("GET / HTTP/1.1\r\n");
  RawClient busy(server_->address());
  busy.Send(kHealthz);
  busy.ReadUntil("ok\n");
  server_.reset();
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_EQ(busy.ReadToEnd(), "");
}

TEST_F(AdminServerTest, NamesThePortThatIsTaken) {
  Start();
  const auto second = AdminServer::Start({.address = server_->address()}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "cannot listen on " + server_->address() +
                                        ": Address already in use; give another --admin");
  // Free again as soon as the first one has ended.
  const std::string address = server_->address();
  RawClient(address).Get("/healthz");
  server_.reset();
  EXPECT_TRUE(AdminServer::Start({.address = address}, {}));
}

TEST(AdminServerAddressTest, TakesNumericAddressesOnly) {
  for (const char* const text :
       {"", "7401", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:7401",
        "::1:7401", "[127.0.0.1]:7401", "[::1]", ":7401"}) {
    const auto server = AdminServer::Start({.address = text}, {});
    ASSERT_FALSE(server) << text;
    EXPECT_THAT(server.error().message, AllOf(StartsWith("'" + std::string(text) + "'"),
                                              HasSubstr("such as 127.0.0.1:7401 or [::1]:7401")));
  }
}

TEST(AdminServerAddressTest, ListensOnIpv6) {
  const auto server = AdminServer::Start({.address = "[::1]:0"}, {});
  if (!server) GTEST_SKIP() << server.error().message;
  EXPECT_THAT(server.value()->address(), AllOf(StartsWith("[::1]:"), Not(EndsWith(":0"))));
}

}  // namespace
}  // namespace gossamer
