#include "compute/store/testing/simulated_clients.h"

#include <utility>

#include "common/fabric/open/open_port.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {

using namespace std::chrono_literals;

SimulatedClients::~SimulatedClients() {
  if (worker_.store != nullptr) worker_.store->StopKeepingLeases();
}

void SimulatedClients::StartMemory(uint32_t servers, uint64_t memory_bytes, uint64_t chunk_bytes) {
  EmbeddedMemoryOptions memory;
  memory.memory_bytes = memory_bytes;
  memory.chunk_bytes = chunk_bytes;
  memory.parameters = {1024, 8, 8};
  memory.network = &network_;
  memory.lease_ms = 2000;
  record_.store = "simulated";
  record_.store_id = 1;
  memory_ = std::move(StartSimulatedMemory(memory, servers, record_).value());
  Publish(record_);
}

void SimulatedClients::Publish(const StoreRecord& record) {
  record_ = record;
  bootstrap_->Overwrite(record_.store, EncodeStoreRecord(record_));
}

void SimulatedClients::StartWorker() {
  worker_ = Open(1);
  work_ = &worker_.New();
  work_->Spawn(worker_.store->KeepLeases(work_->scheduler()));
}

SimulatedClient SimulatedClients::Open(uint64_t uuid) {
  ComputePortOptions port;
  port.client_uuid = uuid;
  port.network = &network_;
  TreeOptions tree;
  tree.memory_patience_ms = 0;  // where nobody renews leases, waiting loses them
  tree.seed = uuid;
  auto opened = OpenComputePort(FabricKind::kSim, port);
  return {
      std::move(OpenStore::OpenOn(std::move(opened.value()), record_, tree, bootstrap_).value()),
      {}};
}

bool SimulatedClients::IsInForce(uint64_t uuid, ServerId server) {
  for (const LeaseInForce& each : memory_[ToInteger(server)]->Granted().in_force) {
    if (each.client_uuid == uuid) return true;
  }
  return false;
}

uint64_t SimulatedClients::BytesOf(uint64_t uuid, ServerId server) {
  uint64_t bytes = 0;
  for (const GrantedExtent& each : memory_[ToInteger(server)]->Granted().extents) {
    if (each.client_uuid == uuid) bytes += each.bytes;
  }
  return bytes;
}

void SimulatedClients::Pass(std::chrono::milliseconds time) {
  Scheduler& scheduler = work_->scheduler();
  const auto sleep = [&]() -> Task<Status> {
    co_await scheduler.SleepFor(time);
    co_return Ok();
  };
  ASSERT_TRUE(work_->RunToEnd(sleep()));
}

void SimulatedClients::Sweep() {
  const Result<SweepReport> report = work_->RunToEnd(worker_.store->SweepOver(work_->scheduler()));
  ASSERT_TRUE(report) << report.error().ToString();
}

void SimulatedClients::OutliveAndSweep() {
  ASSERT_NO_FATAL_FAILURE(Pass(5000ms));
  ASSERT_FALSE(IsInForce(kStalled));
  ASSERT_NO_FATAL_FAILURE(Sweep());
}

uint64_t SimulatedClients::FillMemory(uint64_t first, std::string_view value) {
  uint64_t key = first;
  while (work_->Put(NumberKey(key), value)) ++key;
  return key;
}

void SimulatedClients::RunOn(OpenSession& session, const std::function<bool()>& is_done) {
  for (int i = 0; i < 1'000'000 && !is_done(); ++i) session.Poll();
  ASSERT_TRUE(is_done());
}

void SimulatedClients::ExpectCleanCheck() {
  SimulatedClient checker = Open(99);
  const Result<CheckReport> report = checker.store->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u) << report.value().problems.front();
}

}  // namespace gossamer
