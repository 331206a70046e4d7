// Death in CONTRACT.md: of a memory server, and of clients.
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "common/fabric/conformance/harness.h"

namespace gossamer::test {
namespace {

class Loss : public FabricConformance {
 protected:
  // Keeps batches and a call in flight until one fails. Then all must have failed in time.
  void ExpectLossIsNoticed(TestClient& client) {
    constexpr size_t kInFlight = 32;
    std::vector<BufferLease> buffers;
    std::vector<std::unique_ptr<InlineBatch<2>>> batches;
    std::vector<Batch*> pointers;
    for (size_t i = 0; i < kInFlight; ++i) {
      buffers.push_back(client.Buffer(512));
      batches.push_back(std::make_unique<InlineBatch<2>>(kServer));
      batches[i]->Add(Verb::Read(i * 512, 512, buffers[i].address()));
      batches[i]->Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffers[i].address()));
      pointers.push_back(batches[i].get());
    }
    size_t failed = 0;
    while (failed == 0) {
      ExecuteAll(client.endpoint(), pointers);  // aborts the program if it hangs
      for (const auto& batch : batches) failed += batch->status() != VerbStatus::kSuccess ? 1 : 0;
    }
    bool is_flushed = false;
    for (const auto& batch : batches) {
      if (batch->status() == VerbStatus::kSuccess) continue;
      for (const Verb& verb : batch->verbs()) {
        EXPECT_NE(verb.status, VerbStatus::kPending);
        // What may have been applied comes first.
        if (is_flushed) {
          EXPECT_EQ(verb.status, VerbStatus::kFlushed);
        }
        is_flushed = verb.status == VerbStatus::kFlushed;
      }
    }
    // From now on everything is flushed.
    std::byte byte{};
    EXPECT_EQ(client.Read(0, {&byte, 1}), VerbStatus::kFlushed);
    ControlCall call;
    call.server = kServer;
    EXPECT_NE(Execute(client.endpoint(), call), VerbStatus::kSuccess);
  }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Loss);
INSTANTIATE_TEST_SUITE_P(Fabrics, Loss, testing::ValuesIn(ThreadedFabricCases()), FabricCaseName);

TEST_P(Loss, AKilledMemoryServerIsAnErrorAndNoHang) {
  if (!server_in_other_process()) GTEST_SKIP() << "the memory server is this process";
  const auto port = NewPort();
  TestClient client(*port);
  TestClient idle(*port);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server_process().Kill();
  });
  ExpectLossIsNoticed(client);
  killer.join();
  ExpectLossIsNoticed(idle);
  const Status reconnected = client.endpoint().Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable);
  EXPECT_EQ(client.Fill(0, 8, std::byte{1}), VerbStatus::kFlushed);
}

// Over shm the dead server's memory is still mapped.
TEST_P(Loss, AServerThatIsDeadAnswersNothing) {
  if (!server_in_other_process()) GTEST_SKIP() << "the memory server is this process";
  const auto port = NewPort();
  TestClient client(*port);
  ASSERT_EQ(client.Fill(0, 8, std::byte{1}), VerbStatus::kSuccess);
  server_process().Kill();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int i = 0; i < 10; ++i) EXPECT_NE(client.Fill(0, 8, std::byte{2}), VerbStatus::kSuccess);
}

TEST_P(Loss, CallsToAKilledMemoryServerEnd) {
  if (!server_in_other_process()) GTEST_SKIP() << "the memory server is this process";
  const auto port = NewPort();
  TestClient client(*port);
  std::thread killer([&] { server_process().Kill(); });
  for (;;) {
    ControlCall call;
    call.server = kServer;
    if (Execute(client.endpoint(), call) != VerbStatus::kSuccess) break;
  }
  killer.join();
}

TEST_P(Loss, AStoppedMemoryPortIsAnErrorAndNothingLandsAfterwards) {
  if (server_in_other_process()) GTEST_SKIP() << "the memory server is another process";
  const auto port = NewPort();
  TestClient client(*port);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    memory_port().Stop();
  });
  ExpectLossIsNoticed(client);
  stopper.join();
  const Status reconnected = client.endpoint().Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable);
  EXPECT_EQ(memory_port().region().size(), kRegionBytes);
}

TEST_P(Loss, ClientGoneFiresOnceWhenTheLastEndpointCloses) {
  const auto port = NewPort();
  TestClient observer(*port);
  const uint64_t uuid = NewUuid();
  {
    const auto other = NewPort(uuid);
    auto first = std::make_unique<TestClient>(*other);
    auto second = std::make_unique<TestClient>(*other);
    first.reset();
    // Replacing the last queue pair is not the end of the client.
    ASSERT_TRUE(second->endpoint().Reconnect(kServer));
    EXPECT_EQ(second->FetchAdd(Space::kRegion, 0, 0), 0U);
    EXPECT_EQ(observer.Gone(uuid), 0U);
  }
  while (observer.Gone(uuid) == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(observer.Gone(uuid), 1U);
}

TEST_P(Loss, AKilledClientLeavesWholeWrites) {
  if (GetParam().place == FabricCase::Place::kInProcessOnly) {
    GTEST_SKIP() << "clients of such a server die with it";
  }
  const uint32_t kills = GetParam().kind == FabricKind::kShm ? 120 : 20;
  std::mt19937_64 random(TestSeed());
  const auto port = NewPort();
  TestClient client(*port);
  const uint32_t path_mtu = client.endpoint().limits().path_mtu;
  for (uint32_t kill = 0; kill < kills; ++kill) {
    const uint64_t uuid = NewUuid();
    PeerProcess writer(PeerArguments("writer", uuid));
    ASSERT_EQ(writer.ReadLine(), "writing");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    writer.Kill();
    while (client.Gone(uuid) == 0) std::this_thread::yield();
    for (uint32_t block = 0; block < kKillBlocks; ++block) {
      std::vector<std::byte> bytes(KillBlockBytes(block, path_mtu));
      ASSERT_EQ(client.Read(KillBlockOffset(block), bytes), VerbStatus::kSuccess);
      ASSERT_EQ(std::ranges::count(bytes, bytes[0]), std::ssize(bytes))
          << "kill " << kill << " tore block " << block << " of " << bytes.size() << " bytes";
    }
    ASSERT_EQ(client.Gone(uuid), 1U);
  }
}

TEST_P(Loss, AStoppedClientIsNotDead) {
  if (GetParam().place == FabricCase::Place::kInProcessOnly) {
    GTEST_SKIP() << "this server has no clients in other processes";
  }
  const auto port = NewPort();
  TestClient client(*port);
  const uint64_t uuid = NewUuid();
  PeerProcess idler(PeerArguments("idler", uuid));
  ASSERT_EQ(idler.ReadLine(), "idle");
  idler.Signal(SIGSTOP);
  while (idler.State() != 'T') std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.Gone(uuid), 0U);
  idler.Kill();
  while (client.Gone(uuid) == 0) std::this_thread::yield();
  EXPECT_EQ(client.Gone(uuid), 1U);
}

}  // namespace
}  // namespace gossamer::test
