// The live page in headless Chromium, fed by a state that changes with each poll. Skipped where
// there is no Chromium.
//
// To look at it: GOSSAMER_PAGE_PICTURE=FILE.png [GOSSAMER_PAGE_FLAGS="FLAG…"]
// [GOSSAMER_PAGE_SIZE=1280,800] admin_page_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/admin/admin_server.h"
#include "common/testing/child_process.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

std::string Environment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? otherwise : value;
}

bool HasChromium() {
  std::istringstream path(Environment("PATH", ""));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (access((folder + "/chromium").c_str(), X_OK) == 0) return true;
  }
  return false;
}

// A compute server under a load that swings, `second` seconds after its start.
class FakeCompute {
 public:
  Json StateAt(double second) {
    while (second_ < second) Step();
    Json operations = Json::object();
    const auto add = [&](const char* name, double count, double trips, double bytes_read) {
      operations[name] = {
          {"operations", std::floor(count)},
          {"round_trips", std::floor(count * trips)},
          {"reads", std::floor(count * trips)},
          {"writes", name == std::string("read") ? 0 : std::floor(count)},
          {"atomics", name == std::string("read") ? 0 : std::floor(count)},
          {"sends", 0},
          {"bytes_read", std::floor(count * bytes_read)},
          {"bytes_written", name == std::string("read") ? 0 : std::floor(count * 172)}};
    };
    add("read", reads_, 1.04, 171);
    add("update", updates_, 2.01, 190);
    add("insert", inserts_, 2.12, 240);
    add("insert_split", inserts_ / 14, 3.4, 2100);
    add("delete", inserts_ / 8, 2.02, 180);
    add("scan", inserts_ / 20, 1.3, 9000);
    return {
        {"program", "gossamer-compute"},
        {"version", "0.1.0"},
        {"uptime_seconds", second},
        {"store", "orders"},
        {"fabric", "verbs"},
        {"workers", 8},
        {"clients", {{"connected", 212}, {"commands", std::floor(reads_)}}},
        {"commands",
         {{"get", Command(reads_, latencies_["get"])},
          {"set", Command(updates_, latencies_["set"])},
          {"zrange", Command(inserts_ / 20, latencies_["zrange"])}}},
        {"operations", operations},
        {"cache",
         {{"bytes", 142'000'000},
          {"hits", std::floor(hits_)},
          {"misses", std::floor(reads_ - hits_)}}},
        {"locks",
         {{"acquired", std::floor(updates_)},
          {"handed_over", std::floor(updates_ * 0.31)},
          {"combined", std::floor(updates_ * 0.12)},
          {"remote_retries", std::floor(updates_ * 0.05)}}},
        {"servers", Servers()},
        {"leases", Json::array({{{"compute_id", 1},
                                 {"incarnation", 3},
                                 {"process", "process 4711 on host ant"},
                                 {"memory_bytes", 9'663'676'416}},
                                {{"compute_id", 2},
                                 {"incarnation", 1},
                                 {"process", "process 812 on host bee"},
                                 {"memory_bytes", 6'442'450'944}}})},
        {"hot_leaves",
         Json::array(
             {{{"leaf", "2:0x3f8400"}, {"first_key", "user:0001742"}, {"operations", 91'200}},
              {{"leaf", "0:0x11c00"}, {"first_key", "user:0093310"}, {"operations", 40'100}},
              {{"leaf", "1:0x7a000"}, {"first_key", "<b>cart:77</b>"}, {"operations", 17'900}}})}};
  }

 private:
  void Step() {
    second_ += 1;
    const double swing = 1 + 0.18 * std::sin(second_ / 9) + 0.03 * std::sin(second_ * 1.7);
    reads_ += 1'840'000 * swing;
    updates_ += 420'000 * (2 - swing);
    inserts_ += 61'000 * swing;
    hit_rate_ += (0.985 - hit_rate_) * 0.03;
    hits_ += 1'840'000 * swing * hit_rate_;
    Spread("get", 1'840'000 * swing, 5'200);
    Spread("set", 420'000 * (2 - swing), 9'800);
    Spread("zrange", 3'000 * swing, 31'000);
  }
  // `buckets`: of all steps so far.
  static Json Command(double count, const std::map<uint64_t, double>& buckets) {
    Json list = Json::array();
    for (const auto& [upper, times] : buckets) list.push_back({upper, std::floor(times)});
    return {{"count", std::floor(count)}, {"errors", 0}, {"latency_buckets_ns", list}};
  }
  // Adds `count` latencies around `middle_ns`, with a long tail.
  void Spread(const std::string& command, double count, double middle_ns) {
    const double wave = 1 + 0.2 * std::sin(second_ / 14);
    for (double step = -8; step <= 40; ++step) {
      const double share =
          step <= 0 ? std::exp(-step * step / 14) : std::exp(-step / (1.9 + 0.35 * wave));
      const double upper = std::exp2(std::floor(8 * std::log2(middle_ns) + step) / 8);
      latencies_[command][static_cast<uint64_t>(upper)] += count / 6.4 * share;
    }
  }
  static Json Servers() {
    Json servers = Json::array();
    for (int i = 0; i < 3; ++i) {
      constexpr uint64_t kHeap = uint64_t{64} << 30;
      servers.push_back({{"id", i},
                         {"address", "10.0.0." + std::to_string(11 + i) + ":7400"},
                         {"heap_bytes", kHeap},
                         {"free_bytes", kHeap / 20 * (7 + i)},
                         {"node_bytes", kHeap / 20 * (10 - i)},
                         {"block_bytes", kHeap / 20 * 3},
                         {"waiting_bytes", kHeap / 60},
                         {"orphaned_bytes", i == 2 ? kHeap / 40 : 0},
                         {"compute_servers", 2},
                         {"lock_table", i == 1 ? "device" : "dram"}});
    }
    servers.push_back({{"id", 3},
                       {"address", "10.0.0.14:7400"},
                       {"unreachable", "server 3 at 10.0.0.14:7400 does not answer"}});
    return servers;
  }

  double second_ = 0;
  double reads_ = 0;
  double updates_ = 0;
  double inserts_ = 0;
  double hit_rate_ = 0.6;
  double hits_ = 0;
  std::map<std::string, std::map<uint64_t, double>> latencies_;
};

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasChromium()) GTEST_SKIP() << "no chromium";
    char pattern[] = "/tmp/gossamer-page-XXXXXX";
    profile_ = mkdtemp(pattern);
  }
  void TearDown() override {
    if (!profile_.empty()) std::filesystem::remove_all(profile_);
  }

  // What Chromium writes after `seconds` of the page's time, in which it waits for nothing but
  // replies.
  std::string Browse(std::function<Json()> state, int seconds,
                     const std::vector<std::string>& flags) {
    AdminContent content;
    content.state = std::move(state);
    const auto server = AdminServer::Start({.address = "127.0.0.1:0"}, std::move(content));
    EXPECT_TRUE(server);
    std::vector<std::string> words = {
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--user-data-dir=" + profile_,
        "--virtual-time-budget=" + std::to_string(seconds * 1000),
        "--window-size=" + Environment("GOSSAMER_PAGE_SIZE", "1280,800")};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("http://" + server.value()->address() + "/");
    ChildProcess browser(words);
    EXPECT_EQ(browser.Wait(std::chrono::seconds(120)), 0) << browser.standard_error();
    return browser.standard_output();
  }

  std::string profile_;
};

TEST_F(PageTest, DrawsWhatStateHas) {
  FakeCompute compute;
  double second = 0;
  const std::string page = Browse([&] { return compute.StateAt(second += 1); }, 30, {"--dump-dom"});
  EXPECT_GT(second, 20);
  for (const char* const text :
       {"gossamer-compute", "Throughput", "Latency p99", "Cache hit rate", "insert_split", "zrange",
        "Memory servers", "10.0.0.12:7400", "does not answer",
        "compute servers: 2, lock table: device", "process 4711 on host ant", "user:0001742"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;cart:77&lt;/b&gt;")) << "keys are text, not HTML";
  EXPECT_THAT(page, HasSubstr("class=\"status good\" role=\"status\">ready<"));
  EXPECT_THAT(
      page.substr(0, page.find("<script>")),
      AllOf(Not(HasSubstr("NaN")), Not(HasSubstr("undefined")), Not(HasSubstr("Infinity"))));
}

TEST_F(PageTest, LeavesOutWhatStateHasNot) {
  for (const Json& state : {Json::object(), Json{{"not_ready", "it starts"},
                                                 {"servers", Json::array({Json::object()})},
                                                 {"commands", {{"get", Json::object()}}},
                                                 {"operations", {{"read", Json::object()}}},
                                                 {"cache", Json::object()},
                                                 {"locks", Json::object()},
                                                 {"leases", Json::array({Json::object()})},
                                                 {"hot_leaves", Json::array({Json::object()})}}}) {
    std::string page = Browse([&] { return state; }, 8, {"--dump-dom"});
    EXPECT_THAT(page, HasSubstr(state.empty() ? "role=\"status\">ready<"
                                              : "role=\"status\">not ready: it starts<"));
    page.resize(page.find("<script>"));
    EXPECT_THAT(page, AllOf(Not(HasSubstr("NaN")), Not(HasSubstr("undefined")),
                            Not(HasSubstr("Infinity"))));
  }
}

TEST_F(PageTest, HasItsPictureTaken) {
  const std::string picture = Environment("GOSSAMER_PAGE_PICTURE", profile_ + "/page.png");
  FakeCompute compute;
  double second = 0;
  std::vector<std::string> flags = {"--screenshot=" + picture};
  std::istringstream more(Environment("GOSSAMER_PAGE_FLAGS", ""));
  for (std::string flag; more >> flag;) flags.push_back(flag);
  Browse([&] { return compute.StateAt(second += 1); }, 135, flags);
  EXPECT_GT(std::filesystem::file_size(picture), 10'000u);
}

}  // namespace
}  // namespace gossamer
