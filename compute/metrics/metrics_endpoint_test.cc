// The metrics of a program that uses a store: its sums agree with what the sessions have counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/admin/testing/raw_client.h"
#include "gossamer/metrics.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

LocalOptions Watched(std::shared_ptr<StoreObserver> observer) {
  LocalOptions options;
  options.memory_bytes = uint64_t{64} << 20;
  options.observer = std::move(observer);
  return options;
}

std::string Get(const std::string& address, const std::string& path) {
  return RawClient(address).Get(path);
}
Json State(const std::string& address) {
  const std::string reply = Get(address, "/state");
  return Json::parse(reply.substr(reply.find("\r\n\r\n")));
}
// The sample of /metrics with that name and those labels.
std::string Sample(const std::string& name, uint64_t value) {
  return "\n" + name + " " + std::to_string(value) + "\n";
}

TEST(MetricsEndpointTest, SumsAgreeWithTheSessions) {
  const auto metrics = ServeMetrics({.address = "127.0.0.1:0", .program = "shop"});
  EXPECT_EQ(metrics->address(), "");
  const auto store = Store::OpenLocal(Watched(metrics));
  ASSERT_TRUE(store) << store.error().ToString();
  const std::string address = metrics->address();
  EXPECT_THAT(address, StartsWith("127.0.0.1:"));

  constexpr int kThreads = 2;
  constexpr int kKeys = 300;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < kThreads; ++i) {
    sessions.push_back(std::move(store.value()->NewSession().value()));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&session = *sessions[static_cast<size_t>(i)], i] {
      for (int key = 0; key < kKeys; ++key) {
        const std::string name = std::to_string(i) + ":" + std::to_string(key);
        EXPECT_TRUE(session.Put(name, "value"));
        EXPECT_TRUE(session.Get(name));
      }
    });
  }
  // Asked while they count.
  EXPECT_THAT(Get(address, "/metrics"), HasSubstr("\ngossamer_operations_total{class=\"read\"} "));
  for (std::thread& thread : threads) thread.join();

  Counters sum;
  for (const auto& session : sessions) sum += session->counters();
  EXPECT_EQ(sum.of(OperationClass::kRead).operations, uint64_t{kThreads} * kKeys);
  for (const bool have_ended : {false, true}) {
    if (have_ended) sessions.clear();
    const std::string text = Get(address, "/metrics");
    for (const OperationClass one : {OperationClass::kRead, OperationClass::kInsert}) {
      const std::string label = "{class=\"" + std::string(OperationClassName(one)) + "\"}";
      EXPECT_THAT(text,
                  HasSubstr(Sample("gossamer_operations_total" + label, sum.of(one).operations)));
      EXPECT_THAT(text,
                  HasSubstr(Sample("gossamer_round_trips_total" + label, sum.of(one).round_trips)));
    }
    EXPECT_THAT(text,
                HasSubstr(Sample("gossamer_cache_lookups_total{result=\"hit\"}", sum.cache.hits)));
    EXPECT_THAT(text, HasSubstr(Sample("gossamer_locks_acquired_total", sum.locks.acquired)));
    EXPECT_THAT(text, HasSubstr(Sample("gossamer_sessions", have_ended ? 0 : kThreads)));
    EXPECT_THAT(text, HasSubstr("gossamer_build_info{version="));
    EXPECT_EQ(State(address)["operations"]["read"]["operations"], uint64_t{kThreads} * kKeys);
  }
  EXPECT_THAT(Get(address, "/readyz"), HasSubstr("\r\n\r\nready\n"));
  EXPECT_EQ(State(address)["program"], "shop");
}

TEST(MetricsEndpointTest, StateDescribesTheStore) {
  const auto metrics = ServeMetrics({.address = "127.0.0.1:0"});
  const auto store = Store::OpenLocal(Watched(metrics));
  ASSERT_TRUE(store) << store.error().ToString();
  Json state;
  for (int again = 600; again > 0 && !state.contains("servers"); --again) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    state = State(metrics->address());
  }
  EXPECT_EQ(state["store"], "local");
  ASSERT_EQ(state["servers"].size(), 1u);
  EXPECT_GT(state["servers"][0]["heap_bytes"], uint64_t{32} << 20);
  EXPECT_EQ(state["program"], "metrics_endpoint_test") << "the name of the process";
}

TEST(MetricsEndpointTest, EndsWithTheStoreAndServesTheNextOne) {
  const auto metrics = ServeMetrics({.address = "127.0.0.1:0"});
  std::string address;
  for (int stores = 2; stores > 0; --stores) {
    const auto store = Store::OpenLocal(Watched(metrics));
    ASSERT_TRUE(store) << store.error().ToString();
    address = metrics->address();
    EXPECT_THAT(Get(address, "/healthz"), HasSubstr("ok"));
    const auto second = Store::OpenLocal(Watched(metrics));
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("give each store its own"));
    EXPECT_THAT(Get(address, "/healthz"), HasSubstr("ok")) << "the first one is still served";
  }
  EXPECT_EQ(metrics->address(), "");
  // The port is free again.
  const auto other = Store::OpenLocal(Watched(ServeMetrics({.address = address})));
  EXPECT_TRUE(other) << other.error().ToString();
}

TEST(MetricsEndpointTest, SaysWhatIsWrongWithTheAddress) {
  const auto refusal = [](const std::string& address, bool for_other_machines = false) {
    const auto metrics =
        ServeMetrics({.address = address, .for_other_machines = for_other_machines});
    const auto store = Store::OpenLocal(Watched(metrics));
    EXPECT_FALSE(store);
    return store ? std::string() : store.error().message;
  };
  EXPECT_THAT(refusal("here"), HasSubstr("'here' is no ADDRESS:PORT"));
  EXPECT_THAT(refusal("0.0.0.0:0"), HasSubstr("may be reached from other machines"));
  const auto metrics = ServeMetrics({.address = "127.0.0.1:0"});
  const auto store = Store::OpenLocal(Watched(metrics));
  ASSERT_TRUE(store);
  EXPECT_EQ(refusal(metrics->address(), true),
            "cannot listen on " + metrics->address() +
                ": Address already in use; give another address of the metrics");
}

// An observer is told of the end also if the store cannot be opened.
TEST(MetricsEndpointTest, AStoreThatIsNotThereLeavesNothing) {
  OpenOptions options;
  options.bootstrap = "dir:/nonexistent";
  const auto metrics = ServeMetrics({.address = "127.0.0.1:0"});
  options.observer = metrics;
  EXPECT_FALSE(Store::Open(options));
  EXPECT_EQ(metrics->address(), "");
}

}  // namespace
}  // namespace gossamer
