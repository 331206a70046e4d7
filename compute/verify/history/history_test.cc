// The checkers on possible histories, which they must accept, and impossible ones, which they must
// reject.
#include "compute/verify/history/history.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>

#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer::history {
namespace {

using ::testing::HasSubstr;

Event Make(OperationKind kind, ValueId value, int64_t start, int64_t end,
           Outcome outcome = Outcome::kDone) {
  return {value, start, end, 7, 0, kind, outcome};
}
Event Get(ValueId value, int64_t start, int64_t end) {
  return Make(OperationKind::kGet, value, start, end);
}
Event Put(ValueId value, int64_t start, int64_t end) {
  return Make(OperationKind::kPut, value, start, end);
}
Event Insert(ValueId value, int64_t start, int64_t end) {
  return Make(OperationKind::kInsert, value, start, end);
}
Event Update(ValueId value, int64_t start, int64_t end) {
  return Make(OperationKind::kUpdate, value, start, end);
}
Event Delete(int64_t start, int64_t end) {
  return Make(OperationKind::kDelete, kAbsent, start, end);
}
Event Modify(ValueId seen, ValueId value, int64_t start, int64_t end) {
  Event event = Make(OperationKind::kModify, value, start, end);
  event.seen = seen;
  return event;
}
Event Erase(int64_t start, int64_t end) { return Make(OperationKind::kErase, kAbsent, start, end); }
Event Expire(ValueId value, int64_t start, int64_t end) {
  Event event = Make(OperationKind::kExpire, kAbsent, start, end);
  event.seen = value;
  return event;
}
Event ScanOfKeys(int64_t start, int64_t end) {
  return Make(OperationKind::kScan, kSomeValue, start, end);
}
Event Refused(OperationKind kind, int64_t start, int64_t end) {
  return Make(kind, kAbsent, start, end, Outcome::kRefused);
}
Event Unknown(OperationKind kind, ValueId value, int64_t start) {
  return Make(kind, value, start, kNever, Outcome::kUnknown);
}

constexpr uint64_t kKinds = kOperationKinds;
constexpr OperationKind kInsertKind = OperationKind::kInsert;
constexpr OperationKind kUpdateKind = OperationKind::kUpdate;
constexpr OperationKind kDeleteKind = OperationKind::kDelete;
constexpr OperationKind kPutKind = OperationKind::kPut;

void ExpectGood(const std::vector<Event>& events) {
  EXPECT_EQ(CheckOrder(events), std::nullopt);
  const Linearizability result = CheckLinearizable(events);
  EXPECT_TRUE(result.decided);
  EXPECT_EQ(result.problem, std::nullopt);
}

// Wrong by the simple rules, and so for the complete check too.
void ExpectBad(const std::vector<Event>& events, const std::string& sentence) {
  const std::optional<std::string> problem = CheckOrder(events);
  ASSERT_TRUE(problem.has_value());
  EXPECT_THAT(*problem, HasSubstr(sentence));
  EXPECT_TRUE(CheckLinearizable(events).problem.has_value());
}

// Wrong in a way that only the complete check finds.
void ExpectNotLinearizable(const std::vector<Event>& events) {
  EXPECT_EQ(CheckOrder(events), std::nullopt);
  const Linearizability result = CheckLinearizable(events);
  EXPECT_TRUE(result.decided);
  EXPECT_TRUE(result.problem.has_value());
}

TEST(HistoryTest, AcceptsWhatOneThreadSees) {
  ExpectGood({});
  ExpectGood({Get(kAbsent, 1, 2), Put(1, 3, 4), Get(1, 5, 6), Put(2, 7, 8), Get(2, 9, 10),
              Refused(kInsertKind, 11, 12), Update(3, 13, 14), Get(3, 15, 16), Delete(17, 18),
              Get(kAbsent, 19, 20), Refused(kDeleteKind, 21, 22), Refused(kUpdateKind, 23, 24),
              Insert(4, 25, 26), Get(4, 27, 28)});
}

TEST(HistoryTest, AcceptsEitherValueWhileTheyOverlap) {
  ExpectGood({Put(1, 1, 2), Put(2, 10, 20), Get(1, 11, 12), Get(2, 13, 14), Get(2, 21, 22)});
  ExpectGood({Put(1, 1, 2), Put(2, 10, 20), Get(2, 11, 12), Get(2, 13, 14)});
  ExpectGood({Put(1, 1, 2), Delete(10, 20), Get(1, 11, 12), Get(kAbsent, 13, 14)});
  // Two writes overlap: later readers may see either one, but all the same one.
  ExpectGood({Put(1, 1, 10), Put(2, 2, 9), Get(1, 11, 12), Get(1, 13, 14)});
  ExpectGood({Put(1, 1, 10), Put(2, 2, 9), Get(2, 11, 12), Get(2, 13, 14)});
}

TEST(HistoryTest, AcceptsOperationsThatTouchInTime) {
  ExpectGood({Put(1, 1, 5), Put(2, 5, 9), Get(1, 9, 10)});
}

TEST(HistoryTest, BitesOnAValueThatNobodyWrote) {
  ExpectBad({Put(1, 1, 2), Get(9, 3, 4)}, "nobody wrote");
  ExpectBad({Put(1, 1, 2), Refused(kInsertKind, 3, 4), Get(9, 5, 6)}, "nobody wrote");
}

TEST(HistoryTest, BitesOnAReadFromTheFuture) {
  ExpectBad({Get(1, 1, 2), Put(1, 3, 4)}, "before it was written");
}

TEST(HistoryTest, BitesOnStaleReads) {
  ExpectBad({Put(1, 1, 2), Put(2, 3, 4), Get(1, 5, 6)}, "superseded");
  ExpectBad({Put(1, 1, 2), Delete(3, 4), Get(1, 5, 6)}, "superseded");
  ExpectBad({Put(1, 1, 2), Delete(3, 4), Make(OperationKind::kScan, 1, 5, 6)}, "superseded");
  // Superseded by the short one of two overlapping writes.
  ExpectBad({Put(1, 1, 2), Put(2, 3, 100), Put(3, 4, 5), Get(1, 6, 7)}, "superseded");
}

TEST(HistoryTest, BitesOnALostWrite) {
  ExpectBad({Put(1, 1, 2), Get(kAbsent, 3, 4)}, "there all the time");
  ExpectBad({Put(1, 1, 2), Refused(kUpdateKind, 3, 4)}, "there all the time");
  ExpectBad({Put(1, 1, 2), Refused(kDeleteKind, 3, 4)}, "there all the time");
  ExpectBad({Put(1, 1, 2), Insert(2, 3, 4)}, "there all the time");
  ExpectBad({Insert(1, 1, 2), Delete(3, 4), Put(2, 5, 6), Get(kAbsent, 7, 8)},
            "there all the time");
}

TEST(HistoryTest, BitesOnAWriteThatIsThereTooEarlyOrTooLong) {
  ExpectBad({Refused(kInsertKind, 1, 2), Put(1, 3, 4)}, "absent all the time");
  ExpectBad({Put(1, 1, 2), Delete(3, 4), Refused(kInsertKind, 5, 6)}, "absent all the time");
  ExpectBad({Put(1, 1, 2), Delete(3, 4), Delete(5, 6)}, "absent all the time");
  ExpectBad({Delete(1, 2)}, "absent all the time");
}

TEST(HistoryTest, BitesOnAnUpdateOfNothing) {
  ExpectNotLinearizable({Update(1, 1, 2)});
  ExpectNotLinearizable({Put(1, 1, 2), Delete(3, 4), Update(2, 5, 6), Get(2, 7, 8)});
}

TEST(HistoryTest, BitesWhenReadersDisagreeOnTheOrder) {
  // The new value, then the old one again, during the write.
  ExpectNotLinearizable({Put(1, 1, 2), Put(2, 10, 20), Get(2, 11, 12), Get(1, 13, 14)});
  // Two overlapping writes, and both values afterwards.
  ExpectNotLinearizable({Put(1, 1, 10), Put(2, 2, 9), Get(1, 11, 12), Get(2, 13, 14)});
  // Present, absent, present again, after one write and one delete.
  ExpectNotLinearizable({Put(1, 1, 2), Delete(10, 20), Get(kAbsent, 11, 12), Get(1, 13, 14)});
}

TEST(HistoryTest, BitesWhenTwoWinWhatOnlyOneCan) {
  ExpectNotLinearizable({Insert(1, 1, 10), Insert(2, 2, 9)});
  ExpectNotLinearizable({Put(1, 1, 2), Delete(3, 10), Delete(4, 9)});
  ExpectGood({Insert(1, 1, 10), Delete(2, 9), Insert(2, 3, 8)});
}

TEST(HistoryTest, AcceptsAWriteThatMayHaveHappenedOnceOrNever) {
  const Event unknown = Unknown(kPutKind, 2, 3);
  ExpectGood({Put(1, 1, 2), unknown, Get(1, 100, 101)});
  ExpectGood({Put(1, 1, 2), unknown, Get(1, 100, 101), Get(2, 102, 103)});
  ExpectGood({Put(1, 1, 2), Unknown(kDeleteKind, kAbsent, 3), Get(kAbsent, 100, 101)});
  ExpectNotLinearizable({Put(1, 1, 2), unknown, Get(2, 100, 101), Get(1, 102, 103)});
  ExpectBad({Get(2, 1, 2), unknown}, "before it was written");
}

TEST(HistoryTest, AWriteOfUnknownOutcomeThatHasAnEndHasHappenedByThenOrNever) {
  const Event lost = Make(OperationKind::kErase, kAbsent, 3, 6, Outcome::kUnknown);
  ExpectGood({Put(1, 1, 2), lost, Get(1, 100, 101)});
  ExpectGood({Put(1, 1, 2), lost, Get(1, 4, 5), Get(kAbsent, 100, 101)});
  ExpectGood({Put(1, 1, 2), lost, Put(2, 5, 8), Get(2, 100, 101)});
  ExpectGood({Put(1, 1, 2), lost, Put(2, 4, 5), Get(kAbsent, 100, 101)});
  ExpectNotLinearizable({Put(1, 1, 2), lost, Get(1, 7, 8), Get(kAbsent, 100, 101)});
  ExpectNotLinearizable({Put(1, 1, 2), lost, Get(kAbsent, 4, 5), Put(2, 6, 7), Get(kAbsent, 8, 9)});
  ExpectBad({Put(1, 1, 2), lost, Put(2, 7, 8), Get(kAbsent, 100, 101)}, "there all the time");
}

TEST(HistoryTest, TakesAModifyForOneStep) {
  ExpectGood({Modify(kAbsent, 1, 1, 2), Modify(1, 2, 3, 4), Modify(2, 2, 5, 6), Get(2, 7, 8),
              Modify(2, kAbsent, 9, 10), Modify(kAbsent, kAbsent, 11, 12), Get(kAbsent, 13, 14)});
  ExpectGood({Put(1, 1, 2), Modify(1, 2, 3, 10), Modify(2, 3, 4, 9), Get(3, 11, 12)});
  // Both replace the same value: one of the two is lost.
  ExpectNotLinearizable({Put(1, 1, 2), Modify(1, 2, 3, 10), Modify(1, 3, 4, 9)});
  // One that keeps the key is a read.
  ExpectNotLinearizable({Put(1, 1, 2), Put(2, 10, 20), Get(2, 11, 12), Modify(1, 1, 13, 14)});
  ExpectBad({Put(1, 1, 2), Put(2, 3, 4), Modify(1, 3, 5, 6)}, "superseded");
  ExpectBad({Put(1, 1, 2), Modify(kAbsent, 2, 3, 4)}, "there all the time");
  ExpectBad({Put(1, 1, 2), Modify(9, 2, 3, 4)}, "nobody wrote");
}

TEST(HistoryTest, AModifyOfUnknownOutcomeFitsOnlyWhatItSaw) {
  Event unknown = Modify(1, 2, 3, kNever);
  unknown.outcome = Outcome::kUnknown;
  ExpectGood({Put(1, 1, 2), unknown, Get(1, 100, 101), Get(2, 102, 103)});
  ExpectGood({Put(1, 1, 2), unknown, Put(3, 10, 11), Get(3, 12, 13)});
  ExpectNotLinearizable({Put(1, 1, 2), unknown, Put(3, 10, 11), Get(3, 12, 13), Get(2, 14, 15)});
}

TEST(HistoryTest, AnEraseLeavesTheKeyAbsentAndSaysNothingElse) {
  ExpectGood({Erase(1, 2), Put(1, 3, 4), Erase(5, 6), Get(kAbsent, 7, 8), Erase(9, 10)});
  ExpectGood({Put(1, 1, 2), Erase(3, 10), Get(1, 4, 5), Get(kAbsent, 6, 7)});
  ExpectBad({Put(1, 1, 2), Erase(3, 4), Get(1, 5, 6)}, "superseded");
  ExpectNotLinearizable({Put(1, 1, 2), Erase(3, 10), Get(kAbsent, 4, 5), Get(1, 6, 7)});
  ExpectGood({Put(1, 1, 2), Unknown(OperationKind::kErase, kAbsent, 3), Get(1, 100, 101),
              Get(kAbsent, 102, 103)});
}

TEST(HistoryTest, AValueIsThereUntilItExpires) {
  ExpectGood({Put(1, 1, 2), Expire(1, 1, 10), Get(1, 3, 4), Get(kAbsent, 11, 12)});
  ExpectGood({Put(1, 1, 2), Expire(1, 1, 10), Get(1, 9, 12), Get(kAbsent, 11, 14)});
  // Who holds the lock may be early.
  ExpectGood({Put(1, 1, 2), Expire(1, 1, 10), Insert(2, 3, 4), Get(2, 11, 12)});
  ExpectGood({Put(1, 1, 2), Expire(1, 1, 10), Put(2, 3, 4), Get(2, 11, 12)});
  // A write that comes late leaves nothing.
  ExpectGood({Put(1, 1, 20), Expire(1, 1, 10), Get(kAbsent, 30, 31)});
  ExpectGood({Put(1, 1, 20), Expire(1, 1, 10), Get(1, 5, 31)});
  ExpectBad({Put(1, 1, 2), Expire(1, 1, 10), Get(1, 11, 12)}, "superseded");
  ExpectBad({Put(1, 1, 20), Expire(1, 1, 10), Get(1, 11, 31)}, "superseded");
  ExpectNotLinearizable({Put(1, 1, 2), Expire(1, 1, 20), Get(kAbsent, 3, 4), Get(1, 5, 6)});
  ExpectNotLinearizable({Put(1, 1, 2), Expire(1, 1, 20), Refused(kUpdateKind, 3, 4), Get(1, 5, 6)});
}

TEST(HistoryTest, AScanOfKeysSeesThatOneIsThere) {
  ExpectGood({Put(1, 1, 2), ScanOfKeys(3, 4), Delete(5, 10), ScanOfKeys(6, 7)});
  ExpectBad({ScanOfKeys(1, 2), Put(1, 3, 4)}, "absent all the time");
  ExpectBad({Put(1, 1, 2), Delete(3, 4), ScanOfKeys(5, 6)}, "absent all the time");
  // The value is one that nobody reads.
  ExpectGood({Unknown(kPutKind, 1, 1), ScanOfKeys(5, 6), Put(2, 7, 8), Get(2, 9, 10)});
  ExpectNotLinearizable({Put(1, 1, 2), Delete(10, 20), Get(kAbsent, 11, 12), ScanOfKeys(13, 14)});
}

TEST(HistoryTest, SaysWhenThereAreTooManyWays) {
  std::vector<Event> events;
  events.reserve(21);
  for (int i = 0; i < 20; ++i) events.push_back(Put(static_cast<ValueId>(i) + 1, i, 1000 - i));
  events.push_back(Get(9, 2000, 2001));
  EXPECT_FALSE(CheckLinearizable(events).decided);
  std::vector<Event> one_key = events;
  EXPECT_EQ(CheckHistory(one_key).undecided_keys, 1u);
}

// Clients that die leave writes of unknown outcome, which stay open to the end.
TEST(HistoryTest, DecidesHistoriesOfManyUnknownWrites) {
  constexpr int kUnknown = 150;
  std::vector<Event> events = {Put(1000, 1, 2)};
  for (int i = 0; i < kUnknown; ++i) {
    const ValueId value = static_cast<ValueId>(i) + 1;
    events.push_back(i % 3 == 0 ? Unknown(kDeleteKind, kAbsent, 10 + i)
                                : Unknown(kPutKind, value, 10 + i));
    events.push_back(Get(1000, 200 + i, 201 + i));
  }
  events.push_back(Get(2, 1000, 1001));
  events.push_back(Get(kAbsent, 1002, 1003));
  events.push_back(Get(3, 1004, 1005));
  ExpectGood(events);
  events.push_back(Get(2, 1006, 1007));
  ExpectNotLinearizable(events);
}

// A batch that died with its client: writes of a key that nobody has read, beside those of others.
TEST(HistoryTest, DecidesHistoriesOfManyUnknownWritesThatNobodyReads) {
  std::vector<Event> events = {Put(1000, 1, 2)};
  for (int i = 0; i < 60; ++i) {
    const ValueId value = static_cast<ValueId>(i) + 1;
    events.push_back(
        Unknown(i % 4 == 3 ? kDeleteKind : kPutKind, i % 4 == 3 ? kAbsent : value, 10));
  }
  // One of the deletes explains each of these, and one of the puts.
  for (int i = 0; i < 10; ++i) {
    events.push_back(Get(kAbsent, 100 + 4 * i, 101 + 4 * i));
    events.push_back(Put(2000 + static_cast<ValueId>(i), 102 + 4 * i, 103 + 4 * i));
  }
  ExpectGood(events);
  for (int i = 0; i < 6; ++i) {
    const ValueId value = 3000 + static_cast<ValueId>(i);
    events.push_back(Put(value, 500 + 4 * i, 501 + 4 * i));
    events.push_back(Get(kAbsent, 502 + 4 * i, 503 + 4 * i));
  }
  ExpectNotLinearizable(events);  // 15 deletes were open, for 16 times that the key was absent
}

TEST(HistoryTest, DecidesHistoriesOfManyReadersAtOnce) {
  std::vector<Event> events = {Put(1, 1, 2), Put(2, 10, 20), Put(3, 11, 19)};
  for (int i = 0; i < 300; ++i) events.push_back(Get(static_cast<ValueId>(i) % 3 + 1, 5, 30 + i));
  ExpectGood(events);
  events.push_back(Get(2, 400, 401));
  ExpectGood(events);
  events.push_back(Get(3, 402, 403));
  ExpectNotLinearizable(events);
}

// Histories of a real map with overlapping operations of many clients are accepted. With one result
// replaced by one from elsewhere, the complete check rejects most of them. (Some are possible: the
// value may have been there just before.) Whatever it rejects, it explains.
class RandomHistory {
 public:
  explicit RandomHistory(uint64_t seed) : random_(seed) {
    ValueId value = kAbsent;
    ValueId next = 1;
    std::vector<int64_t> free_at(kClients, 0);
    int64_t now = 10;
    for (int i = 0; i < kOperations; ++i) {
      // Takes effect now. It began earlier, after its client's last operation, and ends later.
      const size_t client = random_.Below(kClients);
      now += static_cast<int64_t>(random_.Below(10)) + 1;
      const int64_t earliest = free_at[client];
      if (earliest >= now) continue;
      Event event;
      event.client = static_cast<uint16_t>(client);
      event.start = std::max(earliest + 1, now - static_cast<int64_t>(random_.Below(40)));
      event.end = now + static_cast<int64_t>(random_.Below(40));
      free_at[client] = event.end;
      event.kind = static_cast<OperationKind>(random_.Below(kKinds));
      const bool is_absent = value == kAbsent;
      switch (event.kind) {
        case OperationKind::kGet: event.value = value; break;
        case OperationKind::kScan:
          event.value = is_absent || random_.Below(2) == 0 ? value : kSomeValue;
          break;
        case OperationKind::kModify:
          event.seen = value;
          if (random_.Below(3) != 0) value = random_.Below(3) == 0 ? kAbsent : next++;
          event.value = value;
          break;
        case OperationKind::kErase: value = kAbsent; break;
        case OperationKind::kPut: event.value = value = next++; break;
        case OperationKind::kInsert:
          event.outcome = is_absent ? Outcome::kDone : Outcome::kRefused;
          if (is_absent) event.value = value = next++;
          break;
        case OperationKind::kUpdate:
          event.outcome = is_absent ? Outcome::kRefused : Outcome::kDone;
          if (!is_absent) event.value = value = next++;
          break;
        case OperationKind::kDelete:
          event.outcome = is_absent ? Outcome::kRefused : Outcome::kDone;
          value = kAbsent;
          break;
        case OperationKind::kExpire:
          event.seen = random_.Below(2) == 0 ? value : next - 1;
          if (event.seen == kAbsent || !expired_.insert(event.seen).second) continue;
          if (event.seen == value) value = kAbsent;
          break;
      }
      events_.push_back(event);
    }
  }
  std::vector<Event>& events() { return events_; }
  Random& random() { return random_; }

 private:
  static constexpr int kOperations = 300;
  static constexpr size_t kClients = 6;
  Random random_;
  std::vector<Event> events_;
  std::set<ValueId> expired_;
};

TEST(HistoryTest, AcceptsAllHistoriesOfARealMap) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 500; ++i) {
    RandomHistory history(seed + i);
    std::vector<Event>& events = history.events();
    std::shuffle(events.begin(), events.end(), history.random());
    ExpectGood(events);
    if (HasFailure()) return;
  }
}

TEST(HistoryTest, BitesOnMostHistoriesWithOneWrongRead) {
  const uint64_t seed = TestSeed();
  int found = 0;
  constexpr uint64_t kRuns = 300;
  for (uint64_t i = 0; i < kRuns; ++i) {
    RandomHistory history(seed + i);
    std::vector<Event>& events = history.events();
    std::vector<Event*> reads;
    for (Event& event : events) {
      if (event.kind == OperationKind::kGet) reads.push_back(&event);
    }
    Event& one = *reads[history.random().Below(reads.size())];
    const ValueId other = reads[history.random().Below(reads.size())]->value;
    one.value = other == one.value ? one.value + 1 : other;
    const bool bad = CheckLinearizable(events).problem.has_value();
    found += bad ? 1 : 0;
    // A history that breaks the simple rules has no order either.
    if (CheckOrder(events)) {
      EXPECT_TRUE(bad) << "seed " << seed + i;
    }
  }
  EXPECT_GT(found, static_cast<int>(kRuns * 2 / 3));
}

// Tries all orders of a few operations.
bool HasOrder(std::vector<Event> events) {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.client < b.client; });
  do {
    ValueId value = kAbsent;
    bool possible = true;
    int64_t latest_start = 0;
    std::set<ValueId> expired;
    for (const Event& event : events) {
      latest_start = std::max(latest_start, event.start);
      const bool refused = event.outcome == Outcome::kRefused;
      const bool is_absent = value == kAbsent;
      // No operation may come after one that was called after its return.
      possible = possible && event.end >= latest_start;
      switch (event.kind) {
        case OperationKind::kGet:
        case OperationKind::kScan:
          possible = possible && (event.value == kSomeValue ? !is_absent : event.value == value);
          break;
        case OperationKind::kModify:
          possible = possible && event.seen == value;
          value = event.value;
          break;
        case OperationKind::kErase: value = kAbsent; break;
        case OperationKind::kPut: value = event.value; break;
        case OperationKind::kInsert:
          possible = possible && is_absent != refused;
          if (!refused) value = event.value;
          break;
        case OperationKind::kUpdate:
        case OperationKind::kDelete:
          possible = possible && is_absent == refused;
          if (!refused) value = event.kind == OperationKind::kUpdate ? event.value : kAbsent;
          break;
        case OperationKind::kExpire: expired.insert(event.seen); break;
      }
      if (expired.contains(value)) value = kAbsent;
    }
    if (possible) return true;
  } while (std::next_permutation(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.client < b.client;
  }));
  return false;
}

// Tries each unknown write as done and as never done.
bool HasOrderOfSome(const std::vector<Event>& events) {
  const auto unknown = std::find_if(events.begin(), events.end(), [](const Event& event) {
    return event.outcome == Outcome::kUnknown;
  });
  if (unknown == events.end()) return HasOrder(events);
  std::vector<Event> with = events;
  with[static_cast<size_t>(unknown - events.begin())].outcome = Outcome::kDone;
  std::vector<Event> without = events;
  without.erase(without.begin() + (unknown - events.begin()));
  return HasOrderOfSome(with) || HasOrderOfSome(without);
}

TEST(HistoryTest, AgreesWithAllOrdersTriedOneByOne) {
  Random random(TestSeed());
  int possible = 0;
  constexpr int kRuns = 3000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<Event> events;
    const uint64_t count = 2 + random.Below(5);
    for (uint64_t i = 0; i < count; ++i) {
      Event event;
      event.client = static_cast<uint16_t>(i);
      event.start = static_cast<int64_t>(random.Below(30)) + 1;
      event.end = event.start + static_cast<int64_t>(random.Below(20));
      event.kind = static_cast<OperationKind>(random.Below(kKinds));
      const bool is_read = event.kind <= OperationKind::kScan;
      const bool may_be_refused =
          event.kind >= OperationKind::kInsert && event.kind <= OperationKind::kDelete;
      if (event.kind == OperationKind::kExpire) {
        event.seen = 1 + random.Below(count);
        const auto is_same = [&event](const Event& other) {
          return other.kind == OperationKind::kExpire && other.seen == event.seen;
        };
        if (std::ranges::none_of(events, is_same)) events.push_back(event);
        continue;
      }
      if (may_be_refused && random.Below(3) == 0) {
        event.outcome = Outcome::kRefused;
      } else if (is_read) {
        event.value = random.Below(count + 1);
        if (event.kind == OperationKind::kScan && random.Below(3) == 0) event.value = kSomeValue;
      } else if (!Removes(event)) {
        event.value = i + 1;
      }
      if (event.kind == OperationKind::kModify) {
        event.seen = random.Below(count + 1);
        event.value = random.Below(3) == 0 ? kAbsent : random.Below(3) == 0 ? event.seen : i + 1;
      }
      if (!is_read && event.outcome == Outcome::kDone && random.Below(4) == 0) {
        event.outcome = Outcome::kUnknown;
        if (random.Below(2) == 0) event.end = kNever;
      }
      events.push_back(event);
    }
    const bool expected = HasOrderOfSome(events);
    possible += expected ? 1 : 0;
    ASSERT_EQ(!CheckLinearizable(events).problem.has_value(), expected)
        << "run " << run << ": " << testing::PrintToString(events.size()) << " events";
    // The simple rules never reject a possible history.
    if (expected) {
      ASSERT_EQ(CheckOrder(events), std::nullopt);
    }
  }
  EXPECT_GT(possible, kRuns / 50);
  EXPECT_LT(possible, kRuns - kRuns / 50);
}

TEST(HistoryTest, ChecksEachKeyAlone) {
  std::vector<Event> events = {Put(1, 1, 2), Get(1, 3, 4), Put(2, 1, 2), Get(kAbsent, 3, 4)};
  events[2].key = events[3].key = 8;
  const HistoryReport report = CheckHistory(events);
  EXPECT_EQ(report.keys, 2u);
  EXPECT_EQ(report.events, 4u);
  EXPECT_EQ(report.problem_count, 1u);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_THAT(report.problems[0], HasSubstr("key 8"));
}

TEST(HistoryTest, LogsReadBack) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("history-test-{}", TestSeed()))
          .string();
  Result<HistoryWriter> log = HistoryWriter::Create(path);
  ASSERT_TRUE(log) << log.error().ToString();
  constexpr int kEvents = 40'000;
  for (int i = 0; i < kEvents; ++i) log.value().Append(Put(static_cast<ValueId>(i) + 1, i, i + 1));
  ASSERT_TRUE(log.value().Close());
  std::vector<Event> events;
  ASSERT_TRUE(ReadHistory(path, events));
  std::filesystem::remove(path);
  ASSERT_EQ(events.size(), static_cast<size_t>(kEvents));
  EXPECT_EQ(events.back().value, static_cast<ValueId>(kEvents));
  EXPECT_EQ(events.back().end, kEvents);
  EXPECT_EQ(ReadHistory(path, events).error().code, Code::kNotFound);
}

// A process that logs is killed: the operations it had begun are unknown, the ended ones stand.
TEST(HistoryTest, ALogSurvivesItsWriter) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("history-kill-test-{}", TestSeed()))
          .string();
  constexpr int kEvents = 100'000;  // more than a window
  const pid_t writer = fork();
  if (writer == 0) {
    Result<HistoryWriter> log = HistoryWriter::Create(path);
    Event& first = log.value().Begin(Unknown(OperationKind::kPut, 1, 10));
    Event& refused = log.value().Begin(Unknown(OperationKind::kInsert, 2, 20));
    Event& withdrawn = log.value().Begin(Unknown(OperationKind::kPut, 3, 30));
    log.value().Begin(Unknown(OperationKind::kPut, 4, 40));
    for (int i = 0; i < kEvents; ++i) log.value().Append(Get(1, i, i + 1));
    HistoryWriter::End(first, 11, Outcome::kDone);
    HistoryWriter::End(refused, 21, Outcome::kRefused);
    HistoryWriter::Withdraw(withdrawn);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_TRUE(WIFSIGNALED(status));
  std::vector<Event> events;
  ASSERT_TRUE(ReadHistory(path, events));
  std::filesystem::remove(path);
  ASSERT_EQ(events.size(), static_cast<size_t>(kEvents) + 3);
  EXPECT_EQ(ToString(events[0]), "client 0 put #1 [10, 11]");
  EXPECT_EQ(ToString(events[1]), "client 0 insert refused [20, 21]");
  EXPECT_EQ(ToString(events[2]), "client 0 put unknown #4 [40, -]");
  EXPECT_EQ(ToString(events.back()), ToString(Get(1, kEvents - 1, kEvents)));
}

}  // namespace
}  // namespace gossamer::history
