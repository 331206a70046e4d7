#include "compute/bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "compute/bench/key_list_test_support.h"
#include "compute/testing/fake_store.h"
#include "proto/leaf_geometry.h"

namespace gossamer::bench {
namespace {

TEST(PlanTest, DefaultsAreWorkloadCOnARunningStore) {
  const Plan plan = MakePlan({}).value();
  EXPECT_EQ(plan.runner.workload.name, 'c');
  EXPECT_EQ(plan.runner.workload.distribution, Distribution::kZipfian);
  EXPECT_TRUE(plan.load && plan.run && plan.warm_up);
  EXPECT_FALSE(plan.local);
  EXPECT_EQ(plan.open.store, "default");
  EXPECT_EQ(plan.open.cache_bytes, uint64_t{256} << 20);
}

TEST(PlanTest, PhasesAndDistributionAreTakenFromTheFlags) {
  FlagValues flags;
  flags.phase = "load";
  flags.distribution = "uniform";
  const Plan load = MakePlan(flags).value();
  EXPECT_TRUE(load.load);
  EXPECT_FALSE(load.run || load.warm_up);
  EXPECT_EQ(load.runner.workload.distribution, Distribution::kUniform);
  flags.phase = "run";
  flags.warm_up = false;
  const Plan run = MakePlan(flags).value();
  EXPECT_TRUE(run.run);
  EXPECT_FALSE(run.load || run.warm_up);
}

TEST(PlanTest, OrdersOfLoadingHaveNames) {
  FlagValues flags;
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kRandom);
  flags.load_order = "sorted";
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kSorted);
  flags.load_order = "runs";
  flags.batch = 64;
  EXPECT_EQ(MakePlan(flags).value().runner.load_order, LoadOrder::kRuns);
  flags.load_order = "fast";
  EXPECT_THAT(
      MakePlan(flags).error().message,
      testing::HasSubstr("--load_order=fast is not one of random, runs, sorted, ascending"));
}

TEST(PlanTest, ALocalStoreFitsItsRecords) {
  for (const uint64_t key_bytes : {4u, 8u, 32u, kMaxBenchKeyBytes}) {
    for (const uint64_t value_bytes : {0u, 8u, 16u, 64u, 65u, 1u << 20}) {
      FlagValues flags;
      flags.local = "auto";
      flags.records = 1'000;
      flags.key_bytes = key_bytes;
      flags.value_bytes = value_bytes;
      const LocalOptions local = *MakePlan(flags).value().local;
      EXPECT_TRUE(IsStorable(local.parameters)) << key_bytes << " + " << value_bytes;
      EXPECT_EQ(local.parameters.max_key_bytes, key_bytes);
      EXPECT_GE(local.memory_bytes, 1'000 * (key_bytes + value_bytes));
    }
  }
  // It has all its memory before the load begins.
  FlagValues flags;
  flags.local = "auto";
  EXPECT_TRUE(MakePlan(flags).value().local->touch_memory);
  flags.touch = false;
  EXPECT_FALSE(MakePlan(flags).value().local->touch_memory);
  // Ten million small records: enough for the 29 B per key of random inserts, but not many times
  // that.
  EXPECT_GT(MemoryFor(10'000'000, 8, 8), 29u * 10'000'000 * 5 / 4);
  EXPECT_LT(MemoryFor(10'000'000, 8, 8), 29u * 10'000'000 * 3);
}

TEST(PlanTest, ALocalStoreFitsKeysWithAPrefix) {
  FlagValues flags;
  flags.local = "auto";
  flags.key_bytes = kMaxBenchKeyBytes;
  flags.key_prefix = std::string(kMaxBenchKeyBytes - kMinNumberBytes, 'p');
  const Plan plan = MakePlan(flags).value();
  EXPECT_EQ(plan.runner.keys.prefix, flags.key_prefix);
  EXPECT_EQ(plan.local->parameters.max_key_bytes, kMaxBenchKeyBytes);
}

// Also keys of which few fit in a leaf, or none.
TEST(PlanTest, MemoryGrowsWithTheLengthOfKeys) {
  for (uint32_t key_bytes = 4; key_bytes < 250; ++key_bytes) {
    ASSERT_LE(MemoryFor(1'000'000, key_bytes, 8), MemoryFor(1'000'000, key_bytes + 1, 8));
  }
  EXPECT_GT(MemoryFor(1'000'000, 250, 8), 250'000'000u);
  EXPECT_LT(MemoryFor(1'000'000, 250, 8), 1'250'000'000u);
}

TEST(PlanTest, KeysOfGoYcsbNeedAStoreOfLongKeys) {
  FlagValues flags;
  flags.local = "auto";
  flags.key_form = "ycsb";
  const Result<Plan> plan = MakePlan(flags);
  if (kMaxBenchKeyBytes < 33) {
    EXPECT_EQ(plan.error().message,
              "--key_form=ycsb: its keys have up to 33 bytes, and a store takes keys of at most " +
                  std::to_string(kMaxBenchKeyBytes));
    return;
  }
  EXPECT_EQ(plan.value().runner.keys.form, KeyForm::kYcsb);
  EXPECT_EQ(plan.value().local->parameters.max_key_bytes, 33);
  flags.key_prefix = std::string(kMaxBenchKeyBytes - 33, 'p');
  EXPECT_EQ(MakePlan(flags).value().local->parameters.max_key_bytes, kMaxBenchKeyBytes);
  flags.key_prefix += "p";
  EXPECT_THAT(MakePlan(flags).error().message, testing::HasSubstr("bytes with --key_prefix, and"));
}

// A file of `lines` keys of 1 to 7 bytes.
KeyFile FileOf(uint64_t lines) {
  std::string text;
  for (uint64_t i = 0; i < lines; ++i) text += std::to_string(i) + "\n";
  return KeyFile(text);
}

// What the program makes of these flags.
Result<Plan> PlanWithKeys(const FlagValues& flags) {
  BOOST_OUTCOME_TRY(plan, MakePlan(flags));
  BOOST_OUTCOME_TRY(keys, KeyList::Read(*plan.key_list));
  BOOST_OUTCOME_TRYV(UseKeys(flags, std::move(keys), plan));
  return plan;
}

TEST(PlanTest, TheKeysOfAFileAreItsLines) {
  const KeyFile file = FileOf(3'000'000);
  FlagValues flags;
  flags.keys = file.path();
  flags.local = "auto";
  flags.key_prefix = "t/";
  const Plan all = PlanWithKeys(flags).value();
  EXPECT_EQ(all.runner.records, 3'000'000u);
  EXPECT_EQ(all.runner.keys.form, KeyForm::kLines);
  EXPECT_EQ(all.local->parameters.max_key_bytes, 9);
  EXPECT_EQ(all.local->memory_bytes, MemoryFor(3'000'000, 2 + 6 + 2, 8));
  flags.records = 5;
  flags.given = {"records"};
  const Plan some = PlanWithKeys(flags).value();
  EXPECT_EQ(some.runner.records, 5u);
  EXPECT_EQ(some.runner.keys.list->size(), 5u) << "reads what it needs";
  flags.local = "64MiB";
  EXPECT_EQ(PlanWithKeys(flags).value().local->memory_bytes, 64u << 20);
  EXPECT_EQ(PlanWithKeys(flags).value().local->parameters.max_key_bytes, 3);
}

TEST(PlanTest, AWorkloadThatInsertsNeedsLinesThatAreNotLoaded) {
  const KeyFile file = FileOf(2'000);
  FlagValues flags;
  flags.keys = file.path();
  flags.workload = "d";
  flags.operations = 5'000;  // up to 600 of them inserts
  const auto sentence = [&flags] { return PlanWithKeys(flags).error().message; };
  const std::string too_few =
      "--workload=d inserts up to 600 of the 2,000 lines of --keys=" + file.path() +
      ": load no more than the others, by --records=1400, in every phase";
  EXPECT_EQ(sentence(), too_few);
  flags.given = {"records"};
  flags.records = 1'401;
  EXPECT_EQ(sentence(), too_few);
  flags.records = 2'001;
  EXPECT_EQ(sentence(), "--records=2001 is more than the 2,000 lines of --keys=" + file.path());
  flags.records = 1'400;
  EXPECT_EQ(PlanWithKeys(flags).value().runner.records, 1'400u);
  flags.operations = 100'000;
  EXPECT_THAT(sentence(), testing::HasSubstr(": give fewer --operations or more lines"));
  flags.phase = "load";
  EXPECT_EQ(PlanWithKeys(flags).value().runner.records, 1'400u) << "nothing is inserted";
}

TEST(PlanTest, AStoreOfShorterKeysIsASentence) {
  FakeStore store;
  FlagValues flags;
  flags.key_bytes = 20;
  store.state().parameters.max_key_bytes = 20;
  EXPECT_TRUE(CheckKeysFit(store, MakePlan(flags).value()));
  store.state().parameters.max_key_bytes = 19;
  EXPECT_EQ(CheckKeysFit(store, MakePlan(flags).value()).error().message,
            "the store 'default' takes keys of at most 19 bytes, and these have up to 20: take "
            "shorter keys, or a store of gossamer-memory --max_key_bytes=20");
}

TEST(PlanTest, TheSizeOfALocalStoreMayBeGiven) {
  FlagValues flags;
  flags.local = "4GiB";
  EXPECT_EQ(MakePlan(flags).value().local->memory_bytes, uint64_t{4} << 30);
}

TEST(PlanTest, ADesignOfShermansEvaluationIsALocalStore) {
  FlagValues flags;
  flags.local = "auto";
  EXPECT_FALSE(MakePlan(flags).value().research);
  const uint64_t of_product = MakePlan(flags).value().local->memory_bytes;
  flags.threads = 16;
  for (const sherman::NamedDesign& one : sherman::kLadder) {
    flags.design = one.name;
    const Plan plan = MakePlan(flags).value();
    EXPECT_EQ(*plan.research, one.design) << one.name;
    EXPECT_EQ(plan.local->memory_bytes, of_product + 16 * sherman::kChunkBytes);
  }
}

TEST(PlanTest, WhatADesignCannotDoIsASentence) {
  struct Case {
    std::function<void(FlagValues&)> change;
    const char* sentence;
  };
  const char* const sizes =
      "--design=on_chip has keys of 8 bytes and values of 8 bytes only: leave out --key_bytes, ";
  for (const Case& one : {Case{[](FlagValues& f) { f.key_bytes = 7; }, sizes},
                          Case{[](FlagValues& f) { f.key_bytes = 16; }, sizes},
                          Case{[](FlagValues& f) { f.keys = "words"; }, sizes},
                          Case{[](FlagValues& f) { f.value_bytes = 9; }, sizes},
                          Case{[](FlagValues& f) { f.batch = 2; },
                               "--design=on_chip does one operation after the other: leave out"},
                          Case{[](FlagValues& f) { f.load_order = "sorted"; },
                               "--design=on_chip has no LoadSorted"}}) {
    FlagValues flags;
    flags.local = "auto";
    flags.design = "on_chip";
    one.change(flags);
    const Result<Plan> plan = MakePlan(flags);
    ASSERT_FALSE(plan) << one.sentence;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, testing::HasSubstr(one.sentence));
  }
}

TEST(PlanTest, WrongFlagsAreASentence) {
  struct Case {
    std::function<void(FlagValues&)> change;
    const char* sentence;
  };
  const Case cases[] = {
      {[](FlagValues& f) { f.workload = "g"; }, "--workload=g is not one of a, b, c, d, e, f, u"},
      {[](FlagValues& f) { f.workload = ""; }, "--workload= is not one of"},
      {[](FlagValues& f) { f.phase = "walk"; }, "--phase=walk is not one of load, run, both"},
      {[](FlagValues& f) { f.distribution = "normal"; }, "--distribution=normal is not one of"},
      {[](FlagValues& f) { f.records = 0; }, "--records=0 is not from 1 to"},
      {[](FlagValues& f) { f.threads = 0; }, "--threads=0 is not from 1 to 1,024"},
      {[](FlagValues& f) { f.coroutines = 0; }, "--coroutines=0 is not from"},
      {[](FlagValues& f) { f.sessions = 65; }, "--sessions=65 is not from 1 to 64"},
      {[](FlagValues& f) {
         f.sessions = 5;
         f.coroutines = 4;
       },
       "--sessions=5 is more than --coroutines=4, which they share"},
      {[](FlagValues& f) {
         f.sessions = 2;
         f.batch = 8;
       },
       "--sessions share the coroutines of a thread, and --batch has none"},
      {[](FlagValues& f) {
         f.sessions = 2;
         f.redis = "127.0.0.1:6379";
       },
       "--sessions is of a store: for a server give --connections"},
      {[](FlagValues& f) { f.batch = 0; }, "--batch=0 is not from"},
      {[](FlagValues& f) { f.key_bytes = 3; }, "--key_bytes=3 is not from 4 to "},
      {[](FlagValues& f) { f.key_bytes = kMaxBenchKeyBytes + 1; }, " is not from 4 to "},
      {[](FlagValues& f) {
         f.key_bytes = 12;
         f.key_prefix = "12345";
       },
       "--key_prefix=\"12345\" is 5 bytes long, and a number takes 8 more, which is more than "
       "--key_bytes=12: give --key_bytes=13 at least"},
      {[](FlagValues& f) { f.key_prefix = std::string(kMaxBenchKeyBytes - 7, 'p'); },
       " that a key may have: give a prefix of at most "},
      {[](FlagValues& f) { f.key_form = "lines"; },
       "--key_form=lines is not one of numbers, ycsb; for the lines of a file give --keys"},
      {[](FlagValues& f) {
         f.key_form = "ycsb";
         f.given = {"key_bytes"};
       },
       "--key_form=ycsb: its keys have lengths of their own: leave out --key_bytes"},
      {[](FlagValues& f) {
         f.keys = "words";
         f.key_form = "ycsb";
       },
       "--keys: the lines of the file are the keys: leave out --key_form"},
      {[](FlagValues& f) {
         f.keys = "words";
         f.given = {"key_bytes"};
       },
       "--keys: the lines of the file are the keys: leave out --key_bytes"},
      {[](FlagValues& f) {
         f.keys = "words";
         f.key_prefix = std::string(kMaxBenchKeyBytes, 'p');
       },
       " leaves nothing of the "},
      {[](FlagValues& f) { f.value_bytes = (1 << 20) + 1; },
       "--value_bytes=1048577 is not from 0 to 1,048,576"},
      {[](FlagValues& f) { f.theta = 1; }, "--theta=1.000000 is not between 0 and 1"},
      {[](FlagValues& f) { f.theta = 0; }, "--theta=0.000000 is not between 0 and 1"},
      {[](FlagValues& f) { f.key_bytes = 9; }, "--key_bytes=9 has keys for 65,536 records only"},
      {[](FlagValues& f) {
         f.workload = "d";
         f.operations = uint64_t{1} << 50;
       },
       "is too many for a workload that inserts: give at most 8,589,934,592"},
      {[](FlagValues& f) { f.load_order = "runs"; },
       "--load_order=runs with --batch=1 is random order"},
      {[](FlagValues& f) { f.load_order = "file"; }, "--load_order=file is that of --keys=FILE"},
      {[](FlagValues& f) { f.local = "much"; }, "--local: "},
      {[](FlagValues& f) { f.design = "fast"; },
       "--design=fast is not one of naive, combined, on_chip, hierarchical, sherman (Sherman's"},
      {[](FlagValues& f) { f.design = "naive"; },
       "--design=naive is a store in this process: give --local"},
      {[](FlagValues& f) { f.cache_bytes = "x"; }, "--cache_bytes: "},
      {[](FlagValues& f) {
         f.local = "auto";
         f.phase = "run";
       },
       "--local opens a store of its own, which is empty"},
  };
  for (const Case& wrong : cases) {
    FlagValues flags;
    wrong.change(flags);
    const Result<Plan> plan = MakePlan(flags);
    ASSERT_FALSE(plan) << wrong.sentence;
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.error().message, testing::HasSubstr(wrong.sentence));
  }
}

TEST(PlanTest, AStoreWithKeysIsWrittenToOnlyWhenItIsNamed) {
  struct Case {
    const char* phase;
    const char* workload;
    bool writes;
  };
  for (const Case& one : {Case{"load", "c", true}, Case{"both", "c", true}, Case{"run", "a", true},
                          Case{"run", "d", true}, Case{"run", "e", true}, Case{"run", "f", true},
                          Case{"run", "c", false}}) {
    SCOPED_TRACE(std::string(one.phase) + " " + one.workload);
    FakeStore store;
    FlagValues flags;
    flags.phase = one.phase;
    flags.workload = one.workload;
    EXPECT_TRUE(CheckMayWrite(store, MakePlan(flags).value())) << "the store is empty";
    store.state().map["a person's"] = "key";
    const Status unnamed = CheckMayWrite(store, MakePlan(flags).value());
    EXPECT_EQ(static_cast<bool>(unnamed), !one.writes);
    if (!unnamed) {
      EXPECT_EQ(unnamed.error().code, Code::kInvalidArgument);
      EXPECT_THAT(unnamed.error().message, ::testing::HasSubstr("say so by --store=default"));
    }
    flags.given = {"store"};
    EXPECT_TRUE(CheckMayWrite(store, MakePlan(flags).value()));
  }
}

TEST(PlanTest, AStoreThatCannotBeReadIsNotTakenForAnEmptyOne) {
  FakeStore store;
  store.state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 0 is gone");
  EXPECT_EQ(CheckMayWrite(store, MakePlan({}).value()).error().code, Code::kNodeUnreachable);
}

TEST(PlanTest, ProcessesInsertEachTheirOwnKeys) {
  FlagValues flags;
  flags.given = {"barrier", "processes", "records"};
  flags.barrier = "b";
  flags.workload = "d";
  flags.keys = "lines";
  flags.records = 1'000;
  flags.operations = 1'000;
  flags.processes = 4;
  // Of each: a tenth of its 250 operations, and 100 more.
  EXPECT_EQ(MakePlan(flags).value().key_list->most_lines, 1'500u);
  EXPECT_EQ(MakePlan(flags).value().runner.share.processes, 4u);

  flags.keys.clear();
  flags.key_bytes = 4;
  flags.records = (uint64_t{1} << 32) - 1'000;
  flags.processes = 1;
  EXPECT_TRUE(MakePlan(flags));
  flags.processes = 4;  // the greatest id of one that inserts a quarter, of four
  EXPECT_FALSE(MakePlan(flags));
}

}  // namespace
}  // namespace gossamer::bench
