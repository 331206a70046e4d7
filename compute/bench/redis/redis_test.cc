// The bench's client of the Redis protocol, against replies and a server that a test makes up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/bootstrap/test_support.h"
#include "compute/bench/redis/redis_session.h"
#include "compute/bench/redis/reply.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {
namespace {

using ::testing::HasSubstr;

// ---- replies

TEST(ReplyTest, EndsWhereItEndsHoweverMuchHasArrived) {
  using namespace std::string_literals;
  const std::vector<std::string> replies = {"+OK\r\n",
                                            "-ERR no\r\n",
                                            ":-12\r\n",
                                            "$-1\r\n",
                                            "$0\r\n\r\n",
                                            "$5\r\na\r\n\0b\r\n"s,
                                            "*0\r\n",
                                            "*-1\r\n",
                                            "*2\r\n$1\r\nx\r\n*2\r\n:1\r\n$-1\r\n",
                                            "*1\r\n*1\r\n*0\r\n"};
  for (const std::string& reply : replies) {
    for (size_t bytes = 0; bytes < reply.size(); ++bytes) {
      EXPECT_EQ(FindReplyEnd(std::string_view(reply).substr(0, bytes)).kind,
                ReplyEnd::Kind::kNeedMore)
          << reply << " of " << bytes;
    }
    const ReplyEnd end = FindReplyEnd(reply + "+next\r\n");
    EXPECT_EQ(end.kind, ReplyEnd::Kind::kWhole) << reply;
    EXPECT_EQ(end.bytes, reply.size()) << reply;
  }
}

TEST(ReplyTest, AnotherProtocolIsGarbled) {
  for (const char* const text : {"HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "*99999999999999\r\n",
                                 "$2\r\nabcd", "\r\n", "*1\r\nVALUE\r\n"}) {
    EXPECT_EQ(FindReplyEnd(text).kind, ReplyEnd::Kind::kGarbled) << text;
  }
}

TEST(ReplyTest, ReadsElementsInTurn) {
  ReplyReader reader("*4\r\n$2\r\nab\r\n$-1\r\n:7\r\n-OOM full\r\n");
  using Kind = ReplyElement::Kind;
  const ReplyElement array = reader.Next();
  EXPECT_EQ(array.kind, Kind::kArray);
  EXPECT_EQ(array.number, 4);
  EXPECT_EQ(reader.Next().text, "ab");
  EXPECT_EQ(reader.Next().kind, Kind::kNull);
  EXPECT_EQ(reader.Next().number, 7);
  EXPECT_EQ(reader.Next().text, "OOM full");
}

// ---- sessions

// Serves one connection: reads whole requests, and answers each with what `answer` makes of its
// words; "" ends the connection.
class Server {
 public:
  using Words = std::vector<std::string>;
  using AnswerOf = std::function<std::string(const Words&)>;

  explicit Server(AnswerOf answer) : answer_(std::move(answer)) {
    path_ = directory_.path() + "/socket";
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path_.data(), path_.size());
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Accept(); });
  }
  ~Server() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread& served : served_) served.join();
  }

  std::string address() const { return "unix:" + path_; }
  size_t most_at_once() const { return most_at_once_; }

 private:
  void Accept() {
    for (;;) {
      UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      if (!client) return;
      served_.emplace_back([this, client = std::move(client)] { Serve(client.get()); });
    }
  }
  void Serve(int fd) {
    std::string in;
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      in.append(buffer.data(), static_cast<size_t>(got));
      std::string out;
      size_t requests = 0;
      // A request is an array of bulks, and so is read like a reply.
      for (ReplyEnd end = FindReplyEnd(in); end.kind == ReplyEnd::Kind::kWhole;
           end = FindReplyEnd(in)) {
        ReplyReader reader(in);
        Words words(static_cast<size_t>(reader.Next().number));
        for (std::string& word : words) word = reader.Next().text;
        const std::string answer = answer_(words);
        if (answer.empty()) return;
        out += answer;
        ++requests;
        in.erase(0, end.bytes);
      }
      most_at_once_ = std::max(most_at_once_.load(), requests);
      // In two parts, so that replies are cut anywhere.
      const size_t half = out.size() / 2;
      send(fd, out.data(), half, MSG_NOSIGNAL);
      send(fd, out.data() + half, out.size() - half, MSG_NOSIGNAL);
    }
  }

  const TemporaryDirectory directory_;
  std::string path_;
  AnswerOf answer_;
  UniqueFd listener_;
  std::thread thread_;
  std::vector<std::thread> served_;
  std::atomic<size_t> most_at_once_{0};
};

std::string Bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// A server with a map. Thread-safe.
class MapServer {
 public:
  std::string Answer(const Server::Words& words) {
    const std::lock_guard lock(mutex_);
    const std::string& command = words[0];
    if (command == "INFO") return Bulk("# Server\r\nredis_version:7.9\r\nused_cpu_sys:1.5\r\n");
    if (command == "COMMAND") return "*1\r\n*-1\r\n";
    if (command == "GET") return ValueOf(words[1]);
    if (command == "SET" && refuses_) return "-OOM command not allowed\r\n";
    std::string reply = "+OK\r\n";
    if (command == "MGET") {
      reply = "*" + std::to_string(words.size() - 1) + "\r\n";
      for (size_t i = 1; i < words.size(); ++i) reply += ValueOf(words[i]);
      return reply;
    }
    for (size_t i = 1; i + 1 < words.size(); i += 2) map_[words[i]] = words[i + 1];
    return reply;
  }

  std::atomic<bool> refuses_{false};
  std::mutex mutex_;
  std::map<std::string, std::string> map_;

 private:
  std::string ValueOf(const std::string& key) const {
    const auto found = map_.find(key);
    return found == map_.end() ? "$-1\r\n" : Bulk(found->second);
  }
};

RunnerOptions Options(const char* workload) {
  RunnerOptions options;
  options.workload = *FindWorkload(workload);
  options.records = 1'000;
  options.operations = 5'000;
  options.seed = 42;
  return options;
}

TEST(RedisStoreTest, LogsInOnEachConnection) {
  MapServer map;
  std::atomic<int> logins{0};
  Server server([&](const Server::Words& words) -> std::string {
    if (words[0] != "AUTH") return map.Answer(words);
    if (words != Server::Words{"AUTH", "anna", "open sesame"}) return "-WRONGPASS no\r\n";
    ++logins;
    return "+OK\r\n";
  });
  RedisOptions redis{
      .address = server.address(), .login = RedisLogin{"anna", "open sesame"}, .connections = 3};
  const auto store = RedisStore::Open(redis, /*needs_scans=*/false).value();
  EXPECT_EQ(logins, 3);
  EXPECT_TRUE(store->ServerCpuSeconds());
  EXPECT_EQ(logins, 4);
  EXPECT_EQ(store->NewSession().value()->Get("absent").error().code, Code::kNotFound);
  redis.login->user = "berta";
  const Error refused = RedisStore::Open(redis, /*needs_scans=*/false).error();
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  EXPECT_EQ(refused.message, server.address() + " refuses the login of berta: WRONGPASS no");
}

TEST(RedisStoreTest, RunsWorkloadsOnASetOfConnections) {
  for (const uint32_t batch : {1u, 10u}) {
    for (const char* const workload : {"a", "d", "f"}) {
      MapServer map;
      Server server([&map](const Server::Words& words) { return map.Answer(words); });
      const RedisOptions redis{.address = server.address(), .connections = 3, .pipeline = 5};
      const auto store = RedisStore::Open(redis, /*needs_scans=*/false).value();
      EXPECT_EQ(store->server(), "Redis 7.9");
      EXPECT_EQ(store->ServerCpuSeconds().value(), 1.5);
      RunnerOptions options = Options(workload);
      options.coroutines = 15;
      options.threads = 2;
      options.batch = batch;
      const PhaseResult load = LoadRecords(*store, options).value();
      EXPECT_EQ(load.operations, 1'000u);
      EXPECT_EQ(map.map_.size(), 1'000u);
      const PhaseResult run = RunWorkload(*store, options).value();
      EXPECT_EQ(run.operations, 5'000u);
      EXPECT_EQ(run.errors.total(), 0u);
      EXPECT_GT(run.counters.of(OperationClass::kRead).operations, 1'000u);
      EXPECT_LE(server.most_at_once(), 5u) << "more requests in flight than --pipeline";
      const KeyCodec codec(8);
      KeyBuffer buffer;
      std::string value(8, '\0');
      FillValue(7, 42, value);
      EXPECT_EQ(map.map_.at(std::string(codec.Encode(7, buffer))), value);
    }
  }
}

TEST(RedisStoreTest, ErrorsHaveTheServersWords) {
  MapServer map;
  map.refuses_ = true;
  Server server([&map](const Server::Words& words) { return map.Answer(words); });
  const auto store = RedisStore::Open({.address = server.address()}, false).value();
  const auto session = store->NewSession().value();
  const Status put = session->Put("key", "value");
  EXPECT_EQ(put.error().code, Code::kExhausted);
  EXPECT_EQ(put.error().message, "OOM command not allowed");
  EXPECT_EQ(session->Get("key").error().code, Code::kNotFound);
  Values values;
  session->MultiGet(std::vector<std::string_view>{"a", "b"}, values);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[1].error().code, Code::kNotFound);
}

TEST(RedisStoreTest, ScansNeedACommand) {
  MapServer map;
  Server server([&map](const Server::Words& words) { return map.Answer(words); });
  const auto store = RedisStore::Open({.address = server.address()}, /*needs_scans=*/true);
  EXPECT_EQ(store.error().code, Code::kInvalidArgument);
  EXPECT_THAT(store.error().message, HasSubstr("Redis 7.9 has no command for that"));
}

TEST(RedisStoreTest, ALostConnectionFailsWhatIsInFlight) {
  std::atomic<int> gets{0};
  Server server([&gets](const Server::Words& words) {
    if (words[0] == "INFO") return Bulk("\nredis_version:7.9\r\n");
    return ++gets > 100 ? std::string() : Bulk("12345678");
  });
  const auto store = RedisStore::Open({.address = server.address()}, false).value();
  const PhaseResult run = RunWorkload(*store, Options("c")).value();
  EXPECT_TRUE(run.gave_up);
  EXPECT_GT(run.operations, 0u);
  EXPECT_GT(run.errors.counts[static_cast<size_t>(Code::kNodeUnreachable)], 0u);
}

TEST(RedisStoreTest, AnAddressWithoutAServerIsASentence) {
  const auto wrong = RedisStore::Open({.address = "7400"}, false);
  EXPECT_EQ(wrong.error().code, Code::kInvalidArgument);
  EXPECT_THAT(wrong.error().message,
              HasSubstr("7400 is no address: give unix:PATH or ADDRESS:PORT"));
  const auto none = RedisStore::Open({.address = "unix:/nonexistent/socket"}, false);
  EXPECT_EQ(none.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(none.error().message, HasSubstr("nothing answers at unix:/nonexistent"));
}

}  // namespace
}  // namespace gossamer::bench
