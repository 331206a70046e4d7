#include "compute/gateway/connection/client_list.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

using Fields = std::map<std::string, std::string>;

// The fields of each line of CLIENT LIST.
std::vector<Fields> Parse(const std::string& lines) {
  std::vector<Fields> clients;
  std::istringstream rest(lines);
  for (std::string line; std::getline(rest, line);) {
    std::istringstream words(line);
    Fields& fields = clients.emplace_back();
    for (std::string word; words >> word;) {
      const size_t at = word.find('=');
      fields[word.substr(0, at)] = word.substr(at + 1);
    }
  }
  return clients;
}

class ClientListTest : public GatewayTest {
 protected:
  void OpenWithTwoThreads() {
    GatewayOptions options;
    options.threads = 2;
    Open(options);
  }
  static std::string Ask(Connection& client, const std::vector<std::string>& arguments) {
    client.Send(Request(arguments));
    return client.ReceiveBulk();
  }
  // The number that CLIENT ID answers.
  static std::string NumberOf(Connection& client) {
    client.Send(Request({"CLIENT", "ID"}));
    return client.ReceiveLine().substr(1);
  }
};

TEST_F(ClientListTest, ListsTheClientsOfAllWorkers) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTwoThreads());
  std::vector<Connection> clients;
  std::vector<std::string> numbers;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(Connect());
    clients.back().Expect(Request({"CLIENT", "SETNAME", "name" + std::to_string(i)}), "+OK\r\n");
    numbers.push_back(NumberOf(clients.back()));
  }
  clients[3].Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  const std::vector<Fields> all = Parse(Ask(clients[0], {"CLIENT", "LIST"}));
  ASSERT_EQ(all.size(), 6U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].at("id"), numbers[i]);
    EXPECT_EQ(all[i].at("name"), "name" + std::to_string(i));
    EXPECT_EQ(all[i].at("addr"), path_ + ":0");
    EXPECT_EQ(all[i].at("user"), "default");
    EXPECT_EQ(all[i].at("resp"), "2");
    const std::string last = i == 0 ? "client|list" : "client|id";
    EXPECT_EQ(all[i].at("cmd"), i == 3 ? "set" : last);
  }
  const std::vector<Fields> some =
      Parse(Ask(clients[0], {"client", "list", "id", numbers[4], "999999", numbers[1]}));
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].at("id"), numbers[1]);
  EXPECT_EQ(some[1].at("id"), numbers[4]);
  EXPECT_EQ(Parse(Ask(clients[0], {"CLIENT", "LIST", "TYPE", "normal"})).size(), 6U);
  EXPECT_EQ(Ask(clients[0], {"CLIENT", "LIST", "TYPE", "pubsub"}), "");
  EXPECT_EQ(Parse(Ask(clients[5], {"CLIENT", "INFO"}))[0].at("id"), numbers[5]);
  // One that has gone is not there.
  {
    const Connection gone = std::move(clients.back());
  }
  clients.pop_back();
  for (int tries = 0; tries < 1000; ++tries) {
    if (Parse(Ask(clients[0], {"CLIENT", "LIST"})).size() == 5) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL() << "a client that has closed its connection stays in the list";
}

TEST_F(ClientListTest, RefusesWhatItDoesNotKnow) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"CLIENT", "LIST", "NOW"}), "-ERR syntax error\r\n");
  client.Expect(Request({"CLIENT", "LIST", "ID", "x"}), "-ERR Invalid client ID\r\n");
  client.Expect(Request({"CLIENT", "LIST", "TYPE", "odd"}), "-ERR Unknown client type 'odd'\r\n");
  client.Expect(Request({"CLIENT", "KILL", "1.2.3.4:5"}), "-ERR No such client\r\n");
  client.Expect(Request({"CLIENT", "KILL", "ID", "x"}),
                "-ERR client-id should be greater than 0\r\n");
  client.Expect(Request({"CLIENT", "KILL", "ID", "1", "SKIPME"}), "-ERR syntax error\r\n");
  client.Expect(Request({"CLIENT", "KILL", "SKIPME", "perhaps"}), "-ERR syntax error\r\n");
  client.Expect(Request({"CLIENT", "SETNAME", "two words"}),
                "-" + std::string(kNoClientName) + "\r\n");
  client.Expect(Request({"HELLO", "2", "SETNAME", "two\nlines"}),
                "-" + std::string(kNoClientName) + "\r\n");
  client.Expect(Request({"CLIENT", "GETNAME"}), "$-1\r\n");
}

TEST_F(ClientListTest, KillsOthersAndItself) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTwoThreads());
  Connection killer = Connect();
  killer.Expect("PING\r\n", "+PONG\r\n");
  std::vector<Connection> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    clients.back().Expect("PING\r\n", "+PONG\r\n");
  }
  const std::string first = NumberOf(clients[2]);
  killer.Expect(Request({"CLIENT", "KILL", "ID", first}), ":1\r\n");
  EXPECT_TRUE(clients[2].IsClosed());
  // Its worker forgets it a little later.
  for (int tries = 0; tries < 6000 && !Ask(killer, {"CLIENT", "LIST", "ID", first}).empty();
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  clients[1].Expect("PING\r\n", "+PONG\r\n");
  killer.Expect(Request({"CLIENT", "KILL", "USER", "nobody"}), "-ERR No such user 'nobody'\r\n");
  killer.Expect(Request({"CLIENT", "KILL", "TYPE", "replica"}), ":0\r\n");
  killer.Expect(Request({"CLIENT", "KILL", "ADDR", path_ + ":0", "USER", "default"}), ":3\r\n");
  for (const int i : {0, 1, 3}) EXPECT_TRUE(clients[static_cast<size_t>(i)].IsClosed());
  killer.Expect(Request({"CLIENT", "KILL", "SKIPME", "no", "ID", NumberOf(killer)}), ":1\r\n");
  EXPECT_TRUE(killer.IsClosed());
}

// One that does not read its answers goes, too, and so does its memory.
// Its worker may take a while to find out.
TEST(ClientList, HasNoClientThatWasKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  ClientList list;
  const ClientList::Entry killer(list, 1, one.get());
  const ClientList::Entry killed(list, 2, other.get());
  ClientList::Filter both;
  both.numbers = {1, 2};
  const auto now = ClientList::Clock::now();
  EXPECT_EQ(Parse(list.Lines(both, now)).size(), 2U);
  ClientList::Filter filter;
  filter.numbers = {2};
  EXPECT_EQ(list.Kill(filter, killer), std::pair(size_t{1}, false));
  EXPECT_EQ(list.Kill(filter, killer), std::pair(size_t{0}, false));
  EXPECT_EQ(list.Kill(both, killer), std::pair(size_t{1}, true));
  EXPECT_EQ(Parse(list.Lines(both, now)).size(), 1U);
  EXPECT_EQ(Parse(list.Lines({}, now)).size(), 1U);
  EXPECT_TRUE(killed.is_killed());
  EXPECT_FALSE(killer.is_killed());
}

TEST_F(ClientListTest, KillsASlowReader) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection killer = Connect();
  killer.Expect(Request({"SET", "k", std::string(100'000, 'x')}), "+OK\r\n");
  Connection slow = Connect();
  const std::string number = NumberOf(slow);
  for (int i = 0; i < 100; ++i) slow.Send(Request({"GET", "k"}));
  for (int tries = 0; tries < 1000; ++tries) {
    const std::vector<Fields> found = Parse(Ask(killer, {"CLIENT", "LIST", "ID", number}));
    ASSERT_EQ(found.size(), 1U);
    if (std::stoul(found[0].at("omem")) != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  killer.Expect(Request({"CLIENT", "KILL", "ID", number}), ":1\r\n");
  for (int tries = 0; tries < 1000; ++tries) {
    if (Ask(killer, {"CLIENT", "LIST", "ID", number}).empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL() << "a slow reader that was killed stays";
}

// Workers accept, drop and kill at once.
// The list of many clients is long.
TEST_F(ClientListTest, AnswersNoFurtherRequestsOfAClientThatDoesNotReadThem) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<Connection> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(Connect());
    clients.back().Expect("PING\r\n", "+PONG\r\n");
  }
  Connection slow = Connect();
  const std::string number = NumberOf(slow);
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += Request({"CLIENT", "LIST"});
  slow.Send(requests);
  size_t unsent = 0;
  while (unsent == 0) {
    unsent = std::stoul(Parse(Ask(clients[0], {"CLIENT", "LIST", "ID", number})).at(0).at("omem"));
  }
  EXPECT_LT(unsent, size_t{3} << 19) << "1 MiB, and one answer";
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Parse(slow.ReceiveBulk()).size(), 301U);
}

TEST_F(ClientListTest, ListsAndKillsWhileClientsComeAndGo) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTwoThreads());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 60; ++round) {
        Connection client = Connect();
        client.Send(Request({"CLIENT", "SETNAME", "guest"}) + Request({"PING"}));
        client.ReceiveLine();
      }
    });
  }
  Connection killer = Connect();
  for (int round = 0; round < 100; ++round) {
    for (const Fields& one : Parse(Ask(killer, {"CLIENT", "LIST"}))) {
      if (one.at("name") != "guest" || round % 3 != 0) continue;
      killer.Send(Request({"CLIENT", "KILL", "ID", one.at("id")}));
      EXPECT_TRUE(killer.ReceiveLine().starts_with(':'));
    }
  }
  for (std::thread& thread : threads) thread.join();
  killer.Expect("PING\r\n", "+PONG\r\n");
}

TEST_F(ClientListTest, SlowRequestsAreLogged) {
  GatewayOptions options;
  options.slow_log = {.slower_than_us = 0, .entries = 4};
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  client.Expect(Request({"CLIENT", "SETNAME", "me"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
  client.Expect(Request({"SET", "a", std::string(200, 'x')}), "+OK\r\n");
  client.Expect(Request({"MGET", "a1", "a2", "a3"}), "*3\r\n$-1\r\n$-1\r\n$-1\r\n");
  client.Expect(Request({"INCR", "n"}), ":1\r\n");
  client.Expect(Request({"DBSIZE"}), ":2\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":4\r\n");
  client.Send(Request({"SLOWLOG", "GET", "2"}));
  EXPECT_EQ(client.ReceiveLine(), "*2");
  const auto expect_entry = [&](const std::string& number, const std::vector<std::string>& words) {
    EXPECT_EQ(client.ReceiveLine(), "*6");
    EXPECT_EQ(client.ReceiveLine(), ":" + number);
    EXPECT_GT(std::stoll(client.ReceiveLine().substr(1)), 1'700'000'000);
    EXPECT_GE(std::stoll(client.ReceiveLine().substr(1)), 0);
    EXPECT_EQ(client.ReceiveLine(), "*" + std::to_string(words.size()));
    for (const std::string& word : words) EXPECT_EQ(client.ReceiveBulk(), word);
    EXPECT_EQ(client.ReceiveBulk(), path_ + ":0");
    EXPECT_EQ(client.ReceiveBulk(), "me");
  };
  expect_entry("3", {"DBSIZE"});
  expect_entry("2", {"incr", "n"});
  client.Send(Request({"SLOWLOG", "GET", "-1"}));
  EXPECT_EQ(client.ReceiveLine(), "*4");
  expect_entry("3", {"DBSIZE"});
  expect_entry("2", {"incr", "n"});
  expect_entry("1", {"mget", "a1", "a2", "a3"});
  expect_entry("0", {"set", "a", std::string(128, 'x') + "... (72 more bytes)"});
  client.Expect(Request({"GET", "b"}), "$-1\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":4\r\n");
  client.Expect(Request({"SLOWLOG", "RESET"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
  client.Expect(Request({"SLOWLOG", "GET", "-2"}),
                "-ERR count should be greater than or equal to -1\r\n");
  client.Expect(Request({"SLOWLOG", "WHAT"}),
                "-ERR unknown subcommand 'WHAT'. SLOWLOG has GET, LEN, RESET here\r\n");
}

TEST_F(ClientListTest, QuickRequestsAreNotLogged) {
  GatewayOptions options;
  options.slow_log.slower_than_us = -1;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  client.Expect(Request({"GET", "a"}), "$-1\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
