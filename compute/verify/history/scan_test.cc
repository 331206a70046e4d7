// Scans that a correct store can return, and scans that it cannot.
#include "compute/verify/history/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gossamer::history {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Event Put(uint32_t key, ValueId value, int64_t start, int64_t end) {
  return {value, start, end, key, 0, OperationKind::kPut, Outcome::kDone};
}
Event Delete(uint32_t key, int64_t start, int64_t end) {
  return {kAbsent, start, end, key, 0, OperationKind::kDelete, Outcome::kDone};
}

// A scan of keys 0 to 9, begun at 100, with a row every 10 from 110 on, ended at 200.
Scan ScanOf(const std::vector<std::pair<uint32_t, ValueId>>& rows, bool reverse = false) {
  Scan scan;
  scan.last = 10;
  scan.reverse = reverse;
  scan.start = 100;
  scan.end = 200;
  for (const auto& [key, value] : rows) {
    scan.rows.push_back({key, value, 110 + 10 * static_cast<int64_t>(scan.rows.size())});
  }
  return scan;
}

// Problems of the scan, by itself or together with other events.
std::vector<std::string> Problems(const Scan& scan, std::vector<Event> events) {
  const std::optional<std::string> problem = ExpandScan(scan, events);
  if (problem) return {*problem};
  return CheckHistory(events).problems;
}

std::string OnlyProblem(const Scan& scan, const std::vector<Event>& events) {
  const std::vector<std::string> problems = Problems(scan, events);
  EXPECT_EQ(problems.size(), 1u) << testing::PrintToString(problems);
  return problems.empty() ? std::string() : problems[0];
}

std::vector<Event> ThreeKeys() { return {Put(2, 20, 1, 2), Put(5, 50, 3, 4), Put(8, 80, 5, 6)}; }

TEST(ScanTest, AcceptsWhatIsThere) {
  EXPECT_THAT(Problems(ScanOf({{2, 20}, {5, 50}, {8, 80}}), ThreeKeys()), IsEmpty());
  EXPECT_THAT(Problems(ScanOf({{8, 80}, {5, 50}, {2, 20}}, true), ThreeKeys()), IsEmpty());
  EXPECT_THAT(Problems(ScanOf({}), {}), IsEmpty());
}

TEST(ScanTest, SaysSomethingOfEveryKeyOfItsRange) {
  for (const bool reverse : {false, true}) {
    std::vector<std::pair<uint32_t, ValueId>> rows = {{2, 20}, {5, 50}};
    if (reverse) std::reverse(rows.begin(), rows.end());
    std::vector<Event> events;
    EXPECT_EQ(ExpandScan(ScanOf(rows, reverse), events), std::nullopt);
    ASSERT_EQ(events.size(), 10u);
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return a.key < b.key; });
    for (uint32_t key = 0; key < 10; ++key) {
      EXPECT_EQ(events[key].key, key);
      EXPECT_EQ(events[key].value, key == 2 ? 20u : key == 5 ? 50u : kAbsent);
      EXPECT_EQ(events[key].start, 100);
    }
    // The read of a skipped key ends when the next key was returned.
    EXPECT_EQ(events[3].end, 120);
    EXPECT_EQ(events[reverse ? 9 : 0].end, 110);
    EXPECT_EQ(events[reverse ? 0 : 9].end, 200);
  }
}

TEST(ScanTest, AcceptsEitherStateOfWhatChangesMeanwhile) {
  std::vector<Event> events = ThreeKeys();
  events.push_back(Delete(5, 105, 150));
  events.push_back(Put(7, 70, 105, 150));
  EXPECT_THAT(Problems(ScanOf({{2, 20}, {5, 50}, {8, 80}}), events), IsEmpty());
  EXPECT_THAT(Problems(ScanOf({{2, 20}, {7, 70}, {8, 80}}), events), IsEmpty());
}

TEST(ScanTest, BitesOnAMissingKey) {
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {8, 80}}), ThreeKeys()),
              HasSubstr("there all the time"));
  EXPECT_THAT(OnlyProblem(ScanOf({{8, 80}, {2, 20}}, true), ThreeKeys()),
              HasSubstr("there all the time"));
  // The last key, behind all returned ones.
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {5, 50}}), ThreeKeys()),
              HasSubstr("there all the time"));
  // Deleted only after the scan was past it.
  std::vector<Event> events = ThreeKeys();
  events.push_back(Delete(2, 160, 170));
  EXPECT_THAT(OnlyProblem(ScanOf({{5, 50}, {8, 80}}), events), HasSubstr("there all the time"));
}

TEST(ScanTest, BitesOnAPhantom) {
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {4, 40}, {5, 50}, {8, 80}}), ThreeKeys()),
              HasSubstr("nobody wrote"));
  // Put only after it was returned.
  std::vector<Event> events = ThreeKeys();
  events.push_back(Put(4, 40, 160, 170));
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {4, 40}, {5, 50}, {8, 80}}), events),
              HasSubstr("before it was written"));
}

TEST(ScanTest, BitesOnAnOldValueAndOnAResurrectedKey) {
  std::vector<Event> events = ThreeKeys();
  events.push_back(Put(5, 51, 50, 60));
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {5, 50}, {8, 80}}), events), HasSubstr("superseded"));
  events = ThreeKeys();
  events.push_back(Delete(5, 50, 60));
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {5, 50}, {8, 80}}), events), HasSubstr("superseded"));
}

TEST(ScanTest, BitesOnDuplicatesAndDisorder) {
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {2, 20}, {5, 50}, {8, 80}}), ThreeKeys()),
              HasSubstr("twice"));
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {8, 80}, {5, 50}}), ThreeKeys()),
              HasSubstr("out of order"));
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {5, 50}, {8, 80}}, true), ThreeKeys()),
              HasSubstr("out of order"));
  // Twice, with others in between.
  EXPECT_THAT(OnlyProblem(ScanOf({{2, 20}, {5, 50}, {2, 20}}), ThreeKeys()),
              HasSubstr("out of order"));
}

TEST(ScanTest, BitesOnWhatWasNotAskedFor) {
  Scan scan = ScanOf({{2, 20}, {5, 50}, {8, 80}});
  scan.limit = 2;
  EXPECT_THAT(OnlyProblem(scan, ThreeKeys()), HasSubstr("its limit is 2"));
  scan = ScanOf({{2, 20}, {5, 50}, {8, 80}});
  scan.last = 8;
  EXPECT_THAT(OnlyProblem(scan, ThreeKeys()), HasSubstr("outside of its range"));
  scan.last = 10;
  scan.first = 3;
  EXPECT_THAT(OnlyProblem(scan, ThreeKeys()), HasSubstr("outside of its range"));
}

TEST(ScanTest, ALimitOrAFailureLeavesTheRestOpen) {
  Scan scan = ScanOf({{2, 20}, {5, 50}});
  scan.limit = 2;
  EXPECT_THAT(Problems(scan, ThreeKeys()), IsEmpty());
  scan.limit = 3;
  EXPECT_THAT(OnlyProblem(scan, ThreeKeys()), HasSubstr("there all the time"));
  scan.broken = true;
  EXPECT_THAT(Problems(scan, ThreeKeys()), IsEmpty());
  // But it does speak for keys before the last returned one.
  scan = ScanOf({{5, 50}});
  scan.broken = true;
  EXPECT_THAT(OnlyProblem(scan, ThreeKeys()), HasSubstr("there all the time"));
}

TEST(ScanTest, AcceptsAnEmptyRange) {
  Scan scan = ScanOf({});
  scan.first = 7;
  scan.last = 3;
  EXPECT_THAT(Problems(scan, ThreeKeys()), IsEmpty());
}

}  // namespace
}  // namespace gossamer::history
