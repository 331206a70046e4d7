#include "memory/membership_keeper.h"

#include <gtest/gtest.h>

#include "common/bootstrap/testing/memory_bootstrap.h"

namespace gossamer {
namespace {

Joined JoinAlone(Bootstrap& bootstrap) {
  JoinOptions options;
  options.fabric = "shm";
  return JoinStore(bootstrap, options, nullptr,
                   [](const MemberIdentity&) -> Result<std::string> { return "address"; })
      .value();
}

TEST(MembershipKeeper, PutsALostRecordBackAgainAndAgain) {
  MemoryBootstrap bootstrap;
  MembershipKeeper keeper(bootstrap, JoinAlone(bootstrap), nullptr);
  for (int i = 0; i < 2; ++i) {
    bootstrap.LoseAll();
    while (!bootstrap.Get("default").value()) std::this_thread::yield();
  }
  EXPECT_TRUE(keeper.Leave());
  EXPECT_FALSE(bootstrap.Get("default").value());
}

TEST(LookReport, RepeatsItselfRarely) {
  LookReport report;
  const Look in_place;
  const Look lost{Finding::kPutBack, "lost"};
  EXPECT_FALSE(report.IsWorthALine(in_place));
  EXPECT_TRUE(report.IsWorthALine(lost));
  int lines = 0;
  for (uint64_t i = 0; i < 10 * LookReport::kLooksPerReport; ++i) {
    if (report.IsWorthALine(i % 2 == 0 ? in_place : lost)) ++lines;
  }
  EXPECT_EQ(lines, 10);
  EXPECT_TRUE(report.IsWorthALine({Finding::kOtherStore, "A"}));
  EXPECT_TRUE(report.IsWorthALine({Finding::kOtherStore, "B"}));
  EXPECT_FALSE(report.IsWorthALine({Finding::kOtherStore, "B"}));
}

}  // namespace
}  // namespace gossamer
