// Which errors a fault explains, and which it does not.
#include "compute/verify/stress/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gossamer::stress {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Fault Restart() {
  Fault fault;
  fault.kind = FaultKind::kRestart;
  fault.server = 1;
  fault.from = 100 * kSecond;
  fault.gone = 101 * kSecond;
  fault.back = 102 * kSecond;
  fault.until = 120 * kSecond;
  return fault;
}

FailedCall Failed(Call call, int64_t start_s, Code code, std::string message) {
  return MakeFailedCall(call, 7, start_s * kSecond, start_s * kSecond + 1000,
                        MakeError(code, std::move(message)));
}

TEST(Faults, AnErrorNamesItsMemoryServer) {
  const auto server = [](const std::string& message) {
    return Failed(Call::kGet, 1, Code::kNodeUnreachable, message).server();
  };
  EXPECT_EQ(server("memory server 12 cannot be reached"), 12u);
  EXPECT_EQ(server("(memory server at /tmp/x.sock: refused) of memory server 3"), 3u);
  EXPECT_EQ(server("this memory server has been started anew"), std::nullopt);
}

TEST(Faults, ARestartExplainsWhatItsServerServed) {
  const std::string refused = "memory server 1 cannot be reached (Connection refused)";
  EXPECT_TRUE(Explains(Restart(), Failed(Call::kGet, 100, Code::kNodeUnreachable, refused)));
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 99, Code::kNodeUnreachable, refused)))
      << "before it";
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 121, Code::kNodeUnreachable, refused)))
      << "of the next era";
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 100, Code::kNodeUnreachable,
                                          "memory server 0 cannot be reached")))
      << "another server";
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 100, Code::kNotFound, "")));
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 100, Code::kCorruption, "")));
}

TEST(Faults, OnceTheNextServerIsThereErrorsSaySo) {
  const std::string refused = "memory server 1 cannot be reached (Connection refused)";
  const std::string anew = "memory server 1 at /tmp/x.sock has been started anew";
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kGet, 110, Code::kNodeUnreachable, refused)));
  EXPECT_TRUE(Explains(Restart(), Failed(Call::kGet, 110, Code::kNodeUnreachable, anew)));
}

// A client of the store before it looks for a server that has joined that store since the client
// opened it.
TEST(Faults, OnlyTheRestartOfServer0MakesAnotherStore) {
  const FailedCall failed =
      Failed(Call::kGet, 110, Code::kNodeUnreachable,
             "memory server 2 cannot be found: another store has the name 'a'");
  Fault restart = Restart();
  EXPECT_FALSE(Explains(restart, failed));
  restart.server = 0;
  EXPECT_TRUE(Explains(restart, failed));
  EXPECT_FALSE(Explains(restart, Failed(Call::kGet, 110, Code::kNodeUnreachable,
                                        "memory server 2 has been started anew")));
}

TEST(Faults, NothingIsPostedToAServerThatIsKnownToBeLost) {
  const std::string lost = "memory server 1 was lost during the write";
  EXPECT_TRUE(Explains(Restart(), Failed(Call::kWrite, 101, Code::kMaybeApplied, lost)));
  EXPECT_FALSE(Explains(Restart(), Failed(Call::kWrite, 110, Code::kMaybeApplied, lost)));
}

Fault While(FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  fault.from = 100 * kSecond;
  fault.until = 105 * kSecond;
  return fault;
}

TEST(Faults, AServerThatIsStoppedIsLeftOutForAWhile) {
  Fault stop = While(FaultKind::kStop);
  stop.back = 101 * kSecond;
  EXPECT_FALSE(Explains(stop, Failed(Call::kGet, 104, Code::kNodeUnreachable,
                                     "memory server 1 cannot be reached (peer lost)")));
  EXPECT_TRUE(Explains(stop, Failed(Call::kGet, 104, Code::kNodeUnreachable,
                                    "memory server 1 does not answer within 2000 ms")));
}

TEST(Faults, AServerThatIsStoppedLosesNoWrite) {
  Fault stop = While(FaultKind::kStop);
  stop.back = 101 * kSecond;
  EXPECT_TRUE(Explains(
      stop, Failed(Call::kGet, 101, Code::kNodeUnreachable, "memory server 1 cannot be reached")));
  EXPECT_FALSE(
      Explains(stop, Failed(Call::kWrite, 101, Code::kMaybeApplied, "memory server 1 was lost")));
}

// The connection of the write was lost meanwhile.
TEST(Faults, AWriteIsNotSettledOverAServerThatIsStopped) {
  Fault stop = While(FaultKind::kStop);
  stop.back = 103 * kSecond;
  const std::string silent =
      "memory server 1 was lost during the write (it does not answer within 2000 ms)";
  EXPECT_TRUE(Explains(stop, Failed(Call::kWrite, 101, Code::kMaybeApplied, silent)));
  EXPECT_FALSE(Explains(stop, Failed(Call::kGet, 101, Code::kMaybeApplied, silent)));
}

TEST(Faults, ALostRecordIsSaidToBeLost) {
  const Fault flush = While(FaultKind::kFlush);
  EXPECT_TRUE(Explains(flush, Failed(Call::kOpen, 101, Code::kNotFound,
                                     "there is no store (if one runs, the record was lost)")));
  EXPECT_FALSE(Explains(flush, Failed(Call::kGet, 101, Code::kNotFound, "the record was lost")))
      << "a key that is there";
  EXPECT_FALSE(Explains(
      flush, Failed(Call::kOpen, 101, Code::kNodeUnreachable, "memcached does not answer")));
  EXPECT_TRUE(
      Explains(While(FaultKind::kMemcachedRestart),
               Failed(Call::kOpen, 101, Code::kNodeUnreachable, "memcached does not answer")));
}

TEST(Faults, ALostConnectionConcernsNobodyButWhatIsConnecting) {
  Fault loss = While(FaultKind::kLoss);
  loss.client = 7;
  const std::string lost = "memory server 1 cannot be reached (peer lost)";
  EXPECT_TRUE(Explains(loss, Failed(Call::kOpen, 101, Code::kNodeUnreachable, lost)));
  EXPECT_FALSE(Explains(loss, Failed(Call::kGet, 101, Code::kNodeUnreachable, lost)));
  EXPECT_FALSE(Explains(loss, Failed(Call::kWrite, 101, Code::kMaybeApplied, lost)));
  loss.client = 8;
  EXPECT_FALSE(Explains(loss, Failed(Call::kOpen, 101, Code::kNodeUnreachable, lost)));
}

TEST(Faults, TheTableCountsByFaultAndError) {
  const std::vector<Fault> faults = {Restart()};
  const std::vector<FailedCall> failures = {
      Failed(Call::kGet, 100, Code::kNodeUnreachable, "memory server 1 cannot be reached"),
      Failed(Call::kGet, 100, Code::kNodeUnreachable, "memory server 1 cannot be reached"),
      Failed(Call::kScan, 100, Code::kCorruption, "a checksum"),
  };
  FaultTable table;
  table.Judge(faults, failures);
  EXPECT_EQ(table.unexplained(), 1u);
  EXPECT_THAT(table.examples(), testing::ElementsAre(testing::HasSubstr("Corruption: a checksum")));
  EXPECT_THAT(table.ToString(), testing::HasSubstr("2 x NodeUnreachable of get"));
  EXPECT_THAT(table.ToString(), testing::HasSubstr("UNEXPLAINED"));
}

}  // namespace
}  // namespace gossamer::stress
