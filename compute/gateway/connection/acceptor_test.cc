#include "compute/gateway/connection/acceptor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

class AcceptorTest : public testing::Test {
 protected:
  void Open(size_t workers, uint32_t max_clients) {
    path_ = testing::TempDir() + "acceptor_" + std::to_string(getpid()) + ".sock";
    socket_ = std::make_shared<UniqueFd>(Listen("unix:" + path_, false, "--redis").value());
    inboxes_ = std::make_unique<Inboxes>(workers);
    workers_ = workers;
    for (size_t i = 0; i < workers; ++i) ASSERT_TRUE((*inboxes_)[i].Open());
    max_clients_ = max_clients;
    acceptor_ = std::make_unique<Acceptor>(std::vector<Listener>{{socket_, false}}, *inboxes_);
    ASSERT_TRUE(epoll_.Open());
    ASSERT_TRUE(acceptor_->Open(epoll_));
  }
  ~AcceptorTest() override { unlink(path_.c_str()); }
  std::vector<uint64_t> Counts() const {
    std::vector<uint64_t> counts;
    for (size_t i = 0; i < workers_; ++i) counts.push_back((*inboxes_)[i].clients);
    return counts;
  }

  bool Accept(int fd) { return acceptor_->Accept(fd, epoll_, max_clients_, rejected_); }

  std::string path_;
  std::shared_ptr<const UniqueFd> socket_;
  std::unique_ptr<Inboxes> inboxes_;
  size_t workers_ = 0;
  EpollSet epoll_;
  uint32_t max_clients_ = 0;
  uint64_t rejected_ = 0;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, GivesEachClientToTheWorkerWithTheFewest) {
  ASSERT_NO_FATAL_FAILURE(Open(3, 100));
  (*inboxes_)[0].clients = 2;
  (*inboxes_)[2].clients = 1;
  const Connection first(path_);
  const Connection second(path_);
  const Connection third(path_);
  EXPECT_TRUE(Accept(socket_->get()));
  EXPECT_EQ(Counts(), (std::vector<uint64_t>{2, 2, 2}));
  EXPECT_EQ((*inboxes_)[0].TakeAll().size(), 0U);
  EXPECT_EQ((*inboxes_)[1].TakeAll().size(), 2U);
  EXPECT_EQ((*inboxes_)[2].TakeAll().size(), 1U);
  EXPECT_FALSE(Accept(socket_->get() + 1)) << "it is no listener";
}

TEST_F(AcceptorTest, WakesTheWorkerThatGetsAClient) {
  ASSERT_NO_FATAL_FAILURE(Open(1, 100));
  Inbox& inbox = (*inboxes_)[0];
  EpollSet worker;
  ASSERT_TRUE(worker.Open());
  ASSERT_TRUE(worker.Watch(inbox.fd(), EPOLLIN));
  std::array<epoll_event, 4> events;
  EXPECT_EQ(worker.Wait(events, 0).size(), 0U);
  Connection client(path_);
  ASSERT_EQ(epoll_.Wait(events, 1000).size(), 1U);
  Accept(events[0].data.fd);
  ASSERT_EQ(worker.Wait(events, 1000).size(), 1U);
  EXPECT_EQ(events[0].data.fd, inbox.fd());
  const std::vector<Inbox::Arrival> arrivals = inbox.TakeAll();
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_FALSE(arrivals[0].is_tls);
  EXPECT_EQ(send(arrivals[0].socket.get(), "hi", 2, 0), 2);
  EXPECT_EQ(client.Receive(2), "hi");
  EXPECT_EQ(worker.Wait(events, 0).size(), 0U);
  inbox.Wake();
  EXPECT_EQ(worker.Wait(events, 1000).size(), 1U);
  EXPECT_EQ(inbox.TakeAll().size(), 0U);
}

TEST_F(AcceptorTest, RefusesThoseBeyondTheMost) {
  ASSERT_NO_FATAL_FAILURE(Open(2, 3));
  std::vector<Connection> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(path_);
  Accept(socket_->get());
  EXPECT_EQ(Counts(), (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(inboxes_->CountClients(), 3U);
  EXPECT_EQ(rejected_, 1U);
  EXPECT_EQ(clients[3].ReceiveLine(), "-ERR max number of clients reached");
  EXPECT_TRUE(clients[3].IsClosed());
}

TEST_F(AcceptorTest, LeavesTheRestOfAFloodForTheNextRound) {
  ASSERT_NO_FATAL_FAILURE(Open(1, 1000));
  constexpr size_t kMany = Acceptor::kMostAtOnce + 10;
  std::vector<Connection> clients;
  for (size_t i = 0; i < kMany; ++i) clients.emplace_back(path_);
  std::array<epoll_event, 4> events;
  ASSERT_EQ(epoll_.Wait(events, 1000).size(), 1U);
  Accept(socket_->get());
  EXPECT_EQ(inboxes_->CountClients(), uint64_t{Acceptor::kMostAtOnce});
  ASSERT_EQ(epoll_.Wait(events, 1000).size(), 1U);
  Accept(socket_->get());
  EXPECT_EQ(inboxes_->CountClients(), kMany);
  EXPECT_EQ(epoll_.Wait(events, 0).size(), 0U);
}

TEST_F(AcceptorTest, TellsOnlyNowAndThenThatThereAreNoDescriptors) {
  ASSERT_NO_FATAL_FAILURE(Open(1, 100));
  std::vector<Connection> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(path_);
  rlimit limits{};
  getrlimit(RLIMIT_NOFILE, &limits);
  const rlimit none{0, limits.rlim_max};
  testing::internal::CaptureStderr();
  setrlimit(RLIMIT_NOFILE, &none);
  std::array<epoll_event, 4> events;
  for (int i = 0; i < 3; ++i) {
    while (epoll_.Wait(events, 10).empty()) acceptor_->Resume(epoll_);
    Accept(socket_->get());
  }
  setrlimit(RLIMIT_NOFILE, &limits);
  const std::string told = testing::internal::GetCapturedStderr();
  const size_t first = told.find("no further connection can be accepted");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(told.find("no further connection can be accepted", first + 1), std::string::npos);
  while (epoll_.Wait(events, 10).empty()) acceptor_->Resume(epoll_);
  Accept(socket_->get());
  EXPECT_EQ(inboxes_->CountClients(), 3U);
}

// Several workers accept at the same time.
TEST(Inboxes, HaveNoMoreClientsThanAllowed) {
  constexpr uint64_t kMost = 2;
  constexpr size_t kWorkers = 4;
  Inboxes inboxes(kWorkers);
  std::atomic<uint64_t> placed = 0;
  std::atomic<uint64_t> greatest = 0;
  std::latch start(kWorkers);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int taken = 0; taken < 300;) {
        Inbox* const inbox = inboxes.TakePlace(kMost);
        if (inbox == nullptr) continue;
        ++taken;
        const uint64_t now = ++placed;
        for (uint64_t seen = greatest; seen < now && !greatest.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();  // another thread finds the place taken
        --placed;
        --inbox->clients;
      }
    });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_LE(greatest, kMost);
  EXPECT_EQ(inboxes.CountClients(), 0U);
  std::vector<Inbox*> places;
  while (Inbox* const inbox = inboxes.TakePlace(kMost)) places.push_back(inbox);
  EXPECT_EQ(places.size(), kMost);
}

}  // namespace
}  // namespace gossamer::gateway
