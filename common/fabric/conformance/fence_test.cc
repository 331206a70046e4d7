// Fences in CONTRACT.md: a compute server is cut off while it lives.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "common/fabric/conformance/harness.h"

namespace gossamer::test {
namespace {

class Fence : public FabricConformance {
 protected:
  // Posts several WRITEs of new bytes at a time, until one fails.
  static void WriteUntilAVerbFails(TestClient& client) {
    constexpr size_t kInFlight = 16;
    std::vector<BufferLease> buffers;
    std::vector<std::unique_ptr<InlineBatch<2>>> batches;
    std::vector<Batch*> pointers;
    for (size_t i = 0; i < kInFlight; ++i) {
      buffers.push_back(client.Buffer(64));
      batches.push_back(std::make_unique<InlineBatch<2>>(kServer));
      batches[i]->Add(Verb::Write(i * 64, 56, buffers[i].address()));
      batches[i]->Add(Verb::FetchAdd(Space::kLockTable, i * 8, 1, buffers[i].address() + 56));
      pointers.push_back(batches[i].get());
    }
    for (uint64_t round = 1;; ++round) {
      for (BufferLease& buffer : buffers) {
        std::memset(buffer.data(), static_cast<int>(round & 0xff), 56);
      }
      ExecuteAll(client.endpoint(), pointers);  // aborts the program if it hangs
      size_t failed = 0;
      for (const auto& batch : batches) {
        const VerbStatus status = batch->status();
        if (status == VerbStatus::kSuccess) {
          EXPECT_EQ(failed, 0U) << "a verb behind one that failed did not";
        } else {
          ++failed;
          EXPECT_TRUE(status == VerbStatus::kUnknown || status == VerbStatus::kFlushed);
        }
      }
      if (failed != 0) return;
    }
  }

  static void WaitUntilGone(TestClient& observer, uint64_t uuid, uint64_t times = 1) {
    while (observer.Gone(uuid) != times) {
      ASSERT_LT(observer.Gone(uuid), times + 1);
      std::this_thread::yield();
    }
  }

  // The first `bytes` bytes of both spaces.
  static std::vector<std::byte> Snapshot(TestClient& observer, size_t bytes) {
    std::vector<std::byte> snapshot(2 * bytes);
    EXPECT_EQ(observer.Read(0, std::span(snapshot).first(bytes)), VerbStatus::kSuccess);
    EXPECT_EQ(observer.Read(0, std::span(snapshot).last(bytes), Space::kLockTable),
              VerbStatus::kSuccess);
    return snapshot;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, Fence, testing::ValuesIn(FabricCases()), FabricCaseName);

// Tests that need threads or processes.
class ThreadedFence : public Fence {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThreadedFence);
INSTANTIATE_TEST_SUITE_P(Fabrics, ThreadedFence, testing::ValuesIn(ThreadedFabricCases()),
                         FabricCaseName);

TEST_P(ThreadedFence, BreaksEveryQueuePairAndNothingLandsAfterwards) {
  const auto port = NewPort();
  TestClient observer(*port);
  for (uint64_t life = 1; life <= 5; ++life) {
    const uint64_t uuid = NewUuid();
    const auto fenced_port = NewPort(uuid);
    TestClient first(*fenced_port);
    TestClient second(*fenced_port);
    TestClient idle(*fenced_port);
    std::atomic<bool> gone = false;
    std::thread fencer([&] {
      const auto own_port = NewPort();
      TestClient client(*own_port);
      std::this_thread::sleep_for(std::chrono::milliseconds(life));
      client.Fence(uuid);
      WaitUntilGone(client, uuid);
      const std::vector<std::byte> before = Snapshot(client, 1024);
      gone = true;
      for (int i = 0; i < 50; ++i) EXPECT_EQ(Snapshot(client, 1024), before);
    });
    std::thread other([&] { WriteUntilAVerbFails(second); });
    WriteUntilAVerbFails(first);
    other.join();
    while (!gone) first.endpoint().Poll();
    for (TestClient* client : {&first, &second, &idle}) {
      std::byte byte{0xee};
      EXPECT_NE(client->Write(0, {&byte, 1}), VerbStatus::kSuccess);
      EXPECT_EQ(client->Write(0, {&byte, 1}), VerbStatus::kFlushed);
      ControlCall call;
      call.server = kServer;
      EXPECT_NE(Execute(client->endpoint(), call), VerbStatus::kSuccess);
    }
    fencer.join();
    EXPECT_EQ(observer.Gone(uuid), 1U);
  }
}

// E2, E3: what ends as kFlushed is not applied.
TEST_P(ThreadedFence, WhatIsFlushedIsNotApplied) {
  constexpr size_t kWords = 64;
  const auto port = NewPort();
  TestClient observer(*port);
  for (uint64_t life = 1; life <= 8; ++life) {
    const uint64_t uuid = NewUuid();
    const auto fenced_port = NewPort(uuid);
    TestClient client(*fenced_port);
    std::vector<uint64_t> least(kWords);
    for (size_t i = 0; i < kWords; ++i) {
      least[i] = observer.FetchAdd(Space::kLockTable, i * 8, 0);
    }
    std::vector<uint64_t> doubtful(kWords);
    std::thread fencer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(life));
      const auto own_port = NewPort();
      TestClient(*own_port).Fence(uuid);
    });
    std::vector<BufferLease> buffers;
    std::vector<std::unique_ptr<InlineBatch<1>>> batches;
    std::vector<Batch*> pointers;
    for (size_t i = 0; i < kWords; ++i) {
      buffers.push_back(client.Buffer(64));
      batches.push_back(std::make_unique<InlineBatch<1>>(kServer));
      batches[i]->Add(Verb::FetchAdd(Space::kLockTable, i * 8, 1, buffers[i].address()));
      pointers.push_back(batches[i].get());
    }
    for (bool is_fenced = false; !is_fenced;) {
      ExecuteAll(client.endpoint(), pointers);
      for (size_t i = 0; i < kWords; ++i) {
        const VerbStatus status = batches[i]->status();
        is_fenced = is_fenced || status != VerbStatus::kSuccess;
        least[i] += status == VerbStatus::kSuccess ? 1 : 0;
        doubtful[i] += status == VerbStatus::kUnknown ? 1 : 0;
      }
    }
    fencer.join();
    WaitUntilGone(observer, uuid);
    for (size_t i = 0; i < kWords; ++i) {
      const uint64_t now = observer.FetchAdd(Space::kLockTable, i * 8, 0);
      EXPECT_GE(now, least[i]);
      EXPECT_LE(now, least[i] + doubtful[i]);
    }
  }
}

TEST_P(Fence, WhoWasFencedMayConnectAnew) {
  const auto port = NewPort();
  TestClient observer(*port);
  const uint64_t uuid = NewUuid();
  {
    const auto fenced_port = NewPort(uuid);
    TestClient first(*fenced_port);
    TestClient second(*fenced_port);
    observer.Fence(uuid);
    WaitUntilGone(observer, uuid);
    ASSERT_TRUE(first.endpoint().Reconnect(kServer));
    ASSERT_TRUE(second.endpoint().Reconnect(kServer));
    TestClient third(*fenced_port);
    for (TestClient* client : {&first, &second, &third}) {
      client->FetchAdd(Space::kLockTable, 0, 1);
      EXPECT_EQ(client->Gone(uuid), 1U);  // a call, too
    }
    EXPECT_EQ(observer.FetchAdd(Space::kLockTable, 0, 0), 3U);
  }
  // The end of its second life.
  WaitUntilGone(observer, uuid, 2);
  EXPECT_EQ(observer.Gone(uuid), 2U);
}

// E5: no queue pair works until the request has ended, however fast the server is.
TEST_P(Fence, WhatIsPostedWhileAQueuePairIsAskedForIsFlushed) {
  enum class Before : uint8_t { kWorking, kBroken, kFenced };
  const auto port = NewPort();
  TestClient observer(*port);
  const std::vector<std::byte> fresh = Snapshot(observer, 64);
  for (const Before before : {Before::kWorking, Before::kBroken, Before::kFenced}) {
    SCOPED_TRACE(static_cast<int>(before));
    const uint64_t uuid = NewUuid();
    const auto own_port = NewPort(uuid);
    TestClient client(*own_port);
    std::byte byte{0xee};
    if (before == Before::kBroken) {
      ASSERT_EQ(client.Write(kRegionBytes, {&byte, 1}), VerbStatus::kRemoteAccess);
    }
    if (before == Before::kFenced) {
      observer.Fence(uuid);
      WaitUntilGone(observer, uuid);
    }
    Completion requested{1, std::noop_coroutine()};
    QueuePairRequest request;
    request.server = kServer;
    request.completion = &requested;
    client.endpoint().Post(request);
    // One batch between any two polls.
    const BufferLease buffer = client.Buffer(64);
    std::memset(buffer.data(), 0xee, 32);
    std::vector<std::unique_ptr<InlineBatch<2>>> batches;
    Completion flushed{0, std::noop_coroutine()};
    PollUntil(client.endpoint(), "a queue pair that was asked for", [&] {
      if (requested.remaining == 0) return true;
      if (batches.size() == 1000) return false;
      InlineBatch<2>& batch = *batches.emplace_back(std::make_unique<InlineBatch<2>>(kServer));
      batch.Add(Verb::Write(0, 32, buffer.address()));
      batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address(32)));
      batch.completion = &flushed;
      ++flushed.remaining;
      client.endpoint().Post(batch);
      return false;
    });
    ASSERT_TRUE(request.status) << request.status.error().ToString();
    PollUntil(client.endpoint(), "flushed batches", [&] { return flushed.remaining == 0; });
    for (const auto& batch : batches) {
      for (const Verb& verb : batch->verbs()) ASSERT_EQ(verb.status, VerbStatus::kFlushed);
    }
    EXPECT_EQ(Snapshot(observer, 64), fresh);
    EXPECT_EQ(client.FetchAdd(Space::kLockTable, 0, 0), 0U) << "on the new one";
  }
}

TEST_P(Fence, WhoIsNotThereIsNotFenced) {
  const auto port = NewPort();
  TestClient observer(*port);
  const uint64_t stranger = NewUuid();
  const uint64_t uuid = NewUuid();
  const auto other = NewPort(uuid);
  const TestClient client(*other);
  observer.Fence(stranger);
  observer.Fence(uuid);
  observer.Fence(uuid);  // twice in a row
  WaitUntilGone(observer, uuid);
  EXPECT_EQ(observer.Gone(uuid), 1U);
  EXPECT_EQ(observer.Gone(stranger), 0U);
}

TEST_P(ThreadedFence, ByAnotherThreadOfTheMemoryServer) {
  if (server_in_other_process()) GTEST_SKIP() << "the memory server is another process";
  const auto port = NewPort();
  TestClient observer(*port);
  const uint64_t uuid = NewUuid();
  const auto fenced_port = NewPort(uuid);
  TestClient client(*fenced_port);
  std::thread fencer([&] { memory_port().Fence(uuid); });
  WriteUntilAVerbFails(client);
  fencer.join();
  WaitUntilGone(observer, uuid);
}

TEST_P(ThreadedFence, WhileItsTargetConnectsAgainAndAgain) {
  const int fences = GetParam().kind == FabricKind::kShm ? 100 : 10;
  const auto port = NewPort();
  TestClient observer(*port);
  const uint64_t uuid = NewUuid();
  std::atomic<bool> done = false;
  std::thread target([&] {
    const auto fenced_port = NewPort(uuid);
    std::unique_ptr<Endpoint> kept;
    while (!done) {
      // The fence may break each endpoint at any point of its construction.
      auto endpoint = fenced_port->NewEndpoint();
      if (!endpoint) continue;
      const BufferLease buffer = endpoint.value()->buffers().Allocate(8).value();
      InlineBatch<1> batch(kServer);
      batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address()));
      Execute(*endpoint.value(), batch);
      if (kept != nullptr && !kept->Reconnect(kServer)) kept.reset();
      if (kept == nullptr) kept = std::move(endpoint).value();
    }
  });
  for (int i = 0; i < fences; ++i) {
    const uint64_t gone = observer.Gone(uuid);
    observer.Fence(uuid);
    // No ClientGone if the client had no queue pair at that moment.
    for (int tries = 0; tries < 100 && observer.Gone(uuid) == gone; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  done = true;
  target.join();
  TestClient late(*NewPort(uuid));
  late.FetchAdd(Space::kLockTable, 8, 1);
  EXPECT_GT(observer.Gone(uuid), 0U);
}

// Wherever the client was stopped, the memory server serves others, and what the client does after
// it wakes up does not land.
TEST_P(ThreadedFence, OfAStoppedClientHoldsNobodyUp) {
  if (GetParam().place == FabricCase::Place::kInProcessOnly) {
    GTEST_SKIP() << "this server has no clients in other processes";
  }
  const int rounds = GetParam().kind == FabricKind::kShm ? 40 : 5;
  std::mt19937_64 random(TestSeed());
  const auto port = NewPort();
  TestClient observer(*port);
  const uint32_t path_mtu = observer.endpoint().limits().path_mtu;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t uuid = NewUuid();
    PeerProcess writer(PeerArguments("writer", uuid));
    ASSERT_EQ(writer.ReadLine(), "writing");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    writer.Signal(SIGSTOP);
    while (writer.State() != 'T') std::this_thread::yield();
    observer.Fence(uuid);
    for (int i = 0; i < 100; ++i) ASSERT_LE(observer.Gone(uuid), 1U);
    const bool was_between_verbs = observer.Gone(uuid) == 1;
    std::vector<std::vector<std::byte>> before;
    const auto read = [&] {
      std::vector<std::vector<std::byte>> blocks;
      for (uint32_t block = 0; block < kKillBlocks; ++block) {
        blocks.emplace_back(KillBlockBytes(block, path_mtu));
        EXPECT_EQ(observer.Read(KillBlockOffset(block), blocks.back()), VerbStatus::kSuccess);
      }
      return blocks;
    };
    if (was_between_verbs) before = read();
    writer.Signal(SIGCONT);
    WaitUntilGone(observer, uuid);
    if (!was_between_verbs) before = read();
    for (const auto& block : before) {
      ASSERT_EQ(std::ranges::count(block, block[0]), std::ssize(block)) << "a torn WRITE";
    }
    while (writer.State() != 'Z') std::this_thread::yield();  // it ends when a verb fails
    ASSERT_EQ(read(), before) << "round " << round;
  }
}

}  // namespace
}  // namespace gossamer::test
