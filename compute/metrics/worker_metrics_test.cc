#include "compute/metrics/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/admin/testing/metrics_text.h"
#include "compute/metrics/store_watch.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = WorkerMetrics::Clock;
using namespace std::chrono_literals;

Counters Reads(uint64_t operations, uint64_t cache_bytes = 0) {
  Counters counters;
  counters.of(OperationClass::kRead).operations = operations;
  counters.cache.bytes = cache_bytes;
  return counters;
}

class WorkerMetricsTest : public ::testing::Test {
 protected:
  std::string MetricsText() const {
    Families families;
    metrics_.AddTo(families);
    return prometheus::TextSerializer().Serialize(families.Take());
  }
  uint64_t ReadsInTotal() const {
    return metrics_.Total().counters.of(OperationClass::kRead).operations;
  }

  WorkerMetrics metrics_{{"get", "set"}};
};

TEST_F(WorkerMetricsTest, SumsWhatWorkersHavePublished) {
  const auto first = metrics_.AddWorker();
  const auto second = metrics_.AddWorker();
  first->RecordCommand(0, 1000ns, false);
  first->numbers().connected = 2;
  second->RecordCommands(0, 5000, 3);
  second->RecordError(1);
  second->numbers() = {.connected = 1, .accepted = 4, .bytes_received = 10, .bytes_sent = 20};
  EXPECT_EQ(metrics_.Total().commands[0].latency_ns.count(), 0u) << "nothing is published yet";
  first->Publish(Clock::now(), Reads(7, 100));
  second->Publish(Clock::now(), Reads(5, 90));

  const WorkerFigures total = metrics_.Total();
  EXPECT_EQ(total.counters.of(OperationClass::kRead).operations, 12u);
  EXPECT_EQ(total.counters.cache.bytes, 100u) << "the sessions share one cache";
  EXPECT_EQ(total.commands[0].latency_ns.count(), 4u);
  EXPECT_EQ(total.commands[1].errors, 1u);
  EXPECT_EQ(total.clients.connected, 3u);
  EXPECT_EQ(metrics_.workers(), 2u);
}

TEST_F(WorkerMetricsTest, CountsRefusalsApartFromCommandsThatRan) {
  const auto worker = metrics_.AddWorker();
  worker->RecordCommand(1, 10ns, false);
  worker->RecordError(1);
  worker->RecordRejected(1);
  worker->RecordRejected(1);
  worker->numbers().unknown_requests = 4;
  worker->Publish(Clock::now(), {});
  const WorkerFigures total = metrics_.Total();
  EXPECT_EQ(total.commands[1].latency_ns.count(), 1U);
  EXPECT_EQ(total.commands[1].errors, 1U);
  EXPECT_EQ(total.commands[1].rejected, 2U);
  const std::string text = MetricsText();
  EXPECT_THAT(text, AllOf(HasSubstr("gossamer_command_errors_total{command=\"set\"} 3\n"),
                          HasSubstr("gossamer_client_unknown_requests_total 4\n")));
  EXPECT_EQ(metrics_.State()["clients"]["unknown_requests"], 4);
  EXPECT_EQ(metrics_.State()["commands"]["set"]["errors"], 3);
}

TEST_F(WorkerMetricsTest, TellsTheRateOfTheLastSecond) {
  const auto worker = metrics_.AddWorker();
  const Clock::time_point begin = Clock::now();
  worker->RecordCommands(0, 10, 1000);
  worker->Publish(begin, {});
  EXPECT_EQ(metrics_.Total().commands_per_second, 0);
  worker->RecordCommands(0, 10, 500);
  worker->Publish(begin + std::chrono::milliseconds(500), {});
  worker->RecordCommand(1, 10ns, false);
  worker->Publish(begin + std::chrono::seconds(1), {});
  EXPECT_DOUBLE_EQ(metrics_.Total().commands_per_second, 501);
  worker->Publish(begin + std::chrono::seconds(3), {});
  EXPECT_EQ(metrics_.Total().commands_per_second, 0);
}

TEST_F(WorkerMetricsTest, KeepsTheCountsOfWorkersThatEnded) {
  auto worker = metrics_.AddWorker();
  worker->numbers() = {.connected = 2, .accepted = 2};
  worker->Publish(Clock::now(), Reads(7, 100));
  worker->RecordCommand(1, 10ns, false);  // published by its end
  worker.reset();
  const WorkerFigures total = metrics_.Total();
  EXPECT_EQ(total.counters.of(OperationClass::kRead).operations, 7u);
  EXPECT_EQ(total.commands[1].latency_ns.count(), 1u);
  EXPECT_EQ(total.clients.accepted, 2u);
  EXPECT_EQ(total.clients.connected, 0u);
  EXPECT_EQ(total.counters.cache.bytes, 0u);
  EXPECT_EQ(metrics_.workers(), 0u);
}

TEST_F(WorkerMetricsTest, FamiliesAndStateTellTheSum) {
  const auto worker = metrics_.AddWorker();
  worker->RecordCommands(0, 2'000, 3);
  worker->RecordCommand(0, 4ms, false);
  worker->numbers() = {.connected = 1, .accepted = 4, .bytes_received = 10, .bytes_sent = 20};
  worker->Publish(Clock::now(), Reads(4));
  const std::string text = MetricsText();
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  EXPECT_THAT(text,
              AllOf(HasSubstr("gossamer_workers 1\n"), HasSubstr("gossamer_connected_clients 1\n"),
                    HasSubstr("gossamer_client_connections_total 4\n"),
                    HasSubstr("gossamer_client_bytes_total{direction=\"received\"} 10\n"),
                    HasSubstr("gossamer_client_bytes_total{direction=\"sent\"} 20\n"),
                    HasSubstr("gossamer_command_errors_total{command=\"set\"} 0\n"),
                    HasSubstr("gossamer_command_duration_seconds_count{command=\"get\"} 4\n"),
                    HasSubstr("duration_seconds_bucket{command=\"get\",le=\"2.5e-06\"} 3\n")));
  const auto state = metrics_.State();
  EXPECT_EQ(state["clients"]["commands"], 4);
  EXPECT_FALSE(state["commands"].contains("set")) << "never used";
  EXPECT_EQ(state["commands"]["get"]["latency_buckets_ns"].dump(), "[[2047,3],[4194303,1]]");
  EXPECT_EQ(state["operations"]["read"]["operations"], 4);
}

// With a reader that never rests, all that workers count arrives at last, and sums never fall.
TEST_F(WorkerMetricsTest, WorkersAndReadersMayRunTogether) {
  constexpr uint64_t kRounds = 2000;
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto worker = metrics_.AddWorker();
      for (uint64_t round = 1; round <= kRounds; ++round) {
        worker->RecordCommand(round % 2, std::chrono::nanoseconds(round), false);
        worker->Publish(Clock::now(), Reads(round));
      }
      --running;
    });
  }
  uint64_t before = 0;
  while (running != 0) {
    const uint64_t now = ReadsInTotal();
    EXPECT_GE(now, before);
    before = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadsInTotal(), 4 * kRounds);
  EXPECT_EQ(metrics_.Total().commands[0].latency_ns.count(), 2 * kRounds);
}

TEST(StoreStateTest, TellsServersAndWhyOneIsUnreachable) {
  StoreStat stat;
  stat.store = "s";
  stat.fabric = "shm";
  stat.servers.resize(2);
  stat.servers[0].heap_bytes = 100;
  stat.servers[1].server_id = 1;
  stat.servers[1].unreachable = "it is gone";
  const auto state = StatState(stat);
  EXPECT_EQ(state["servers"][0]["heap_bytes"], 100);
  EXPECT_EQ(state["servers"][1].dump(), R"({"id":1,"address":"","unreachable":"it is gone"})");
}

}  // namespace
}  // namespace gossamer
