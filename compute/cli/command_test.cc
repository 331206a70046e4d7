// Each command on a store in memory: its output, the stream of each part, and its exit status.
#include "compute/cli/command.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "common/program/flags_main.h"
#include "common/testing/seed.h"
#include "compute/cli/report.h"
#include "compute/testing/fake_store.h"

namespace gossamer::cli {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() : session_(store_.NewSession().value()) {}
  ~CommandTest() override { std::remove(path_.c_str()); }

  // Runs a command. `out_` and `err_` then hold its output.
  int Run(std::vector<std::string> words) {
    out_.clear();
    err_.clear();
    const Result<const Command*> command = FindCommand(words, {});
    if (!command) {
      err_ = command.error().message;
      return kExitUsage;
    }
    words.erase(words.begin());
    std::ostringstream out;
    std::ostringstream err;
    const int exit_status = command.value()->run(
        Context{&store_, session_.get(), open_, options_, words, out, err, stop_, at_prompt_});
    out_ = out.str();
    err_ = err.str();
    return exit_status;
  }
  Json OutJson() const { return Json::parse(out_); }
  FakeStore::State& state() { return store_.state(); }
  void WriteFile(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  const std::string path_ =
      fmt::format("{}gossamer_command_test_{}", ::testing::TempDir(), getpid());
  const OpenOptions open_;  // of the store `default`
  FakeStore store_;
  std::unique_ptr<Session> session_;
  CommandOptions options_;
  Stop stop_;
  bool at_prompt_ = false;
  std::string out_;
  std::string err_;
};

TEST_F(CommandTest, PutGetDelete) {
  EXPECT_EQ(Run({"put", "key", "value\twith\\t"}), 0);
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(Run({"get", "key"}), 0);
  EXPECT_EQ(out_, "value\twith\\t\n");
  EXPECT_EQ(Run({"delete", "key"}), 0);
  EXPECT_EQ(Run({"get", "key"}), 1);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, "gossamer: the key \"key\" is absent\n");
  EXPECT_EQ(Run({"delete", "key"}), 1);
  EXPECT_EQ(err_, "gossamer: the key \"key\" is absent\n");
}

TEST_F(CommandTest, EscapesOnRequest) {
  options_.escaped = true;
  EXPECT_EQ(Run({"put", "\\x00\\xff", "a\\nb"}), 0);
  EXPECT_EQ(state().map.at("\0\xff"s), "a\nb");
  EXPECT_EQ(Run({"get", "\\x00\\xff"}), 0);
  EXPECT_EQ(out_, "a\\nb\n");
  EXPECT_EQ(Run({"get", "\\x4"}), 2);
  EXPECT_THAT(err_, HasSubstr("byte 1"));
  EXPECT_THAT(err_, HasSubstr("\\x4"));
}

TEST_F(CommandTest, JsonKeepsBytesThatAreNoText) {
  options_.json = true;
  state().map["\xff"] = "żółw\0"s;
  EXPECT_EQ(Run({"get", "\xff"}), 0);
  EXPECT_EQ(OutJson(),
            Json::parse(R"({"key":"\\xff","key_encoding":"escaped","value":"żółw\u0000"})"));
  EXPECT_EQ(Run({"get", "absent"}), 1);
  EXPECT_EQ(
      OutJson(),
      Json::parse(R"({"error":{"code":"NotFound","message":"the key \"absent\" is absent"}})"));
  EXPECT_THAT(err_, StartsWith("gossamer: "));
  EXPECT_EQ(Run({"put", "k", "v"}), 0);
  EXPECT_EQ(OutJson(), Json::parse(R"({"key":"k","status":"stored"})"));
}

TEST_F(CommandTest, PutTakesItsValueFromAFile) {
  WriteFile("line\n\0more"s);
  options_.value_file = path_;
  EXPECT_EQ(Run({"put", "k"}), 0);
  EXPECT_EQ(state().map.at("k"), "line\n\0more"s);
  EXPECT_EQ(Run({"put", "k", "v"}), 2);
  WriteFile(std::string(kMaxValueBytes, 'v'));
  EXPECT_EQ(Run({"put", "k"}), 0);
  WriteFile(std::string(kMaxValueBytes + 1, 'v'));
  EXPECT_EQ(Run({"put", "k"}), 1);
  EXPECT_THAT(err_, HasSubstr("longer than 1048576 B (1 MiB)"));
  EXPECT_EQ(state().map.at("k").size(), kMaxValueBytes) << "the old value must stay";
  options_.value_file = path_ + ".absent";
  EXPECT_EQ(Run({"put", "k"}), 1);
  EXPECT_THAT(err_, HasSubstr("No such file or directory"));
  options_.value_file.clear();
  EXPECT_EQ(Run({"put", "k"}), 2);
}

TEST_F(CommandTest, GetWritesTheBytesOfAValueIntoAFile) {
  const std::string value = "line\n\0more\xff"s + std::string(kMaxValueBytes / 2, '\n');
  state().map["k"] = value;
  const auto content = [this] {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  WriteFile("of another length, before" + std::string(kMaxValueBytes, 'x'));
  options_.output = path_;
  options_.escaped = true;
  EXPECT_EQ(Run({"get", "k"}), 0);
  EXPECT_TRUE(content() == value);
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(Run({"get", "absent"}), 1);
  EXPECT_TRUE(content() == value) << "of an absent key nothing is written";
  state().map["k"] = "";
  EXPECT_EQ(Run({"get", "k"}), 0);
  EXPECT_EQ(content(), "");
  state().map["k"] = "v\n\xff";
  options_.output = "-";
  EXPECT_EQ(Run({"get", "k"}), 0);
  EXPECT_EQ(out_, "v\n\xff");
  options_.output = "/dev/full";
  EXPECT_EQ(Run({"get", "k"}), 1);
  EXPECT_EQ(err_, "gossamer: cannot write /dev/full: No space left on device\n");
  options_.output = path_ + "/x";
  EXPECT_EQ(Run({"get", "k"}), 1);
  EXPECT_THAT(err_, HasSubstr("Not a directory"));
  options_.json = true;
  EXPECT_EQ(Run({"get", "k"}), 2);
}

TEST_F(CommandTest, ScanPrintsWhatLoadReads) {
  for (const char* key : {"a", "ab", "abc", "b", "c"}) state().map[key] = key + "\t\xff"s;
  EXPECT_EQ(Run({"scan"}), 0);
  EXPECT_THAT(out_, StartsWith("a\ta\\t\\xff\nab\tab\\t\\xff\n"));
  options_.scan.keys_only = true;
  options_.scan.prefix = "a";
  EXPECT_EQ(Run({"scan"}), 0);
  EXPECT_EQ(out_, "a\nab\nabc\n");
  options_.scan = ScanOptions();
  options_.scan.keys_only = true;
  options_.scan.from = "ab";
  options_.scan.to = "c";
  options_.scan.limit = 2;
  options_.scan.reverse = true;
  EXPECT_EQ(Run({"scan"}), 0);
  EXPECT_EQ(out_, "b\nabc\n");
  options_.json = true;
  EXPECT_EQ(Run({"scan"}), 0);
  EXPECT_EQ(out_, "{\"key\":\"b\"}\n{\"key\":\"abc\"}\n");
  options_.json = false;
  options_.escaped = true;
  options_.scan = ScanOptions();
  options_.scan.keys_only = true;
  options_.scan.from = "\\x62";
  EXPECT_EQ(Run({"scan"}), 0);
  EXPECT_EQ(out_, "b\nc\n");
  options_.scan.prefix = "\\";
  EXPECT_EQ(Run({"scan"}), 2);
}

TEST_F(CommandTest, DumpAndLoadRoundTripAnyBytes) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string key(random() % 251, '\0');
    std::string value(random() % 60, '\0');
    for (char& byte : key) byte = static_cast<char>(random());
    for (char& byte : value) byte = static_cast<char>(random());
    state().map[key] = value;
  }
  ASSERT_EQ(Run({"dump"}), 0);
  WriteFile(out_);
  const auto before = std::exchange(state().map, {});
  EXPECT_EQ(Run({"load", path_}), 0);
  EXPECT_TRUE(state().map == before);
  EXPECT_THAT(out_, StartsWith("loaded " + std::to_string(before.size()).substr(0, 1)));
}

TEST_F(CommandTest, DumpAndLoadKeepTheTimes) {
  options_.ttl = "60.5";
  ASSERT_EQ(Run({"put", "a\\", "1"}), 0);
  options_.ttl.clear();
  ASSERT_EQ(Run({"put", "b\\@17", "2"}), 0);
  const uint64_t at = state().time_ms + 60'500;
  ASSERT_EQ(Run({"dump"}), 0);
  EXPECT_EQ(out_, fmt::format("a\\\\\\@{}\t1\nb\\\\@17\t2\n", at));
  WriteFile(out_);
  const auto before = std::exchange(state().map, {});
  state().expires_at.clear();
  ASSERT_EQ(Run({"load", path_}), 0);
  EXPECT_TRUE(state().map == before);
  EXPECT_EQ(state().expires_at.at("a\\"), at);
  EXPECT_EQ(state().expires_at.size(), 1u);
  ASSERT_EQ(Run({"scan"}), 0);
  EXPECT_THAT(out_, StartsWith("a\\\\\t1\n"));
  options_.json = true;
  ASSERT_EQ(Run({"scan"}), 0);
  EXPECT_THAT(out_, HasSubstr(fmt::format("\"expires_at\":{}", at)));
  options_.json = false;
  for (const std::string line : {"k\\@\tv", "k\\@x\tv", "k\\@5x\tv", "k\\@0\tv", "k\\@-5\tv",
                                 "k\\@5:\tv", "k\\@0:composite\tv", "k\\@5:compositE\tv"}) {
    WriteFile(line + "\n");
    EXPECT_EQ(Run({"load", path_}), 1) << line;
    EXPECT_THAT(err_, HasSubstr("stands the time when the key expires")) << line;
  }
}

TEST_F(CommandTest, DumpAndLoadKeepCompositeValues) {
  state().map = {{"hash", "h"}, {"plain", "p"}, {"set", "s"}};
  const Expiry at = Expiry::At(state().time_ms + 1000);
  state().expires_at = {{"hash", Expiry::Never().OfComposite().stored()},
                        {"set", at.OfComposite().stored()}};
  const auto before = state().expires_at;
  ASSERT_EQ(Run({"dump"}), 0);
  EXPECT_EQ(out_,
            fmt::format("hash\\@:composite\th\nplain\tp\nset\\@{}:composite\ts\n", at.at_ms()));
  WriteFile(out_);
  state().map.clear();
  state().expires_at.clear();
  ASSERT_EQ(Run({"load", path_}), 0);
  EXPECT_EQ(state().map.size(), 3u);
  EXPECT_TRUE(state().expires_at == before);
  options_.json = true;
  ASSERT_EQ(Run({"get", "hash"}), 0);
  EXPECT_THAT(out_, HasSubstr("\"composite\":true"));
}

TEST_F(CommandTest, TellsAndSetsHowLongAKeyLives) {
  ASSERT_EQ(Run({"put", "k", "v"}), 0);
  EXPECT_EQ(Run({"ttl", "k"}), 0);
  EXPECT_EQ(out_, "never\n");
  EXPECT_EQ(Run({"expire", "k", "0.25"}), 0);
  EXPECT_EQ(Run({"ttl", "k"}), 0);
  EXPECT_EQ(out_, "0.250\n");
  options_.json = true;
  EXPECT_EQ(Run({"ttl", "k"}), 0);
  EXPECT_EQ(OutJson().at("ttl_seconds"), 0.25);
  EXPECT_EQ(Run({"expire", "k", "never"}), 0);
  EXPECT_EQ(Run({"ttl", "k"}), 0);
  EXPECT_TRUE(OutJson().at("ttl_seconds").is_null());
  options_.json = false;
  EXPECT_EQ(Run({"expire", "k", "1"}), 0);
  state().time_ms += 1000;
  EXPECT_EQ(Run({"ttl", "k"}), 1);
  EXPECT_EQ(Run({"expire", "k", "1"}), 1);
  for (const std::string bad : {"0", "-1", "1s", "", "nan", "1e30"}) {
    EXPECT_EQ(Run({"expire", "k", bad}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("a number of seconds")) << bad;
  }
  options_.ttl = "x";
  EXPECT_EQ(Run({"put", "k", "v"}), 2);
}

TEST_F(CommandTest, ScanThatFailsSaysHowFarItCame) {
  for (int i = 0; i < 10; ++i) state().map[std::to_string(i)] = "v";
  state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 does not answer");
  EXPECT_EQ(Run({"scan"}), 1);
  EXPECT_THAT(out_, StartsWith("0\tv\n1\tv\n"));
  EXPECT_EQ(err_,
            "gossamer: memory server 1 does not answer\ngossamer: 5 keys printed before that\n");
}

TEST_F(CommandTest, ScanStopsAtASignal) {
  for (int i = 0; i < 10; ++i) state().map[std::to_string(i)] = "v";
  stop_.Raise(SIGINT);
  EXPECT_EQ(Run({"scan"}), 130);
  EXPECT_EQ(err_, "gossamer: stopped after 0 keys\n");
}

TEST_F(CommandTest, SalvageSaysWhatIsMissing) {
  state().map["b"] = "v";
  EXPECT_EQ(Run({"dump"}), 0);
  options_.salvage = true;
  EXPECT_EQ(Run({"dump"}), 0) << "nothing is missing";
  const Error why = MakeError(Code::kNodeUnreachable, "memory server 1 is gone");
  const Error other = MakeError(Code::kNodeUnreachable, "memory server 2 is gone");
  state().missing = {{"", "b", why}, {"k", "k\0"s, why}, {"x\n", std::nullopt, other}};
  EXPECT_EQ(Run({"dump"}), 1);
  EXPECT_EQ(out_, "b\tv\n");
  EXPECT_THAT(err_, HasSubstr("gossamer: missing: keys from \"\" up to \"b\"\n"
                              "gossamer: missing: the key \"k\"\n"
                              "gossamer: missing: keys from \"x\\n\" on\n"
                              "gossamer: 2 ranges of keys missing: memory server 1 is gone\n"
                              "gossamer: 1 range of keys missing: memory server 2 is gone\n"));
  options_.json = true;
  EXPECT_EQ(Run({"dump"}), 1);
  EXPECT_THAT(out_, HasSubstr("{\"missing\":{\"from\":\"\",\"to\":\"b\",\"error\":{\"code\":"
                              "\"NodeUnreachable\",\"message\":\"memory server 1 is gone\"}}}\n"));
  options_.salvage = false;
  EXPECT_EQ(Run({"dump"}), 0) << "it was not asked for";
}

TEST_F(CommandTest, SalvageCountsWhatIsMissing) {
  options_.salvage = true;
  const Error why = MakeError(Code::kNodeUnreachable, "memory server 1 is gone");
  for (int i = 0; i < 5000; ++i) {
    const std::string key = fmt::format("{:04}", i);
    state().missing.push_back({key, key + '\0', why});
  }
  EXPECT_EQ(Run({"dump"}), 1);
  EXPECT_LT(std::ranges::count(err_, '\n'), 20);
  EXPECT_THAT(err_, HasSubstr("gossamer: and 4,990 more: --json lists all\n"
                              "gossamer: 5,000 ranges of keys missing: memory server 1 is gone\n"));
}

TEST_F(CommandTest, RepairSaysWhatIsLost) {
  EXPECT_EQ(Run({"repair"}), 0);
  EXPECT_EQ(out_, "store default: nothing is lost; 0 keys\n");
  state().problems = {"servers are lost"};
  EXPECT_EQ(Run({"repair"}), 0);
  EXPECT_EQ(out_,
            "store default: memory servers 1, 3 are gone\n"
            "  lost with 2 leaves: about 70 keys, in 2 ranges of keys\n"
            "  lost with value blocks: 1 key\n"
            "  lost in all: 4.00 KiB\n"
            "  left: 1,000 keys\n"
            "  lost: keys from \"a\" up to \"b\"\n"
            "  lost: keys from \"x\" on\n"
            "The ranges are empty now, and can be written again.\n");
  options_.dry_run = true;
  EXPECT_EQ(Run({"repair"}), 0);
  EXPECT_THAT(out_, HasSubstr("Nothing was changed."));
  options_.json = true;
  EXPECT_EQ(Run({"repair"}), 0);
  EXPECT_EQ(OutJson()["lost_servers"], Json({1, 3}));
  EXPECT_EQ(OutJson()["lost_keys_estimated"], 70);
  EXPECT_EQ(OutJson()["ranges"], Json::parse(R"([{"from":"a","to":"b"},{"from":"x"}])"));
  state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 does not answer");
  EXPECT_EQ(Run({"repair"}), 1);
}

TEST_F(CommandTest, OutputThatTakesNothingIsAFailure) {
  state().map["k"] = "v";
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  std::ostringstream err;
  const std::vector<std::string> arguments;
  EXPECT_EQ(
      ScanCommand().run({&store_, session_.get(), open_, options_, arguments, out, err, stop_}), 1);
  EXPECT_EQ(err.str(), "gossamer: cannot write to standard output\n");
}

TEST_F(CommandTest, LoadReportsInJson) {
  options_.json = true;
  WriteFile("a\t1\nb\t2\nbad\\");
  EXPECT_EQ(Run({"load", path_}), 1);
  const Json report = OutJson();
  EXPECT_EQ(report["loaded"], 2);
  EXPECT_EQ(report["inserted"], 2);
  EXPECT_EQ(report["complete"], false);
  EXPECT_EQ(report["resume_line"], 4);
  EXPECT_EQ(report["error"]["line"], 3);
  EXPECT_EQ(report["error"]["code"], "InvalidArgument");
  EXPECT_THAT(err_, HasSubstr("2 lines of " + path_ +
                              " were loaded; to go on behind the bad line: gossamer load "
                              "--from_line=4 " +
                              path_ + " (--on_error=skip passes over every bad line)"));
}

TEST_F(CommandTest, ARawLoadGoesOnAsOne) {
  options_.load.form = LineForm::kRaw;
  WriteFile("C:\\a\nC:\\" + std::string(250, 'k') + "\n");
  EXPECT_EQ(Run({"load", path_}), 1);
  EXPECT_THAT(err_, HasSubstr("gossamer load --raw --from_line=3 " + path_));
  EXPECT_EQ(state().map.count("C:\\a"), 1U);
}

TEST_F(CommandTest, LoadSaysWhenAFileDoesNotEndInANewline) {
  WriteFile("a\t1\nb\t2");
  EXPECT_EQ(Run({"load", path_}), 0);
  EXPECT_THAT(err_, HasSubstr("does not end in a newline; its last line was loaded as it stands"));
  EXPECT_EQ(state().map.at("b"), "2");
}

TEST_F(CommandTest, LoadOfFullMemory) {
  state().max_keys = 1;
  WriteFile("a\nb\n");
  EXPECT_EQ(Run({"load", path_}), 1);
  EXPECT_THAT(err_, HasSubstr("line 2: 1 server, 0 of 64 chunks free\n"));
  EXPECT_THAT(err_, HasSubstr("1 line of " + path_ + " was loaded"));
}

TEST_F(CommandTest, LoadThatSkippedIsNoSuccess) {
  options_.load.skip_errors = true;
  std::string text;
  for (int i = 0; i < 15; ++i) text += "\\q\n";
  WriteFile(text + "good\n");
  EXPECT_EQ(Run({"load", path_}), 1);
  EXPECT_THAT(err_, HasSubstr("line 1 skipped: byte 1: "));
  EXPECT_THAT(err_, HasSubstr("5 more lines skipped"));
  EXPECT_THAT(out_, HasSubstr("15 skipped"));
  EXPECT_TRUE(state().map.contains("good"));
}

TEST_F(CommandTest, LoadOfWhatIsNoFile) {
  EXPECT_EQ(Run({"load", "/absent"}), 1);
  EXPECT_EQ(err_, "gossamer: cannot open /absent: No such file or directory\n");
  EXPECT_EQ(Run({"load", "/"}), 1);
  at_prompt_ = true;
  EXPECT_EQ(Run({"load", "-"}), 2);
}

TEST_F(CommandTest, CheckReportsProblems) {
  for (int i = 0; i < 100; ++i) state().map[std::to_string(i)] = "v";
  EXPECT_EQ(Run({"check"}), 0);
  EXPECT_THAT(out_, StartsWith("store default: no problem found\n"));
  EXPECT_THAT(out_, HasSubstr("100"));
  // Memory server 1 has no nodes, or has left the store.
  EXPECT_THAT(out_, HasSubstr("nodes on server 0"));
  EXPECT_THAT(out_, HasSubstr("nodes on server 2"));
  state().problems = {"leaf 0:4096 has its keys out of order"};
  EXPECT_EQ(Run({"check"}), 1);
  EXPECT_THAT(out_, StartsWith("store default: 1 problem found\n"));
  EXPECT_THAT(out_, HasSubstr("  leaf 0:4096 has its keys out of order\n"));
  state().problems.emplace_back("lock slot 7 is held");
  state().locks_held = 1;
  EXPECT_EQ(Run({"check"}), 1);
  EXPECT_THAT(out_,
              StartsWith("store default: 2 problems found, but somebody may be writing (1 lock "
                         "held): check again while nobody writes\n"));
  state().problems.erase(state().problems.begin());
  EXPECT_EQ(Run({"check"}), 1);
  EXPECT_THAT(out_,
              StartsWith("store default: no problem found but 1 lock held by clients that live: "
                         "check again while nobody writes\n"));
  options_.json = true;
  EXPECT_EQ(Run({"check"}), 1);
  EXPECT_EQ(OutJson()["ok"], false);
  EXPECT_EQ(OutJson()["keys"], 100);
  EXPECT_EQ(OutJson()["nodes_per_server"][1], Json({{"server_id", 2}, {"nodes", 3}}));
  EXPECT_EQ(OutJson()["memory"][0], Json({{"server_id", 0},
                                          {"heap_bytes", 1 << 20},
                                          {"live_bytes", 600'000},
                                          {"free_bytes", 400'000},
                                          {"kept_bytes", 10'000},
                                          {"waiting_bytes", 20'000},
                                          {"lost_bytes", 18'576}}));
}

TEST_F(CommandTest, SweepSaysWhatCameBack) {
  EXPECT_EQ(Run({"sweep"}), 0);
  EXPECT_EQ(
      out_,
      "server 0: 4.00 KiB given back\n"
      "server 2: 0 B given back; 64 B left, of clients that are gone from it, but not from other "
      "servers\n");
  options_.json = true;
  EXPECT_EQ(Run({"sweep"}), 0);
  EXPECT_EQ(OutJson()["servers"][1],
            Json({{"server_id", 2}, {"swept_bytes", 0}, {"left_bytes", 64}}));
  state().fail_with = MakeError(Code::kContended, "the sweep waits");
  EXPECT_EQ(Run({"sweep"}), 1);
}

TEST_F(CommandTest, StatSaysWhatToDoAboutAFullServer) {
  MemoryUse& memory = state().memory;
  memory.live_bytes += memory.free_bytes;
  memory.free_bytes = 0;
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_THAT(out_, HasSubstr("server 1 is nearly full: delete keys, or start another"));
  std::swap(memory.live_bytes, memory.kept_bytes);
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_THAT(out_, HasSubstr("server 1 is nearly full, but clients only keep 968 MiB of it"));
  EXPECT_THAT(out_, Not(HasSubstr("delete keys")));
}

TEST_F(CommandTest, StatIsATableAndJson) {
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_THAT(out_,
              StartsWith("store default (id 0000000000001234) on fabric shm, 3 levels, about 0 "
                         "keys (estimated; `gossamer check` counts them)\n"));
  EXPECT_THAT(out_, HasSubstr("25.0 %"));
  EXPECT_THAT(out_, HasSubstr("server 0 has lost 8.00 MiB to clients that died: `gossamer sweep`"));
  EXPECT_THAT(out_, Not(HasSubstr("nearly full")));
  for (int i = 0; i < 12'346; ++i) state().map[std::to_string(i)] = "v";
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_THAT(out_, HasSubstr(", about 12,300 keys (estimated")) << "no more digits than are right";
  options_.json = true;
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_EQ(OutJson()["keys"], 12'346);
  EXPECT_EQ(OutJson()["keys_are_estimated"], true);
  EXPECT_EQ(OutJson()["servers"].size(), 2U);
  EXPECT_EQ(OutJson()["parameters"]["max_key_bytes"], 250);
  const Json server = OutJson()["servers"][1];
  uint64_t bytes = 0;
  for (const char* part :
       {"live_bytes", "free_bytes", "kept_bytes", "waiting_bytes", "lost_bytes"}) {
    bytes += server[part].get<uint64_t>();
  }
  EXPECT_EQ(bytes, server["heap_bytes"]);
  options_.quick = true;
  EXPECT_EQ(Run({"stat"}), 0);
  EXPECT_FALSE(OutJson()["servers"][1].contains("live_bytes"));
  EXPECT_FALSE(OutJson().contains("keys"));
}

TEST_F(CommandTest, DeleteTakesAKeyOrARange) {
  for (const char* key : {"a", "ab", "abc", "b", "c", "d"}) state().map[key] = "v";
  EXPECT_EQ(Run({"delete"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("say which keys"));
  options_.scan.prefix = "ab";
  EXPECT_EQ(Run({"delete", "b"}), kExitUsage);
  EXPECT_EQ(state().map.size(), 6u);
  EXPECT_EQ(Run({"delete"}), 0);
  EXPECT_EQ(out_, "deleted 2 keys\n");
  options_.scan = {};
  options_.scan.from = "b";
  options_.scan.to = "d";
  options_.json = true;
  EXPECT_EQ(Run({"delete"}), 0);
  EXPECT_EQ(OutJson()["deleted"], 2);
  EXPECT_EQ(state().map.size(), 2u);
  options_.scan = {};
  options_.empty_bound = "to";
  options_.scan.from = "a";
  EXPECT_EQ(Run({"delete"}), kExitUsage) << "an empty variable of a shell does not delete the rest";
  EXPECT_THAT(err_, HasSubstr("--to is empty"));
  options_.scan = {};
  options_.empty_bound = {};
  options_.all = true;
  state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 does not answer");
  EXPECT_EQ(Run({"delete"}), 1);
  EXPECT_THAT(err_, HasSubstr("memory server 1 does not answer"));
  EXPECT_THAT(err_, HasSubstr("0 keys deleted before that"));
  EXPECT_EQ(OutJson()["deleted"], 0);
  state().fail_with.reset();
  EXPECT_EQ(Run({"delete"}), 0);
  EXPECT_TRUE(state().map.empty());
}

TEST_F(CommandTest, LibraryErrorsAreSentences) {
  for (const Code code :
       {Code::kExhausted, Code::kContended, Code::kNodeUnreachable, Code::kFenced,
        Code::kCorruption, Code::kMaybeApplied, Code::kUnsupported, Code::kNoResources}) {
    state().fail_with = MakeError(code);
    EXPECT_EQ(Run({"put", "k", "v"}), 1);
    EXPECT_THAT(err_, StartsWith("gossamer: "));
    EXPECT_GT(err_.size(), 30U) << "a sentence, not a code: " << err_;
  }
  state().fail_with = MakeError(Code::kCorruption, "node 1:4096 \xff");
  EXPECT_EQ(Run({"stat"}), 1);
  EXPECT_EQ(err_, "gossamer: node 1:4096 \\xff\n");
}

TEST(FindCommand, SaysWhatIsWrong) {
  const auto message = [](const std::vector<std::string>& words,
                          const std::vector<std::string>& flags = {}) {
    const Result<const Command*> found = FindCommand(words, flags);
    return found ? "found"s : found.error().message;
  };
  EXPECT_EQ(message({"get", "k"}, {"store", "json", "escaped"}), "found");
  EXPECT_EQ(message({"gte", "k"}),
            "there is no command 'gte'; `gossamer help` lists those there are");
  EXPECT_EQ(message({"get"}), "`get` got 0 arguments; write: gossamer get KEY");
  EXPECT_EQ(message({"scan", "k"}), "`scan` got 1 argument; write: gossamer scan");
  EXPECT_EQ(message({"get", "k"}, {"limit"}), "`get` takes no --limit; see `gossamer help get`");
}

TEST(Help, NamesEveryCommandAndFitsATerminal) {
  std::string text = HelpOverview();
  for (const Command& command : Commands()) {
    EXPECT_THAT(text, HasSubstr("gossamer " + std::string(command.name)));
    text += HelpCommand(command, [](std::string_view) { return "what it does"; });
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

}  // namespace
}  // namespace gossamer::cli
