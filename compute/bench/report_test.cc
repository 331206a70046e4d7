#include "compute/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "common/testing/built_paths.h"
#include "compute/bench/key_list_test_support.h"
#include "compute/testing/fake_store.h"

namespace gossamer::bench {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

BenchReport ReportOf(const char* workload, Code failure = Code::kContended, uint64_t interval = 0) {
  FakeStore store;
  BenchReport report;
  report.config = {{"workload", workload}, {"records", 500}};
  report.options.workload = *FindWorkload(workload);
  report.options.records = 500;
  report.options.operations = 2'000;
  report.store_description = "a fake store";
  report.loaded = true;
  report.load = LoadRecords(store, report.options).value();
  if (interval != 0) store.state().fail_with = MakeError(failure, "as the test asked");
  store.state().fail_interval = interval;
  report.ran = true;
  report.run = RunWorkload(store, report.options).value();
  return report;
}

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

constexpr const char* kWireFields[] = {"operations", "round_trips", "reads",      "writes",
                                       "cas",        "sends",       "bytes_read", "bytes_written"};

// The external contract: every key of schema 1, in any workload.
void ExpectSchema(const Json& json) {
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_TRUE(json.at("config").is_object());
  for (const char* field : {"version", "compiler", "type"}) {
    EXPECT_FALSE(json.at("build").at(field).get<std::string>().empty()) << field;
  }
  for (const char* phase : {"load", "run"}) {
    EXPECT_TRUE(json.at(phase).at("operations").is_number_unsigned());
    EXPECT_TRUE(json.at(phase).at("seconds").is_number_float());
    EXPECT_TRUE(json.at(phase).at("ops_per_second").is_number());
  }
  for (const char* name : {"read", "update", "insert", "scan", "delete"}) {
    const Json& latency = json.at("run").at("latency_us").at(name);
    EXPECT_THAT(Keys(latency),
                testing::ElementsAre("count", "mean", "p50", "p90", "p99", "p999", "max"));
    EXPECT_LE(latency.at("p50"), latency.at("p90"));
    EXPECT_LE(latency.at("p90"), latency.at("p99"));
    EXPECT_LE(latency.at("p99"), latency.at("p999"));
    EXPECT_LE(latency.at("p999"), latency.at("max"));
  }
  for (const char* name : {"read", "update", "insert", "insert_split", "delete", "scan"}) {
    EXPECT_THAT(Keys(json.at("wire").at(name)), testing::ElementsAreArray(kWireFields));
  }
  EXPECT_THAT(Keys(json.at("cache")),
              testing::ElementsAre("bytes", "hits", "misses", "stale", "evictions", "filled",
                                   "along", "along_right"));
  EXPECT_THAT(Keys(json.at("locks")),
              testing::ElementsAre("acquired", "handed_over", "combined", "remote_retries"));
  EXPECT_TRUE(json.at("rereads").is_number_unsigned());
  EXPECT_TRUE(json.at("errors").is_object());
}

TEST(JsonTest, KeepsTheContractForEveryWorkload) {
  for (const char* workload : {"a", "b", "c", "d", "e", "f", "u"}) {
    SCOPED_TRACE(workload);
    const Json json = ToJson(ReportOf(workload));
    ExpectSchema(Json::parse(json.dump()));
    EXPECT_EQ(json.at("load").at("operations"), 500);
    EXPECT_EQ(json.at("run").at("operations"), 2'000);
    EXPECT_TRUE(json.at("errors").empty());
    EXPECT_EQ(json.at("interrupted"), false);
    EXPECT_EQ(json.at("run").at("latency_us").contains("read_modify_write"), workload[0] == 'f');
  }
}

TEST(JsonTest, KeepsTheContractWhenNothingRan) {
  BenchReport report;
  report.config = Json::object();
  report.options.workload = *FindWorkload("c");
  ExpectSchema(Json::parse(ToJson(report).dump()));
}

TEST(JsonTest, WireCountsAreThoseOfTheRunPhase) {
  const Json json = ToJson(ReportOf("c"));
  EXPECT_EQ(json.at("wire").at("read").at("operations"), 2'000);
  EXPECT_EQ(json.at("wire").at("read").at("round_trips"), 2'000);
  EXPECT_EQ(json.at("wire").at("read").at("bytes_read"), 2'000 * FakeStore::kBytes);
  EXPECT_EQ(json.at("wire").at("insert").at("operations"), 0);
  EXPECT_EQ(json.at("load").at("wire").at("insert").at("operations"), 500);
}

TEST(JsonTest, ErrorsAreCountedByName) {
  const Json json = ToJson(ReportOf("a", Code::kExhausted, 20));
  EXPECT_EQ(json.at("errors"), Json::parse(R"({"Exhausted": 100})"));
}

// ---- docs/bench.md

// Adds the paths of all values in `json`. Names that depend on flags or events are replaced by
// their kind: config.FLAG, run.errors.CODE.
void AddPaths(const Json& json, const std::string& parent, std::set<std::string>& paths) {
  for (const auto& [key, value] : json.items()) {
    std::string name = key;
    if (parent == "config") {
      name = "FLAG";
    } else if (parent.ends_with("latency_us")) {
      name = "KIND";
    } else if (parent.ends_with("wire")) {
      name = "CLASS";
    } else if (parent.ends_with("errors")) {
      name = "CODE";
    }
    std::string path = parent;
    if (!path.empty()) path += '.';
    path += name;
    if (value.is_object()) {
      AddPaths(value, path, paths);
    } else {
      paths.insert(path);
    }
  }
}

// The fields in the first column of the JSON table.
std::set<std::string> DocumentedFields() {
  std::ifstream file(SourceFile("docs/bench.md"));
  std::set<std::string> fields;
  bool in_json = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) in_json = line == "## The JSON";
    if (!in_json || !line.starts_with("| `")) continue;
    const std::string column = line.substr(2, line.find(" |") - 2);
    for (size_t at = 0; (at = column.find('`', at)) != std::string::npos;) {
      const size_t end = column.find('`', at + 1);
      fields.insert(column.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return fields;
}

TEST(DocumentTest, ExplainsEveryFieldOfTheJsonAndNoOther) {
  BenchReport report = ReportOf("f", Code::kContended, 20);
  report.load.errors.Add(MakeError(Code::kExhausted));
  report.server.emplace();
  std::set<std::string> paths;
  AddPaths(ToJson(report), "", paths);
  report.options.share = {.processes = 2, .rank = 1};  // one of several processes
  AddPaths(ToJson(report), "", paths);
  report.processes.resize(2);  // all of them
  AddPaths(ToJson(report), "", paths);
  EXPECT_EQ(DocumentedFields(), paths);
}

TEST(JsonTest, EachPhaseCountsItsFailuresOnce) {
  for (const char* workload : {"a", "e", "f"}) {
    SCOPED_TRACE(workload);
    BenchReport report = ReportOf(workload, Code::kExhausted, 20);
    report.load.errors.Add(MakeError(Code::kContended));
    const Json json = ToJson(report);
    const uint64_t failed = json.at("run").at("failed").get<uint64_t>();
    EXPECT_GT(failed, 0u);
    EXPECT_EQ(json.at("run").at("operations").get<uint64_t>() + failed, 2'000u);
    EXPECT_EQ(json.at("run").at("errors"), Json({{"Exhausted", failed}}));
    EXPECT_EQ(json.at("load").at("failed"), 1);
    EXPECT_EQ(json.at("load").at("errors"), Json({{"Contended", 1}}));
    EXPECT_EQ(json.at("errors").at("Exhausted"), failed);
    EXPECT_EQ(json.at("errors").at("Contended"), 1);
  }
}

TEST(JsonTest, BothPhasesHaveCacheAndLocks) {
  const Json json = ToJson(ReportOf("a"));
  EXPECT_EQ(json.at("load").at("locks").at("acquired"), 500);
  EXPECT_EQ(json.at("load").at("cache").at("hits"), 500);
  EXPECT_EQ(json.at("load").at("rereads"), 0);
  EXPECT_EQ(Keys(json.at("load").at("cache")), Keys(json.at("cache")));
  EXPECT_EQ(Keys(json.at("load").at("locks")), Keys(json.at("locks")));
}

TEST(ProvenanceTest, NamesMachineMomentAndCommit) {
  BenchReport report = ReportOf("c");
  report.provenance = ThisProvenance("0123456789abcdef");
  const Json json = ToJson(report);
  EXPECT_EQ(json.at("build").at("commit"), "0123456789abcdef");
  EXPECT_FALSE(json.at("host").at("name").get<std::string>().empty());
  EXPECT_FALSE(json.at("host").at("operating_system").get<std::string>().empty());
  EXPECT_GE(json.at("host").at("processors"), 1);
  EXPECT_THAT(json.at("date").get<std::string>(),
              testing::ContainsRegex("^20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:"
                                     "[0-6][0-9]Z$"));
  EXPECT_THAT(ToText(report), HasSubstr("; commit 0123456789abcdef\n"));
}

TEST(TextTest, SaysWhatAPersonWantsToKnow) {
  const std::string text = ToText(ReportOf("a"));
  EXPECT_THAT(text, HasSubstr("workload a, zipfian (theta 0.99); 500 records of 8 + 8 B"));
  EXPECT_THAT(text, HasSubstr("a fake store"));
  EXPECT_THAT(text, HasSubstr("load: 500 operations in "));
  EXPECT_THAT(text, HasSubstr("run: 2,000 operations in "));
  EXPECT_THAT(text, HasSubstr("of processor time each"));
  EXPECT_THAT(text, HasSubstr("p99.9"));
  EXPECT_THAT(text, HasSubstr("round trips"));
  EXPECT_THAT(text, HasSubstr("no errors"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nterrupted")));
}

TEST(TextTest, SaysWhatKeysAreMadeOf) {
  BenchReport report = ReportOf("a");
  report.options.keys.key_bytes = 24;
  EXPECT_THAT(ToText(report), HasSubstr("500 records of 24 + 8 B; 1 thread"));
  report.options.keys.prefix = "tenant/\xff";
  EXPECT_THAT(ToText(report), HasSubstr("500 records of 24 + 8 B, prefix \"tenant/\\xff\"; 1 th"));
  report.options.keys.prefix.clear();
  report.options.keys.form = KeyForm::kYcsb;
  EXPECT_THAT(ToText(report),
              HasSubstr("500 records of up to 33 + 8 B, keys of go-ycsb; 1 thread"));
  const KeyFile file("a\nlong\n");
  report.options.keys.form = KeyForm::kLines;
  report.options.keys.list = std::make_shared<const KeyList>(KeyList::Read(file.options()).value());
  EXPECT_THAT(ToText(report),
              HasSubstr("500 records of up to 4 + 8 B, keys of " + file.path() + "; 1 thread"));
}

TEST(TextTest, SaysWhatWentWrong) {
  BenchReport report = ReportOf("a", Code::kContended, 20);
  report.interrupted = true;
  const std::string text = ToText(report);
  EXPECT_THAT(text,
              HasSubstr("100 operations failed:\n  Contended 100, the first: as the test asked"));
  EXPECT_THAT(text, HasSubstr("run: 1,900 operations in "));
  EXPECT_THAT(text, HasSubstr(", 100 failed, "));
  EXPECT_THAT(text, HasSubstr("Interrupted: the figures are of what ran until then."));
}

}  // namespace
}  // namespace gossamer::bench
