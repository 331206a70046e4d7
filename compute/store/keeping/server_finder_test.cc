// Servers that join after the store was opened are searched for without holding up a session.
#include "compute/store/keeping/server_finder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "common/bootstrap/membership.h"
#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "compute/store/open_store.h"
#include "compute/store/testing/bootstrapped_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

// A bootstrap whose reads can be held up.
class GatedBootstrap final : public Bootstrap {
 public:
  explicit GatedBootstrap(std::unique_ptr<Bootstrap> below) : below_(std::move(below)) {}

  void Close() {
    const std::lock_guard guard(mutex_);
    is_open_ = false;
  }
  void Open() {
    const std::lock_guard guard(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  // Reads begun so far.
  int reads() const { return reads_; }

  Result<std::optional<std::string>> Get(const std::string& store) override {
    ++reads_;
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
    return below_->Get(store);
  }
  Result<bool> CompareAndSwap(const std::string& store, const std::optional<std::string>& expected,
                              const std::optional<std::string>& desired) override {
    return below_->CompareAndSwap(store, expected, desired);
  }
  Result<Held> LockForJoin(const std::string& store, std::chrono::milliseconds patience) override {
    return below_->LockForJoin(store, patience);
  }
  Result<Held> Announce(const std::string& store) override { return below_->Announce(store); }
  Result<bool> MayHaveMembers(const std::string& store) override {
    return below_->MayHaveMembers(store);
  }
  std::chrono::milliseconds republish_wait() const override { return below_->republish_wait(); }
  std::string url() const override { return below_->url(); }

 private:
  std::unique_ptr<Bootstrap> below_;
  std::atomic<int> reads_ = 0;
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = true;
};

// A port whose connections to servers other than server 0 can be held up, as a silent server does.
class GatedPort final : public ComputePortDecorator {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = true;
    std::atomic<int> connecting = 0;

    void Set(bool open) {
      const std::lock_guard guard(mutex);
      is_open = open;
      opened.notify_all();
    }
  };
  GatedPort(std::unique_ptr<ComputePort> below, Gate& gate)
      : ComputePortDecorator(std::move(below)), gate_(gate) {}

  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override {
    if (server != ServerId{0}) {
      ++gate_.connecting;
      std::unique_lock lock(gate_.mutex);
      gate_.opened.wait(lock, [this] { return gate_.is_open; });
    }
    return ComputePortDecorator::Connect(server, address, incarnation);
  }

 private:
  Gate& gate_;
};

class ServerFinderTest : public BootstrappedStore {
 protected:
  static constexpr uint64_t kKeys = 5'000;

  // A store that was opened before server 1 joined. Some leaves are there now.
  void SetUp() override {
    first_ = StartMemory();
    ComputePortOptions options;
    options.client_uuid = RandomId();
    gate_ = std::make_shared<GatedBootstrap>(OpenBootstrap(bootstrap_->url()).value());
    auto port =
        std::make_unique<GatedPort>(OpenComputePort(FabricKind::kShm, options).value(), port_gate_);
    store_ =
        OpenStore::OpenOn(std::move(port), FindStore(*bootstrap_, {}).value(), {}, gate_).value();
    store_->FindServersInThread();
    second_ = StartMemory();
    const auto late = Open();
    const auto writer = late->NewSession().value();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(writer->Put(NumberKey(i), "value"));
  }

  std::unique_ptr<EmbeddedMemory> first_;
  std::unique_ptr<EmbeddedMemory> second_;
  std::shared_ptr<GatedBootstrap> gate_;
  GatedPort::Gate port_gate_;
  std::unique_ptr<OpenStore> store_;
};

TEST_F(ServerFinderTest, OnlyOperationsThatNeedTheServerWaitForIt) {
  const auto session = store_->NewSession().value();
  gate_->Close();
  size_t found = 0;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(NumberKey(i));
  for (const std::string& key : keys) {
    session->Spawn([](Session& own, std::string_view sought, size_t& count) -> Task<void> {
      const Result<std::string> value = co_await own.AsyncGet(sought);
      EXPECT_TRUE(value) << value.error().ToString();
      if (value) ++count;
    }(*session, key, found));
    session->Poll();
  }
  while (found == 0 || gate_->reads() == 0) session->Poll();
  const size_t found_meanwhile = found;
  const size_t waiting = session->Poll();
  EXPECT_GT(found_meanwhile, 0U) << "those of server 0";
  EXPECT_GT(waiting, 0U) << "those of server 1";
  gate_->Open();
  session->WaitAll();
  EXPECT_EQ(found, kKeys);
  EXPECT_EQ(gate_->reads(), 1) << "the server was searched for once";
}

TEST_F(ServerFinderTest, SessionsOfSeveralThreadsWaitForOneSearch) {
  constexpr int kThreads = 4;
  gate_->Close();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      const auto session = store_->NewSession().value();
      for (uint64_t key = 0; key < kKeys; ++key) EXPECT_TRUE(session->Get(NumberKey(key)));
    });
  }
  while (gate_->reads() == 0) std::this_thread::yield();
  gate_->Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gate_->reads(), 1);
}

TEST_F(ServerFinderTest, SessionsOpenAndCloseWhileTheServerIsSilent) {
  port_gate_.Set(false);
  std::thread waits([this] {
    const auto session = store_->NewSession().value();
    for (uint64_t key = 0; key < kKeys; ++key) EXPECT_TRUE(session->Get(NumberKey(key)));
  });
  while (port_gate_.connecting == 0) std::this_thread::yield();
  store_->NewSession().value().reset();  // The test does not end if this waits for the gate.
  port_gate_.Set(true);
  waits.join();
}

using FullStoreTest = BootstrappedStore;

// A client that has the store open uses the server that its message told somebody to start.
TEST_F(FullStoreTest, FindsServersThatJoin) {
  const auto first = StartMemory();
  const auto store = Open();
  const auto session = store->NewSession().value();
  const std::string value(100'000, 'v');
  uint64_t key = 0;
  Status put = session->Put(NumberKey(key), value);
  while (put && key < 1000) put = session->Put(NumberKey(++key), value);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kExhausted);
  EXPECT_NE(put.error().message.find("start another memory server"), std::string::npos);
  const auto second = StartMemory();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(200);
  while (!put && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    put = session->Put(NumberKey(key), value);
  }
  EXPECT_TRUE(put) << put.error().ToString();
  EXPECT_EQ(store->Stat().value().servers.size(), 2u);
}

}  // namespace
}  // namespace gossamer
