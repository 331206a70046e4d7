// The conformance suite runs the lines of CONTRACT.md over a fabric. This file tests single verbs
// and their errors, order_test.cc the ordered pairs, loss_test.cc the effects of death.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "common/fabric/conformance/harness.h"
#include "common/fabric/scheduler.h"
#include "common/task.h"

namespace gossamer::test {

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricConformance, testing::ValuesIn(FabricCases()),
                         FabricCaseName);

namespace {

// Tests that need threads.
class ThreadedConformance : public FabricConformance {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThreadedConformance);
INSTANTIATE_TEST_SUITE_P(Fabrics, ThreadedConformance, testing::ValuesIn(ThreadedFabricCases()),
                         FabricCaseName);

std::vector<std::byte> RandomBytes(std::mt19937_64& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(FabricConformance, FreshMemoryIsZero) {
  const auto port = NewPort();
  TestClient client(*port);
  std::vector<std::byte> bytes(size_t{1} << 20, std::byte{1});
  for (uint64_t offset = 0; offset < kRegionBytes; offset += bytes.size()) {
    ASSERT_EQ(client.Read(offset, bytes), VerbStatus::kSuccess);
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
  }
  bytes.resize(kLockTableBytes);
  ASSERT_EQ(client.Read(0, bytes, Space::kLockTable), VerbStatus::kSuccess);
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
}

TEST_P(FabricConformance, ReadReturnsWhatWriteLeft) {
  std::mt19937_64 random(TestSeed());
  const auto port = NewPort();
  TestClient writer(*port);
  TestClient reader(*port);
  // Around the inline limit, cache lines, path MTU and beyond, at unaligned offsets.
  for (const uint32_t bytes : {1U, 7U, 8U, 63U, 64U, 65U, 164U, 220U, 1023U, 1024U, 1025U, 4095U,
                               4096U, 4097U, 65536U, 1U << 20}) {
    const uint64_t offset = 1 + random() % (kRegionBytes / 2);
    const std::vector<std::byte> written = RandomBytes(random, bytes);
    ASSERT_EQ(writer.Write(offset, written), VerbStatus::kSuccess);
    std::vector<std::byte> read(bytes + 2);
    ASSERT_EQ(reader.Read(offset - 1, read), VerbStatus::kSuccess);
    EXPECT_EQ(std::memcmp(read.data() + 1, written.data(), bytes), 0) << bytes << " at " << offset;
  }
}

TEST_P(FabricConformance, WriteTouchesNothingBesideItself) {
  const auto port = NewPort();
  TestClient client(*port);
  ASSERT_EQ(client.Fill(0, 8192, std::byte{0xaa}), VerbStatus::kSuccess);
  ASSERT_EQ(client.Fill(1001, 4095, std::byte{0x55}), VerbStatus::kSuccess);
  std::vector<std::byte> read(8192);
  ASSERT_EQ(client.Read(0, read), VerbStatus::kSuccess);
  for (size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], std::byte(i >= 1001 && i < 1001 + 4095 ? 0x55 : 0xaa)) << i;
  }
}

TEST_P(FabricConformance, SpacesAreSeparate) {
  const auto port = NewPort();
  TestClient client(*port);
  EXPECT_EQ(client.FetchAdd(Space::kLockTable, 64, 5), 0U);
  EXPECT_EQ(client.FetchAdd(Space::kRegion, 64, 7), 0U);
  EXPECT_EQ(client.FetchAdd(Space::kLockTable, 64, 0), 5U);
  EXPECT_EQ(client.FetchAdd(Space::kRegion, 64, 0), 7U);
}

TEST_P(FabricConformance, CompareSwapReplacesOnlyWhatItExpects) {
  const auto port = NewPort();
  TestClient client(*port);
  for (const Space space : {Space::kRegion, Space::kLockTable}) {
    EXPECT_EQ(client.CompareSwap(space, 8, 0, 11), 0U);   // success: returns the expected value
    EXPECT_EQ(client.CompareSwap(space, 8, 0, 12), 11U);  // failure: returns the present value
    EXPECT_EQ(client.FetchAdd(space, 8, 0), 11U);
    EXPECT_EQ(client.CompareSwap(space, 8, 11, ~uint64_t{0}), 11U);
    EXPECT_EQ(client.FetchAdd(space, 8, 2), ~uint64_t{0});  // wraps
    EXPECT_EQ(client.FetchAdd(space, 8, 0), 1U);
  }
}

TEST_P(FabricConformance, BatchRunsAllItsVerbs) {
  const auto port = NewPort();
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(4096);
  std::memset(buffer.data(), 0x77, 64);
  InlineBatch<5> batch(kServer);
  batch.Add(Verb::Write(4096, 64, buffer.address()));
  batch.Add(Verb::Write(0, 64, buffer.address(), Space::kLockTable));
  batch.Add(Verb::FetchAdd(Space::kRegion, 8192, 3, buffer.address(64)));
  batch.Add(Verb::CompareSwap(Space::kLockTable, 128, 0, 9, buffer.address(72)));
  batch.Add(Verb::Read(8192, 8, buffer.address(80)));
  ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
  EXPECT_EQ(batch.verbs()[2].old_value(), 0U);
  EXPECT_EQ(batch.verbs()[3].old_value(), 0U);
  EXPECT_EQ(client.FetchAdd(Space::kLockTable, 128, 0), 9U);
  std::vector<std::byte> read(64);
  ASSERT_EQ(client.Read(0, read, Space::kLockTable), VerbStatus::kSuccess);
  EXPECT_EQ(std::memcmp(read.data(), buffer.data(), 64), 0);
}

TEST_P(FabricConformance, ABatchOfSixtyFourVerbs) {
  const auto port = NewPort();
  TestClient client(*port);
  ASSERT_GE(client.endpoint().limits().max_batch_verbs, 64U);
  const BufferLease buffer = client.Buffer(64 * 8);
  InlineBatch<64> batch(kServer);
  for (uint64_t i = 0; i < 64; ++i) {
    batch.Add(Verb::FetchAdd(Space::kRegion, i * 8, i, buffer.address(i * 8)));
  }
  ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(client.FetchAdd(Space::kRegion, i * 8, 0), i);
}

TEST_P(FabricConformance, ZeroLengthMovesNothingAndSucceeds) {
  const auto port = NewPort();
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(64);
  InlineBatch<4> batch(kServer);
  batch.Add(Verb::Read(0, 0, buffer.address()));
  batch.Add(Verb::Write(100, 0, buffer.address()));
  batch.Add(Verb::Read(kRegionBytes, 0, buffer.address()));
  batch.Add(Verb::Write(kLockTableBytes, 0, buffer.address(), Space::kLockTable));
  EXPECT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
}

// Runs `bad` between two WRITEs of one batch, and checks that the queue pair breaks as specified.
void ExpectBreaks(ComputePort& port, const Verb& bad, const char* what) {
  SCOPED_TRACE(what);
  TestClient client(port);
  const BufferLease buffer = client.Buffer(4096);
  ASSERT_EQ(client.Fill(64, 128, std::byte{0}), VerbStatus::kSuccess);
  std::memset(buffer.data(), 0x66, 64);
  InlineBatch<3> batch(kServer);
  batch.Add(Verb::Write(64, 64, buffer.address()));
  batch.Add(bad).local = buffer.address(1024);
  batch.Add(Verb::Write(128, 64, buffer.address()));
  EXPECT_EQ(Execute(client.endpoint(), batch), VerbStatus::kRemoteAccess);
  EXPECT_EQ(batch.verbs()[0].status, VerbStatus::kSuccess);
  EXPECT_EQ(batch.verbs()[1].status, VerbStatus::kRemoteAccess);
  EXPECT_EQ(batch.verbs()[2].status, VerbStatus::kFlushed);
  // Verbs and calls are flushed until the queue pair is replaced.
  std::byte byte{};
  EXPECT_EQ(client.Read(64, {&byte, 1}), VerbStatus::kFlushed);
  ControlCall call;
  call.server = kServer;
  EXPECT_EQ(Execute(client.endpoint(), call), VerbStatus::kFlushed);
  const Status reconnected = client.endpoint().Reconnect(kServer);
  ASSERT_TRUE(reconnected) << reconnected.error().ToString();
  EXPECT_EQ(client.Read(64, {&byte, 1}), VerbStatus::kSuccess);
  EXPECT_EQ(byte, std::byte{0x66});
  EXPECT_EQ(client.Read(128, {&byte, 1}), VerbStatus::kSuccess);
  EXPECT_EQ(byte, std::byte{0}) << "a flushed WRITE was applied";
}

TEST_P(FabricConformance, OutOfRangeBreaksTheQueuePairAndReconnectHealsIt) {
  const auto port = NewPort();
  const LocalAddress none;
  ExpectBreaks(*port, Verb::Read(kRegionBytes, 1, none), "READ at the end");
  ExpectBreaks(*port, Verb::Read(kRegionBytes - 7, 8, none), "READ across the end");
  ExpectBreaks(*port, Verb::Write(kRegionBytes - 63, 64, none), "WRITE across the end");
  ExpectBreaks(*port, Verb::Write(kLockTableBytes, 8, none, Space::kLockTable), "WRITE past locks");
  ExpectBreaks(*port, Verb::FetchAdd(Space::kRegion, kRegionBytes, 1, none), "add at the end");
  ExpectBreaks(*port, Verb::CompareSwap(Space::kLockTable, kLockTableBytes, 0, 1, none),
               "CAS past locks");
  ExpectBreaks(*port, Verb::Read(uint64_t{1} << 47, 64, none), "READ far away");
}

TEST_P(FabricConformance, OffsetsNear2To64DoNotWrap) {
  const auto port = NewPort();
  const LocalAddress none;
  ExpectBreaks(*port, Verb::Read(~uint64_t{0}, 1, none), "last byte");
  ExpectBreaks(*port, Verb::Read(~uint64_t{0} - 63, 128, none), "wraps to 64");
  ExpectBreaks(*port, Verb::Write(~uint64_t{0} - 7, 64, none), "WRITE that wraps");
  ExpectBreaks(*port, Verb::FetchAdd(Space::kLockTable, ~uint64_t{0} - 7, 1, none), "last word");
}

TEST_P(FabricConformance, MisalignedAtomicsAreRefused) {
  const auto port = NewPort();
  const LocalAddress none;
  ExpectBreaks(*port, Verb::FetchAdd(Space::kRegion, 4, 1, none), "add at 4");
  ExpectBreaks(*port, Verb::CompareSwap(Space::kLockTable, 8 + 1, 0, 1, none), "CAS at 9");
}

TEST_P(FabricConformance, WrongLocalKeyIsAnError) {
  if (GetParam().kind != FabricKind::kVerbs) GTEST_SKIP() << "only verbs have keys to check";
  const auto port = NewPort();
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(64);
  LocalAddress wrong = buffer.address();
  wrong.key ^= 0x5a5a00;
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::Read(0, 64, wrong));
  EXPECT_NE(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
  ASSERT_TRUE(client.endpoint().Reconnect(kServer));
  std::byte byte{};
  EXPECT_EQ(client.Read(0, {&byte, 1}), VerbStatus::kSuccess);
}

TEST_P(FabricConformance, ReconnectOfAWorkingQueuePairFlushesWhatWasPosted) {
  const uint64_t uuid = NewUuid();
  const auto port = NewPort(uuid);
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(64);
  Completion completion{1, std::noop_coroutine()};
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kRegion, 0, 1, buffer.address()));
  batch.completion = &completion;
  client.endpoint().Post(batch);
  ASSERT_TRUE(client.endpoint().Reconnect(kServer));
  PollUntil(client.endpoint(), "a flushed batch", [&] { return completion.remaining == 0; });
  // Applied before the old queue pair was destroyed, or not at all: nothing lands after Reconnect.
  const uint64_t value = client.FetchAdd(Space::kRegion, 0, 0);
  if (batch.status() == VerbStatus::kSuccess) {
    EXPECT_EQ(value, 1U);
  }
  EXPECT_LE(value, 1U);
  EXPECT_NE(batch.status(), VerbStatus::kPending);
}

TEST_P(FabricConformance, UnattachedServersFlush) {
  const auto port = NewPort();
  TestClient client(*port);
  constexpr ServerId kNobody{7};
  EXPECT_TRUE(client.endpoint().IsAttached(kServer));
  EXPECT_FALSE(client.endpoint().IsAttached(kNobody));
  const BufferLease buffer = client.Buffer(64);
  InlineBatch<1> batch(kNobody);
  batch.Add(Verb::Read(0, 8, buffer.address()));
  EXPECT_EQ(Execute(client.endpoint(), batch), VerbStatus::kFlushed);
  ControlCall call;
  call.server = kNobody;
  EXPECT_EQ(Execute(client.endpoint(), call), VerbStatus::kFlushed);
  const Status attached = client.endpoint().Attach(kNobody);
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Code::kInvalidArgument);
}

TEST_P(FabricConformance, AttachReachesAServerConnectedLater) {
  const auto port = NewPort();
  TestClient client(*port);
  constexpr ServerId kOther{3};  // the same memory under another id
  ASSERT_TRUE(port->Connect(kOther, address()));
  ASSERT_TRUE(client.endpoint().Attach(kOther));
  const BufferLease buffer = client.Buffer(64);
  InlineBatch<1> batch(kOther);
  batch.Add(Verb::FetchAdd(Space::kRegion, 0, 4, buffer.address()));
  EXPECT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
  EXPECT_EQ(client.FetchAdd(Space::kRegion, 0, 0), 4U);
}

TEST_P(FabricConformance, MoreOutstandingThanTheQueuePairHoldsStillCompletesInOrder) {
  const auto port = NewPort();
  TestClient client(*port);
  const uint32_t count = 3 * client.endpoint().limits().max_outstanding_verbs / 2 + 5;
  std::vector<BufferLease> buffers;
  std::vector<std::unique_ptr<InlineBatch<2>>> batches;
  std::vector<Batch*> pointers;
  for (uint32_t i = 0; i < count; ++i) {
    buffers.push_back(client.Buffer(64));
    batches.push_back(std::make_unique<InlineBatch<2>>(kServer));
    batches[i]->Add(Verb::FetchAdd(Space::kRegion, 0, 1, buffers[i].address()));
    batches[i]->Add(Verb::Read(0, 8, buffers[i].address(8)));
    pointers.push_back(batches[i].get());
  }
  ExecuteAll(client.endpoint(), pointers);
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(batches[i]->status(), VerbStatus::kSuccess);
    ASSERT_EQ(batches[i]->verbs()[0].old_value(), i);  // atomics of one queue pair run in order
    ASSERT_GE(batches[i]->verbs()[1].old_value(), i + 1);
  }
}

// A coroutine that calls synchronously polls from inside a poll. What it waits for may have ended
// in that same poll.
TEST_P(FabricConformance, WhoIsResumedMayPollForWhatOthersAreResumedBy) {
  const auto port = NewPort();
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(64);
  Scheduler scheduler(client.endpoint());
  int resumed = 0;
  const auto wait_for_both = [&](Batch& batch) -> Task<void> {
    co_await client.endpoint().Execute(batch);
    EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
    ++resumed;
    while (resumed < 2) client.endpoint().Poll();  // The test does not end if the other waits.
  };
  InlineBatch<1> first(kServer);
  first.Add(Verb::Read(0, 8, buffer.address()));
  InlineBatch<1> second(kServer);
  second.Add(Verb::Read(0, 8, buffer.address(8)));
  scheduler.Spawn(wait_for_both(first));
  scheduler.Spawn(wait_for_both(second));
  scheduler.RunUntil(0);
  EXPECT_EQ(resumed, 2);
}

TEST_P(ThreadedConformance, CountersSumExactlyOverEndpointsAndThreads) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEndpoints = 3;  // per thread
  const uint64_t rounds = GetParam().kind == FabricKind::kShm ? 2000 : 100;
  const auto port = NewPort();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<TestClient>> clients;
      for (uint64_t e = 0; e < kEndpoints; ++e) {
        clients.push_back(std::make_unique<TestClient>(*port));
      }
      for (uint64_t i = 0; i < rounds; ++i) {
        TestClient& client = *clients[i % kEndpoints];
        const Space space = i % 2 == 0 ? Space::kRegion : Space::kLockTable;
        client.FetchAdd(space, 0, t + 1);
        uint64_t seen = 0;
        for (uint64_t expected = 0;; expected = seen) {
          seen = client.CompareSwap(space, 64, expected, expected + 1);
          if (seen == expected) break;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  TestClient client(*port);
  for (const Space space : {Space::kRegion, Space::kLockTable}) {
    EXPECT_EQ(client.FetchAdd(space, 0, 0), rounds / 2 * (1 + 2 + 3 + 4));
    EXPECT_EQ(client.FetchAdd(space, 64, 0), rounds / 2 * kThreads);
  }
}

TEST_P(ThreadedConformance, TornReadsMixOnlyWrittenBytes) {
  constexpr uint32_t kBytes = 1024;
  const uint32_t rounds = GetParam().kind == FabricKind::kShm ? 20000 : 1000;
  const auto port = NewPort();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    TestClient client(*port);
    for (uint32_t i = 0; !done; ++i) {
      client.Fill(4096, kBytes, i % 2 == 0 ? std::byte{0x3c} : std::byte{0xc3});
    }
  });
  TestClient client(*port);
  std::vector<std::byte> read(kBytes + 2);
  uint32_t torn = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    ASSERT_EQ(client.Read(4095, read), VerbStatus::kSuccess);
    EXPECT_EQ(read.front(), std::byte{0});
    EXPECT_EQ(read.back(), std::byte{0});
    uint32_t counts[3] = {0, 0, 0};
    for (uint32_t j = 1; j <= kBytes; ++j) {
      ++counts[read[j] == std::byte{0x3c} ? 0 : read[j] == std::byte{0xc3} ? 1 : 2];
    }
    if (counts[2] != 0) {
      ASSERT_EQ(std::ranges::count(read, std::byte{0}), counts[2] + 2);
    }
    if (std::max({counts[0], counts[1], counts[2]}) != kBytes) ++torn;
  }
  done = true;
  writer.join();
  std::printf("%u of %u READs torn\n", torn, rounds);
}

// Holds for any reader: here two queue pairs take turns.
TEST_P(ThreadedConformance, AByteThatWasReadNewIsNotReadOldLater) {
  constexpr uint32_t kBytes = 1024;
  const uint32_t rounds = GetParam().kind == FabricKind::kShm ? 100 : 4;
  const auto port = NewPort();
  TestClient client(*port);
  TestClient other(*port);
  for (uint32_t round = 0; round < rounds; ++round) {
    ASSERT_EQ(client.Fill(4096, kBytes, std::byte{0}), VerbStatus::kSuccess);
    std::atomic<bool> done{false};
    std::thread writer([&] {
      TestClient writing(*port);
      for (int i = 1; i <= 255; ++i) writing.Fill(4096, kBytes, static_cast<std::byte>(i));
      done = true;
    });
    std::vector<std::byte> last(kBytes);
    std::vector<std::byte> read(kBytes);
    for (uint32_t i = 0; !done || last.back() != std::byte{255}; ++i) {
      EXPECT_EQ((i % 2 == 0 ? client : other).Read(4096, read), VerbStatus::kSuccess);
      EXPECT_TRUE(std::ranges::equal(last, read, std::ranges::less_equal())) << "round " << round;
      last.swap(read);
    }
    writer.join();
  }
}

TEST_P(FabricConformance, ControlCallsAreAnsweredWhateverTheirSize) {
  const uint64_t uuid = NewUuid();
  const auto port = NewPort(uuid);
  TestClient client(*port);
  for (const uint32_t bytes : {0U, 1U, 8U, 100U, uint32_t{kMaxControlBytes}}) {
    ControlCall call;
    call.server = kServer;
    for (uint32_t i = 0; i < bytes; ++i) call.request[i] = static_cast<std::byte>(i * 7);
    if (bytes != 0) call.request[0] = TestControlHandler::kEcho;
    call.request_bytes = bytes;
    ASSERT_EQ(Execute(client.endpoint(), call), VerbStatus::kSuccess);
    ASSERT_EQ(call.reply_bytes, bytes);
    EXPECT_EQ(std::memcmp(call.reply.data(), call.request.data(), bytes), 0);
  }
  ControlCall who;
  who.server = kServer;
  who.request[0] = TestControlHandler::kWho;
  who.request_bytes = 1;
  ASSERT_EQ(Execute(client.endpoint(), who), VerbStatus::kSuccess);
  ASSERT_EQ(who.reply_bytes, sizeof uuid);
  EXPECT_EQ(std::memcmp(who.reply.data(), &uuid, sizeof uuid), 0);
}

TEST_P(FabricConformance, ManyControlCallsInFlightGetEachItsOwnReply) {
  constexpr uint32_t kCalls = 300;
  const auto port = NewPort();
  TestClient client(*port);
  std::vector<ControlCall> calls(kCalls);
  Completion completion{kCalls, std::noop_coroutine()};
  for (uint32_t i = 0; i < kCalls; ++i) {
    calls[i].server = kServer;
    calls[i].request[0] = TestControlHandler::kEcho;
    std::memcpy(&calls[i].request[1], &i, sizeof i);
    calls[i].request_bytes = 1 + sizeof i;
    calls[i].completion = &completion;
    client.endpoint().Post(calls[i]);
  }
  PollUntil(client.endpoint(), "control calls", [&] { return completion.remaining == 0; });
  for (const ControlCall& call : calls) {
    ASSERT_EQ(call.status, VerbStatus::kSuccess);
    ASSERT_EQ(call.reply_bytes, call.request_bytes);
    ASSERT_EQ(std::memcmp(call.reply.data(), call.request.data(), call.reply_bytes), 0);
  }
}

TEST_P(FabricConformance, NobodyAtTheAddressIsNodeUnreachable) {
  const auto port = NewPort();
  const std::string nowhere =
      GetParam().kind == FabricKind::kShm ? "/nonexistent/gossamer.sock" : "127.0.0.1:1";
  const Status connected = port->Connect(ServerId{1}, nowhere);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::kNodeUnreachable);
}

TEST_P(FabricConformance, AnotherIncarnationIsNodeUnreachable) {
  const auto port = NewPort();
  const Status connected = port->Connect(ServerId{1}, address(), 4711);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::kNodeUnreachable);
  EXPECT_NE(connected.error().message.find("started anew"), std::string::npos)
      << connected.error().message;
}

TEST_P(FabricConformance, APathBelowTheLeastMtuIsRefused) {  // rule W2
  const uint32_t path_mtu = TestClient(*NewPort()).endpoint().limits().path_mtu;
  const auto port = NewPort();
  port->RequirePathMtu(path_mtu);
  EXPECT_TRUE(port->Connect(ServerId{1}, address()));
  const auto endpoint = port->NewEndpoint().value();
  EXPECT_TRUE(endpoint->IsAttached(ServerId{1}));
  port->RequirePathMtu(path_mtu + 1);
  // Verbs learns the path only with a queue pair.
  const Status connected = port->Connect(ServerId{2}, address());
  EXPECT_EQ(connected.has_value(), GetParam().kind == FabricKind::kVerbs);
  EXPECT_TRUE(connected || connected.error().code == Code::kUnsupported);
  const auto other = port->NewEndpoint().value();
  EXPECT_FALSE(other->IsAttached(ServerId{1}));
  const Status attached = other->Attach(ServerId{1});
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Code::kUnsupported) << attached.error().ToString();
}

TEST_P(FabricConformance, PollWithNothingPostedDoesNothing) {
  const auto port = NewPort();
  TestClient client(*port);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(client.endpoint().Poll(), 0U);
}

}  // namespace
}  // namespace gossamer::test
