// Large hashes and sets: their forms, what others do meanwhile, and the garbage of those that are
// gone. Over a store whose operations end in random order, and whose clock the test sets.
#include "compute/gateway/worker/large_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "compute/gateway/worker/change_run.h"
#include "compute/gateway/worker/key_move.h"
#include "compute/gateway/worker/large_records.h"
#include "compute/testing/fake_store.h"

namespace gossamer::gateway {
namespace {

using State = LargeHeader::State;
using Words = std::vector<std::string>;

class LargeRunTest : public testing::TestWithParam<uint64_t> {
 protected:
  LargeRunTest() {
    store_.state().seed = GetParam();
    session_ = store_.NewSession().value();
  }

  // Commands on one key, as a transaction does them. Returns the replies, one behind the other.
  Task<std::string> Do(std::vector<Words> commands) {
    std::vector<ValueChange> changes(commands.size());
    std::vector<std::vector<std::string_view>> views;
    for (const Words& one : commands) views.emplace_back(one.begin(), one.end());
    for (size_t i = 0; i < commands.size(); ++i) {
      const std::string refusal = changes[i].Parse(*FindCommand(views[i][0]), views[i], false);
      EXPECT_EQ(refusal, "");
    }
    std::vector<KeyChanges> groups;
    groups.emplace_back(changes[0], ChangeTerms{store_.state().time_ms, 250}, memory_);
    for (size_t i = 1; i < changes.size(); ++i) groups[0].Add(changes[i]);
    ChangeRun run;
    co_await run.Run(*session_, groups);
    std::string out;
    for (const ValueChange& one : changes) {
      EXPECT_TRUE(one.result);
      ReplyWriter reply(out, false);
      if (one.result) one.Answer(reply);
    }
    co_return out;
  }
  Task<std::string> DoOne(Words words) {
    std::vector<Words> commands(1);
    commands[0] = std::move(words);
    co_return co_await Do(std::move(commands));
  }
  Task<void> DoInto(std::vector<Words> commands, std::string& out) {
    out = co_await Do(std::move(commands));
  }
  std::string Run(const Words& words) { return RunAll({words}); }
  std::string RunAll(std::vector<Words> commands) {
    std::string out;
    session_->Spawn(DoInto(std::move(commands), out));
    session_->WaitAll();
    return out;
  }
  Task<std::string> Move(Words words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    Result<KeyMove> move = KeyMove::Parse(*FindCommand(views[0]), views);
    std::string out;
    co_await move.value().Run(*session_, out, false);
    co_return out;
  }
  std::string RunMove(const Words& words) {
    std::string out;
    const auto run = [&]() -> Task<void> { out = co_await Move(words); };
    session_->Spawn(run());
    session_->WaitAll();
    return out;
  }
  LargeSweep Sweep() {
    LargeSweep done;
    const auto run = [&]() -> Task<void> {
      const Result<LargeSweep> result = co_await SweepLarge(*session_, [] { return true; });
      EXPECT_TRUE(result);
      if (result) done = result.value();
    };
    session_->Spawn(run());
    session_->WaitAll();
    return done;
  }
  // HSET of so many fields, f0 and on, of 100 bytes each.
  static Words Fields(const std::string& key, int count) {
    Words words{"hset", key};
    for (int i = 0; i < count; ++i) {
      words.push_back("f" + std::to_string(i));
      words.emplace_back(100, 'v');
    }
    return words;
  }
  // HDEL of these.
  static Words Removal(const std::string& key, int count) {
    Words words{"hdel", key};
    for (int i = 0; i < count; ++i) words.push_back("f" + std::to_string(i));
    return words;
  }
  std::optional<LargeHeader> Header(const std::string& key) {
    const Result<ExpiringValue> found = session_->GetWithExpiry(key);
    if (!found) return std::nullopt;
    std::optional<LargeHeader> header = ParseLargeHeader(found.value().value, found.value().expiry);
    if (header) header->items = {};
    return header;
  }
  std::optional<LargeRecord> Record(uint64_t id) {
    const Result<std::string> found = session_->Get(RecordKeyOf(id));
    return found ? LargeRecord::Parse(found.value()) : std::nullopt;
  }
  size_t CountReserved() {
    ScanOptions options;
    options.prefix = kReserved;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    size_t count = 0;
    while (cursor->Next()) ++count;
    return count;
  }
  void Wait(uint64_t ms) { store_.state().time_ms += ms; }

  FakeStore store_;
  std::unique_ptr<Session> session_;
  ChangeMemory memory_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, LargeRunTest, testing::Range<uint64_t>(1, 9));

TEST_P(LargeRunTest, AHashThatGrowsGetsAKeyForEachField) {
  EXPECT_EQ(Run(Fields("h", 200)), ":200\r\n");
  EXPECT_FALSE(Header("h"));
  EXPECT_EQ(Run(Fields("h", 400)), ":200\r\n");
  const std::optional<LargeHeader> header = Header("h");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->state, State::kOpen);
  EXPECT_EQ(CountReserved(), 401u);
  EXPECT_EQ(Record(header->id)->keys, std::vector<std::string>{"h"});
  EXPECT_EQ(session_->Get(ItemKeyOf(header->id, "f399")).value(), std::string(100, 'v'));

  EXPECT_EQ(Run({"hset", "h", "new", "1", "f0", "0", "new", "2"}), ":1\r\n");
  EXPECT_EQ(Run({"hmget", "h", "new", "f0", "none"}), "*3\r\n$1\r\n2\r\n$1\r\n0\r\n$-1\r\n");
  EXPECT_EQ(Run({"hincrby", "h", "new", "40"}), ":42\r\n");
  EXPECT_EQ(Run({"hincrby", "h", "f1", "1"}), "-ERR hash value is not an integer\r\n");
  EXPECT_EQ(Run({"hincrbyfloat", "h", "new", "0.5"}), "$4\r\n42.5\r\n");
  EXPECT_EQ(Run({"hsetnx", "h", "new", "1"}), ":0\r\n");
  EXPECT_EQ(Run({"hdel", "h", "new", "none", "new"}), ":1\r\n");
  EXPECT_EQ(Run({"hlen", "h"}), ":400\r\n");
  EXPECT_EQ(Run({"sadd", "h", "a"}), "-" + std::string(kWrongType) + "\r\n");
  EXPECT_EQ(Run({"scard", "h"}), "-" + std::string(kWrongType) + "\r\n");
  EXPECT_EQ(Run({"append", "h", "a"}), "-" + std::string(kWrongType) + "\r\n");
  EXPECT_EQ(Run({"expire", "h", "100"}), ":1\r\n");
  EXPECT_EQ(Run({"persist", "h"}), ":1\r\n");
  // As a transaction: one after the other.
  EXPECT_EQ(RunAll({{"hset", "h", "n", "1"}, {"hincrby", "h", "n", "1"}, {"hget", "h", "n"}}),
            ":1\r\n:2\r\n$1\r\n2\r\n");
  EXPECT_EQ(RunAll({{"hlen", "h"}, {"expire", "h", "9"}, {"getdel", "h"}, {"hdel", "h", "n"}}),
            ":401\r\n:1\r\n-" + std::string(kWrongType) + "\r\n:1\r\n");
  EXPECT_EQ(RunAll({{"set", "h", "s"}, {"hget", "h", "n"}}),
            "+OK\r\n-" + std::string(kWrongType) + "\r\n");
}

TEST_P(LargeRunTest, AHashThatIsTooLongForOneValueIsFilledFirst) {
  EXPECT_EQ(Run(Fields("h", 100)), ":100\r\n");
  Words words = Fields("h", 12'000);
  EXPECT_EQ(Run(words), ":11900\r\n");
  EXPECT_EQ(Run({"hlen", "h"}), ":12000\r\n");
  EXPECT_EQ(Header("h")->state, State::kOpen);
  EXPECT_EQ(Run(Fields("g", 12'000)), ":12000\r\n");
  EXPECT_EQ(Run({"hlen", "g"}), ":12000\r\n");
}

TEST_P(LargeRunTest, NamesThatAreTooLongForKeysStaySmall) {
  Words words{"hset", "h"};
  for (int i = 0; i < 100; ++i) {
    words.push_back(std::string(1000, 'n') + std::to_string(i));
    words.emplace_back("v");
  }
  EXPECT_EQ(Run(words), ":100\r\n");
  EXPECT_FALSE(Header("h"));
  EXPECT_EQ(Run({"hget", "h", words[2]}), "$1\r\nv\r\n");
}

// A compute server ends while it fills.
TEST_P(LargeRunTest, OthersFillWhatNobodyFillsAnyMore) {
  std::optional<CompositeEdit> edit = CompositeEdit::Of(CompositeType::kHash, std::nullopt);
  edit->Set("a", "1");
  edit->Set("b", "2");
  const std::string items = edit->Encode();
  const LargeHeader dead{.type = CompositeType::kHash,
                         .state = State::kFilling,
                         .id = 7,
                         .nonce = 0,
                         .since_ms = store_.state().time_ms,
                         .items = items};
  const Expiry at = Expiry::At(store_.state().time_ms + 1'000'000);
  ASSERT_TRUE(session_->Put("h", dead.Encode(), at.OfComposite()));
  // It may have come so far.
  const LargeRecord record{
      .is_dead = false, .since_ms = dead.since_ms, .version = 0, .keys = {"h"}};
  ASSERT_TRUE(session_->Put(RecordKeyOf(7), record.Encode()));
  ASSERT_TRUE(session_->Put(ItemKeyOf(7, "a"), "1"));
  EXPECT_EQ(Run({"hget", "h", "b"}), "$1\r\n2\r\n") << "reads do not wait";
  EXPECT_EQ(Run({"hlen", "h"}), ":2\r\n");

  std::string out;
  session_->Spawn(DoInto({{"hset", "h", "c", "3"}}, out));
  for (int i = 0; i < 100; ++i) session_->Poll();
  EXPECT_EQ(out, "");
  Wait(kFillPatienceMs);
  session_->WaitAll();
  EXPECT_EQ(out, ":1\r\n");
  const std::optional<LargeHeader> now = Header("h");
  ASSERT_TRUE(now);
  EXPECT_NE(now->id, 7u);
  EXPECT_EQ(now->state, State::kOpen);
  EXPECT_EQ(session_->GetWithExpiry("h").value().expiry.OfPlain(), at);
  EXPECT_EQ(Run({"hmget", "h", "a", "b", "c"}), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
  Wait(kRecordPatienceMs);
  const LargeSweep swept = Sweep();
  EXPECT_EQ(swept.collected, 1u);
  EXPECT_EQ(swept.items, 1u);
  EXPECT_EQ(CountReserved(), 4u);
}

TEST_P(LargeRunTest, AnEmptiedHashIsAbsent) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  EXPECT_EQ(Run(all), ":400\r\n");
  const std::optional<LargeHeader> header = Header("h");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->state, State::kPerhapsEmpty);
  EXPECT_EQ(Run({"hset", "h", "a", "1"}), ":1\r\n") << "it is filled again at once";
  EXPECT_EQ(Header("h")->state, State::kOpen);
  EXPECT_EQ(Run({"hdel", "h", "a"}), ":1\r\n");

  // What wants it to be absent waits until nobody is in the middle of adding a field.
  std::string out;
  session_->Spawn(DoInto({{"setnx", "h", "s"}}, out));
  for (int i = 0; i < 100; ++i) session_->Poll();
  EXPECT_EQ(out, "");
  Wait(kSettlingMs);
  session_->WaitAll();
  EXPECT_EQ(out, ":1\r\n");
  EXPECT_EQ(session_->Get("h").value(), "s");

  Run(Fields("g", 400));
  all[1] = "g";
  Run(all);
  Wait(kSettlingMs);
  EXPECT_EQ(Run({"sadd", "g", "m"}), ":1\r\n") << "another type";
  EXPECT_EQ(Run({"del", "g"}), ":1\r\n");
}

TEST_P(LargeRunTest, TheSweepDeletesAnEmptiedHashInTime) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  Run(all);
  const uint64_t id = Header("h")->id;
  Wait(kEmptyPatienceMs - 1);
  Sweep();
  ASSERT_TRUE(Header("h"));
  // Somebody who has read the header before adds a field now.
  ASSERT_TRUE(session_->Put(ItemKeyOf(id, "late"), "1"));
  Wait(1);
  Sweep();
  ASSERT_TRUE(Header("h"));
  EXPECT_EQ(Header("h")->state, State::kOpen);
  EXPECT_EQ(Run({"hget", "h", "late"}), "$1\r\n1\r\n");
  EXPECT_EQ(Run({"hdel", "h", "late"}), ":1\r\n");
  Wait(kEmptyPatienceMs);
  Sweep();
  EXPECT_FALSE(Header("h"));
  Sweep();
  EXPECT_EQ(CountReserved(), 0u);
}

TEST_P(LargeRunTest, TheSweepDeletesWhatNoHeaderNames) {
  Run(Fields("gone", 400));
  Run(Fields("stays", 400));
  Run(Fields("overwritten", 400));
  Run(Fields("expires", 400));
  EXPECT_EQ(Run({"del", "gone"}), ":1\r\n");
  EXPECT_EQ(Run({"set", "overwritten", "s"}), "+OK\r\n");
  EXPECT_EQ(Run({"pexpire", "expires", "10"}), ":1\r\n");
  const uint64_t late = 12345;
  ASSERT_TRUE(session_->Put(ItemKeyOf(late, "x"), "1"));
  LargeSweep swept = Sweep();
  EXPECT_EQ(swept.composites, 5u);
  EXPECT_EQ(swept.collected, 1u) << "whose record has been deleted before";
  Wait(kRecordPatienceMs);
  swept = Sweep();
  EXPECT_EQ(swept.collected, 3u);
  EXPECT_EQ(swept.items, 1200u);
  EXPECT_EQ(CountReserved(), 401u);
  EXPECT_EQ(Run({"hlen", "stays"}), ":400\r\n");
  EXPECT_EQ(Sweep().collected, 0u);
}

TEST_P(LargeRunTest, ARenamedHashKeepsItsItems) {
  Run(Fields("a", 400));
  Run({"expire", "a", "100000"});
  const uint64_t id = Header("a")->id;
  EXPECT_EQ(RunMove({"rename", "a", "b"}), "+OK\r\n");
  EXPECT_FALSE(Header("a"));
  EXPECT_EQ(Header("b")->id, id);
  EXPECT_EQ(Record(id)->keys, std::vector<std::string>{"b"});
  EXPECT_FALSE(session_->GetWithExpiry("b").value().expiry.is_never());
  EXPECT_EQ(RunMove({"copy", "b", "c"}), ":1\r\n");
  EXPECT_NE(Header("c")->id, id);
  EXPECT_EQ(Run({"hset", "b", "f0", "changed"}), ":0\r\n");
  EXPECT_EQ(Run({"hget", "c", "f0"}), "$100\r\n" + std::string(100, 'v') + "\r\n");
  EXPECT_EQ(Run({"hlen", "c"}), ":400\r\n");
  EXPECT_EQ(RunMove({"renamenx", "b", "c"}), ":0\r\n");
  Wait(kRecordPatienceMs);
  Sweep();
  EXPECT_EQ(Record(id)->keys, std::vector<std::string>{"b"});
  EXPECT_EQ(Run({"hlen", "b"}), ":400\r\n");
  EXPECT_EQ(Run({"hlen", "c"}), ":400\r\n");
}

// A compute server ends in the middle of RENAME: the sweep ends it.
TEST_P(LargeRunTest, ARenameThatEndsInItsMiddleIsEnded) {
  Run(Fields("a", 400));
  const LargeHeader header = *Header("a");
  LargeRecord record = *Record(header.id);
  record.keys.emplace_back("b");
  ASSERT_TRUE(session_->Put(RecordKeyOf(header.id), record.Encode()));
  const Result<ExpiringValue> stored = session_->GetWithExpiry("a");
  ASSERT_TRUE(session_->Put("b", stored.value().value, stored.value().expiry));
  Sweep();
  EXPECT_TRUE(Header("a")) << "it may go on";
  Wait(kRecordPatienceMs);
  Sweep();
  EXPECT_FALSE(Header("a"));
  EXPECT_EQ(Run({"hlen", "b"}), ":400\r\n");
  EXPECT_EQ(Record(header.id)->keys, std::vector<std::string>{"b"});
}

// Hashes that are renamed to and fro, beside sweeps and a clock that runs: nothing is lost.
TEST_P(LargeRunTest, SweepsLeaveAloneWhatIsRenamed) {
  Run(Fields("a", 400));
  bool has_ended = false;
  const auto rename = [&]() -> Task<void> {
    for (int i = 0; i < 60; ++i) {
      Words words{"rename", i % 2 == 0 ? "a" : "b", i % 2 == 0 ? "b" : "a"};
      const std::string out = co_await Move(std::move(words));
      EXPECT_EQ(out, "+OK\r\n");
    }
    has_ended = true;
  };
  const auto sweep = [&]() -> Task<void> {
    while (!has_ended) {
      Wait(kRecordPatienceMs / 3);
      const Result<LargeSweep> swept = co_await SweepLarge(*session_, [] { return true; });
      EXPECT_TRUE(swept);
    }
  };
  session_->Spawn(rename());
  session_->Spawn(sweep());
  session_->Spawn(sweep());
  session_->WaitAll();
  EXPECT_EQ(Run({"hlen", "a"}), ":400\r\n");
  EXPECT_FALSE(Header("b"));
}

// Increments from many clients, while the hash grows from one form into the other.
TEST_P(LargeRunTest, NoIncrementIsLostWhileAHashBecomesLarge) {
  Run(Fields("h", 270));
  EXPECT_FALSE(Header("h"));
  Random random(GetParam());
  std::vector<int64_t> sums(20);
  const auto work = [&](int client) -> Task<void> {
    for (int i = 0; i < 60; ++i) {
      const size_t field = random.Below(sums.size());
      const int64_t by = static_cast<int64_t>(random.Below(100));
      sums[field] += by;
      const std::string name = "n" + std::to_string(field);
      Words words{"hincrby", "h", name, std::to_string(by)};
      co_await DoOne(std::move(words));
      const std::string own = "c" + std::to_string(client) + "." + std::to_string(i);
      words = {"hset", "h", own, std::string(100, 'w')};
      const std::string set = co_await DoOne(std::move(words));
      EXPECT_EQ(set, ":1\r\n");
      words = {"hget", "h", own};
      const std::string got = co_await DoOne(std::move(words));
      EXPECT_EQ(got, "$100\r\n" + std::string(100, 'w') + "\r\n");
      if (i % 7 != 0) continue;
      words = {"hdel", "h", own};
      const std::string removed = co_await DoOne(std::move(words));
      EXPECT_EQ(removed, ":1\r\n");
    }
  };
  for (int client = 0; client < 6; ++client) session_->Spawn(work(client));
  session_->WaitAll();
  ASSERT_TRUE(Header("h"));
  size_t fields = 270 + 6 * (60 - 9);
  for (size_t i = 0; i < sums.size(); ++i) {
    const Result<std::string> value =
        session_->Get(ItemKeyOf(Header("h")->id, "n" + std::to_string(i)));
    EXPECT_EQ(value ? value.value() : "0", std::to_string(sums[i])) << i;
    fields += value ? 1 : 0;
  }
  EXPECT_EQ(Run({"hlen", "h"}), ":" + std::to_string(fields) + "\r\n");
  Wait(kRecordPatienceMs);
  Sweep();
  EXPECT_EQ(CountReserved(), fields + 1);
}

TEST_P(LargeRunTest, SetsArePoppedAndDrawn) {
  Words words{"sadd", "s"};
  for (int i = 0; i < 600; ++i) words.push_back("m" + std::to_string(i) + std::string(80, 'x'));
  EXPECT_EQ(Run(words), ":600\r\n");
  ASSERT_TRUE(Header("s"));
  EXPECT_EQ(Run(words), ":0\r\n");
  EXPECT_EQ(Run({"sismember", "s", words[2]}), ":1\r\n");
  EXPECT_EQ(Run({"smismember", "s", words[2], "none"}), "*2\r\n:1\r\n:0\r\n");
  EXPECT_THAT(Run({"srandmember", "s", "5"}), testing::StartsWith("*5\r\n"));
  EXPECT_THAT(Run({"srandmember", "s", "-700"}), testing::StartsWith("*700\r\n"));
  EXPECT_THAT(Run({"srandmember", "s", "700"}), testing::StartsWith("*600\r\n"));
  EXPECT_THAT(Run({"srandmember", "s"}), testing::StartsWith("$"));
  EXPECT_THAT(Run({"spop", "s"}), testing::StartsWith("$"));
  EXPECT_THAT(Run({"spop", "s", "9"}), testing::StartsWith("*9\r\n"));
  EXPECT_EQ(Run({"scard", "s"}), ":590\r\n");
  EXPECT_THAT(Run({"spop", "s", "1000"}), testing::StartsWith("*590\r\n"));
  EXPECT_EQ(Header("s")->state, State::kPerhapsEmpty);
  EXPECT_EQ(Run({"spop", "s"}), "$-1\r\n");
}

// ---- Attacks. Each says what users were promised.

// RENAME to a key that is too long is refused, and must leave the hash as it is.
TEST_P(LargeRunTest, AttackRenameToATooLongKeyKeepsTheHash) {
  Run(Fields("h", 400));
  const uint64_t id = Header("h")->id;
  const std::string out = RunMove({"rename", "h", std::string(300, 'x')});
  EXPECT_THAT(out, testing::StartsWith("-"));
  EXPECT_TRUE(Record(id)) << "the record can be read no more";
  Sweep();
  EXPECT_EQ(Run({"hlen", "h"}), ":400\r\n");
}

// Two clients rename to and fro. The first one's ForgetLargeKey comes after the second one's RENAME
// back: no key is left in the record, and the sweep deletes the items of a hash that is there.
TEST_P(LargeRunTest, AttackTwoClientsRenameToAndFro) {
  Run(Fields("a", 400));
  const auto rename = [&](std::string from, std::string to) -> Task<void> {
    int done = 0;
    for (int i = 0; i < 5000 && done < 40; ++i) {
      Words words{"rename", from, to};
      const std::string out = co_await Move(std::move(words));
      done += out == "+OK\r\n" ? 1 : 0;
    }
  };
  session_->Spawn(rename("a", "b"));
  session_->Spawn(rename("b", "a"));
  session_->WaitAll();
  const std::string key = Header("a") ? "a" : "b";
  ASSERT_TRUE(Header(key));
  EXPECT_THAT(Record(Header(key)->id)->keys, testing::Contains(key));
  Wait(kRecordPatienceMs);
  Sweep();
  const std::string other = key == "a" ? "b" : "a";
  EXPECT_TRUE(Run({"hlen", key}) == ":400\r\n" || Run({"hlen", other}) == ":400\r\n")
      << Run({"hlen", key}) << Run({"hlen", other});
}

// The same by hand: RENAME a b is at its last step, when somebody renames b to a.
TEST_P(LargeRunTest, AttackALateForgetOfARenamedKey) {
  Run(Fields("a", 400));
  const uint64_t id = Header("a")->id;
  EXPECT_EQ(RunMove({"rename", "a", "b"}), "+OK\r\n");  // but for its ForgetLargeKey(a)
  const uint64_t version = Record(id)->version - 1;
  EXPECT_EQ(RunMove({"rename", "b", "a"}), "+OK\r\n");
  const auto forget = [&]() -> Task<void> {
    const Status status = co_await ForgetLargeKey(*session_, id, "a", version);
    EXPECT_TRUE(status);
  };
  session_->Spawn(forget());
  session_->WaitAll();
  Wait(kRecordPatienceMs);
  Sweep();
  EXPECT_EQ(Run({"hlen", "a"}), ":400\r\n");
}

// Two clients rename one key to two others, and both are told OK.
TEST_P(LargeRunTest, AttackOneKeyIsRenamedToTwo) {
  for (int i = 0; i < 20; ++i) {
    const std::string from = "a" + std::to_string(i);
    Run(Fields(from, 300 + i));
    std::string b;
    std::string c;
    const auto rename = [&](std::string to, std::string& out) -> Task<void> {
      Words words{"rename", from, to};
      out = co_await Move(std::move(words));
    };
    const std::string to_b = "b" + std::to_string(i);
    const std::string to_c = "c" + std::to_string(i);
    Run(Fields(from, 400));
    session_->Spawn(rename(to_b, b));
    session_->Spawn(rename(to_c, c));
    session_->WaitAll();
    EXPECT_FALSE(b == "+OK\r\n" && c == "+OK\r\n") << "both";
    const std::optional<LargeHeader> hb = Header(to_b);
    const std::optional<LargeHeader> hc = Header(to_c);
    EXPECT_FALSE(hb && hc && hb->id == hc->id) << "two keys are one hash";
    if (!hb || !hc || hb->id != hc->id) continue;
    // Acknowledged writes, to either.
    EXPECT_EQ(Run({"hset", to_b, "nb", "1"}), ":1\r\n");
    EXPECT_EQ(Run({"hset", to_c, "nc", "1"}), ":1\r\n");
    EXPECT_EQ(Run({"hget", to_b, "nc"}), "$-1\r\n");
    Wait(kRecordPatienceMs);
    Sweep();
    EXPECT_EQ(Run({"hget", to_b, "nb"}), "$1\r\n1\r\n");
    EXPECT_EQ(Run({"hget", to_c, "nc"}), "$1\r\n1\r\n");
  }
}

// Somebody removes the last item while RENAME goes on, and somebody adds one.
TEST_P(LargeRunTest, AttackRenameBesideRemovals) {
  for (int i = 0; i < 20; ++i) {
    const std::string from = "a" + std::to_string(i);
    const std::string to = "b" + std::to_string(i);
    Run(Fields(from, 400));
    Words all{"hdel", from};
    for (int field = 1; field < 400; ++field) all.push_back("f" + std::to_string(field));
    Run(all);
    std::string renamed;
    std::string removed;
    const auto rename = [&]() -> Task<void> {
      Words words{"rename", from, to};
      renamed = co_await Move(std::move(words));
    };
    session_->Spawn(rename());
    session_->Spawn(DoInto({{"hdel", from, "f0"}}, removed));
    session_->WaitAll();
    if (renamed != "+OK\r\n") continue;
    EXPECT_EQ(Run({"hset", to, "new", "1"}), ":1\r\n");
    EXPECT_FALSE(Header(from)) << "it was renamed";
    EXPECT_EQ(Run({"hget", from, "new"}), "$-1\r\n") << "an alias";
  }
}

// HDEL of an emptied hash opens it.
TEST_P(LargeRunTest, AttackAnEmptiedHashIsStillAbsentBehindHdel) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  EXPECT_EQ(Run(all), ":400\r\n");
  EXPECT_EQ(Run({"hdel", "h", "f0"}), ":0\r\n");
  EXPECT_EQ(Header("h")->state, State::kPerhapsEmpty);
  for (int i = 0; i < 3; ++i) {
    Wait(kEmptyPatienceMs);
    Sweep();
  }
  EXPECT_FALSE(Header("h")) << "it is there for ever";
}

// An emptied hash is absent: what is made anew under its key lasts.
TEST_P(LargeRunTest, AttackAnEmptiedHashLeavesItsTimeToLive) {
  Run(Fields("h", 400));
  Run({"expire", "h", "100"});
  Words all = Removal("h", 400);
  Run(all);
  EXPECT_EQ(Run({"hset", "h", "a", "1"}), ":1\r\n");
  EXPECT_EQ(Run({"ttl", "h"}), ":-1\r\n");
  Wait(101'000);
  EXPECT_EQ(Run({"hget", "h", "a"}), "$1\r\n1\r\n");
}

// Commands on an emptied hash that come together with one that fills it.
TEST_P(LargeRunTest, AttackAnEmptiedHashInAPipeline) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  Run(all);
  Wait(kSettlingMs);
  EXPECT_EQ(RunAll({{"expire", "h", "100"}, {"hset", "h", "a", "1"}}), ":0\r\n:1\r\n");
  EXPECT_EQ(Run({"ttl", "h"}), ":-1\r\n");
}

// One command is refused, since its hash would be too long; the others of the batch are done.
TEST_P(LargeRunTest, AttackARefusedCommandLeavesTheOthers) {
  Run({"hset", "h", std::string(300, 'n'), "1"});
  const std::string out =
      RunAll({{"hset", "h", "a", "1"}, Fields("h", 12'000), {"hset", "h", "b", "1"}});
  EXPECT_THAT(out, testing::StartsWith(":1\r\n-ERR"));
  EXPECT_EQ(Run({"hget", "h", "a"}), "$1\r\n1\r\n");
  EXPECT_EQ(Run({"hget", "h", "b"}), "$1\r\n1\r\n");
  Run({"set", "s", "string"});
  const std::string deleted = RunAll({{"getdel", "s"}, Fields("s", 12'000)});
  EXPECT_THAT(deleted, testing::StartsWith("$6\r\nstring\r\n"));
  EXPECT_FALSE(session_->Get("s")) << "GETDEL was acknowledged";
}

// Compute servers that end at some step leave no key that is there for ever and has no items.
TEST_P(LargeRunTest, AttackCrashesLeaveNoEmptyHash) {
  // Behind the removal of the last item, before that is noted.
  Run(Fields("h", 400));
  const uint64_t id = Header("h")->id;
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(session_->Delete(ItemKeyOf(id, "f" + std::to_string(i))));
  }
  for (int i = 0; i < 5; ++i) {
    Wait(kRecordPatienceMs);
    Sweep();
  }
  EXPECT_FALSE(Header("h"));
  EXPECT_EQ(Run({"setnx", "h", "1"}), ":1\r\n");
}

// All members of a set, which are no more than COUNT.
TEST_P(LargeRunTest, AttackDrawnMembersAreAllOfASmallSet) {
  Words words{"sadd", "s"};
  for (int i = 0; i < 600; ++i) words.push_back("m" + std::to_string(i) + std::string(80, 'x'));
  Run(words);
  Words removal{"srem", "s"};
  removal.insert(removal.end(), words.begin() + 18, words.end());
  Run(removal);
  EXPECT_EQ(Run({"scard", "s"}), ":16\r\n");
  int fewer = 0;
  for (int i = 0; i < 100; ++i) {
    fewer += Run({"srandmember", "s", "16"}).starts_with("*16\r\n") ? 0 : 1;
  }
  EXPECT_EQ(fewer, 0);
}

// An emptied hash is absent for RENAMENX, COPY and MSETNX as well.
TEST_P(LargeRunTest, AttackAnEmptiedHashIsAbsentForMoves) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  Run(all);
  for (const Words& words :
       {Words{"copy", "s", "h"}, Words{"msetnx", "h", "1"}, Words{"renamenx", "s", "h"}}) {
    Run({"del", "h"});
    Run(Fields("h", 400));
    Run(all);
    Wait(kSettlingMs);
    Run({"set", "s", "1"});
    EXPECT_EQ(RunMove(words), ":1\r\n") << words[0];
  }
}

// HSCAN with a wrong option is refused in both forms.
TEST_P(LargeRunTest, AttackWrongOptionsOfScans) {
  Run({"hset", "small", "a", "1"});
  Run(Fields("h", 400));
  EXPECT_EQ(Run({"hscan", "small", "0", "count", "0"}), "-ERR syntax error\r\n");
  EXPECT_EQ(Run({"hscan", "h", "0", "count", "0"}), "-ERR syntax error\r\n");
}

// A compute server is held up between the read of the header and the item: it does not say that it
// has set the item, when others have relied on that there is none.
TEST_P(LargeRunTest, AHeldUpWriterLooksAgain) {
  for (int polls = 1; polls < 60; polls += 3) {
    Run(Fields("h", 400));
    std::vector<ValueChange> changes(1);
    const Words words{"hset", "h", "late", "1"};
    const std::vector<std::string_view> views(words.begin(), words.end());
    EXPECT_EQ(changes[0].Parse(*FindCommand("hset"), views, false), "");
    std::vector<KeyChanges> groups;
    groups.emplace_back(changes[0], ChangeTerms{store_.state().time_ms, 250}, memory_);
    ChangeRun run;
    session_->Spawn(run.Run(*session_, groups));
    size_t tasks = 1;
    for (int i = 0; i < polls && tasks != 0; ++i) tasks = session_->Poll();
    if (tasks == 0) break;  // it has ended before
    Wait(2 * kSettlingMs);
    // By another client, at once.
    const std::unique_ptr<Session> other = store_.NewSession().value();
    ASSERT_TRUE(other->Delete("h"));
    ASSERT_TRUE(other->Insert("h", "s"));
    session_->WaitAll();
    if (changes[0].result) {
      std::string out;
      ReplyWriter reply(out, false);
      changes[0].Answer(reply);
      EXPECT_EQ(out, "-" + std::string(kWrongType) + "\r\n") << polls;
    } else {
      EXPECT_EQ(changes[0].result.error().code, Code::kMaybeApplied);
    }
    ASSERT_TRUE(session_->Delete("h"));
  }
}

// RENAMENX to keys that are there leaves no trace.
TEST_P(LargeRunTest, AttackRefusedRenamesLeaveTheRecordShort) {
  Run(Fields("h", 400));
  const uint64_t id = Header("h")->id;
  for (int i = 0; i < 200; ++i) {
    const std::string other = "o" + std::to_string(i);
    Run({"set", other, "1"});
    EXPECT_EQ(RunMove({"renamenx", "h", other}), ":0\r\n");
  }
  EXPECT_LE(Record(id)->keys.size(), 2u);
}

// TakeForAbsent is about what was seen, and not about what has become of it.
TEST_P(LargeRunTest, AttackAnEmptiedHashIsFilledAndMarkedAgain) {
  Run(Fields("h", 400));
  Words all = Removal("h", 400);
  Run(all);
  Wait(kSettlingMs);
  const LargeHeader seen = *Header("h");  // and has no items
  // Somebody adds f0, and somebody whose look for items began before marks the hash.
  EXPECT_EQ(Run({"hset", "h", "f0", "1"}), ":1\r\n");
  LargeHeader marked = seen;
  marked.since_ms = store_.state().time_ms;
  ASSERT_TRUE(session_->Put("h", marked.Encode(), Expiry::Never().OfComposite()));
  const Words words{"setnx", "h", "s"};
  const std::vector<std::string_view> views(words.begin(), words.end());
  ValueChange change;
  ASSERT_EQ(change.Parse(*FindCommand("setnx"), views, false), "");
  KeyChanges changes(change, ChangeTerms{store_.state().time_ms, 250}, memory_);
  changes.TakeForAbsent(seen, true);
  const auto run = [&]() -> Task<void> {
    const Status status = co_await session_->AsyncModify("h", changes);
    EXPECT_TRUE(status);
  };
  session_->Spawn(run());
  session_->WaitAll();
  EXPECT_EQ(Run({"hget", "h", "f0"}), "$1\r\n1\r\n");
}

// What the sweep cannot read, it leaves alone.
TEST_P(LargeRunTest, AttackARecordOfAnotherFormIsLeftAlone) {
  Run(Fields("h", 400));
  ASSERT_TRUE(session_->Put(RecordKeyOf(Header("h")->id), "of a later version"));
  Sweep();
  EXPECT_EQ(Run({"hlen", "h"}), ":400\r\n");
}

// RENAME and COPY of a hash that is being filled, by a live compute server: others do not wait.
TEST_P(LargeRunTest, AttackACopyOfAHashThatIsFilledCanBeWrittenAtOnce) {
  std::optional<CompositeEdit> edit = CompositeEdit::Of(CompositeType::kHash, std::nullopt);
  edit->Set("a", "1");
  const std::string items = edit->Encode();
  const LargeHeader filling{.type = CompositeType::kHash,
                            .state = State::kFilling,
                            .id = 7,
                            .nonce = 0,
                            .since_ms = store_.state().time_ms,
                            .items = items};
  ASSERT_TRUE(session_->Put("h", filling.Encode(), Expiry::Never().OfComposite()));
  EXPECT_EQ(RunMove({"copy", "h", "g"}), ":1\r\n");
  const std::optional<LargeHeader> copy = Header("g");
  EXPECT_FALSE(copy && copy->id == 7u) << "two keys have one id";
  std::string out;
  session_->Spawn(DoInto({{"hset", "g", "c", "3"}}, out));
  for (int i = 0; i < 1000; ++i) session_->Poll();
  EXPECT_EQ(out, ":1\r\n") << "nobody fills it: this waits for 2 s";
  Wait(kFillPatienceMs);
  session_->WaitAll();
}

// EXEC of a very long HSET on a watched key.
TEST_P(LargeRunTest, AttackAWatchedKeyIsFilledFirst) {
  const Words words = Fields("h", 12'000);
  ValueChange change;
  const std::vector<std::string_view> views(words.begin(), words.end());
  ASSERT_EQ(change.Parse(*FindCommand("hset"), views, false), "");
  std::vector<KeyChanges> groups;
  groups.emplace_back(change, ChangeTerms{store_.state().time_ms, 250}, memory_);
  groups[0].Expect(Fingerprint());
  const auto run = [&]() -> Task<void> {
    ChangeRun changes;
    co_await changes.Run(*session_, groups);
  };
  session_->Spawn(run());
  session_->WaitAll();
  EXPECT_FALSE(groups[0].is_outdated()) << "nobody else has changed it";
  EXPECT_FALSE(groups[0].is_outdated() && Header("h")) << "nothing was done, and h is there";
}

TEST(LargeCompositeTest, HeadersAndRecordsAreReadAsTheyWereWritten) {
  const LargeHeader header{.type = CompositeType::kSet,
                           .state = State::kFilling,
                           .id = 0x11223344556677,
                           .nonce = 3,
                           .since_ms = 99,
                           .items = "items"};
  const std::string bytes = header.Encode();
  const std::optional<LargeHeader> read = ParseLargeHeader(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->type, header.type);
  EXPECT_EQ(read->state, header.state);
  EXPECT_EQ(read->id, header.id);
  EXPECT_EQ(read->nonce, header.nonce);
  EXPECT_EQ(read->since_ms, header.since_ms);
  EXPECT_EQ(read->items, header.items);
  for (size_t length = 0; length < kLargeHeaderBytes; ++length) {
    EXPECT_FALSE(ParseLargeHeader(std::string_view(bytes).substr(0, length)));
  }
  EXPECT_EQ(LargeIdOf(ItemKeyOf(header.id, "name")), header.id);
  EXPECT_EQ(LargeIdOf(RecordKeyOf(header.id)), header.id);
  EXPECT_EQ(ItemKeyOf(header.id, "").size(), kItemPrefixBytes);
  EXPECT_FALSE(LargeIdOf("another"));

  const LargeRecord record{
      .is_dead = true, .since_ms = 5, .version = 6, .keys = {"a", std::string(250, 'k'), ""}};
  const std::string stored = record.Encode();
  ASSERT_TRUE(LargeRecord::Parse(stored));
  EXPECT_EQ(LargeRecord::Parse(stored)->keys, record.keys);
  EXPECT_TRUE(LargeRecord::Parse(stored)->is_dead);
  EXPECT_EQ(LargeRecord::Parse(stored)->version, record.version);
  EXPECT_FALSE(LargeRecord::Parse(stored.substr(0, stored.size() - 2)));
}

}  // namespace
}  // namespace gossamer::gateway
