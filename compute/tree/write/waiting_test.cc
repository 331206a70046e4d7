// How often a lock is tried whose holder is stopped but has a lease in force. The network is
// simulated: tries are counted, and no time is measured.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/sim.h"
#include "common/testing/seed.h"
#include "compute/session/registration.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

TEST(WaitingTest, ALockThatStaysTakenIsTriedSeldom) {
  SimNetwork network({.seed = TestSeed()});
  ClusterOptions options;
  options.lock_table_bytes = sizeof(uint64_t);  // one slot: all nodes share a lock
  options.network = &network;
  TestCluster cluster(options);
  const auto store = cluster.OpenStore(1000);
  const auto session = store->NewSession().value();
  ASSERT_TRUE(session->Put("key", "value"));

  ComputePortOptions port_options;
  port_options.client_uuid = 1;
  port_options.network = &network;
  const auto port = OpenComputePort(FabricKind::kSim, port_options).value();
  ASSERT_TRUE(port->Connect(ServerId{0}, cluster.record().servers[0].address));
  const auto endpoint = port->NewEndpoint().value();
  Scheduler scheduler(*endpoint);
  const Lease lease = scheduler.Run(RegisterOver(*endpoint, ServerId{0})).value().lease;
  const auto take = [&]() -> Task<uint64_t> {
    const BufferLease word_at = endpoint->buffers().Allocate(sizeof(uint64_t)).value();
    InlineBatch<1> batch(ServerId{0});
    batch.Add(Verb::CompareSwap(Space::kLockTable, 0, 0,
                                LockWord(lease, RemotePtr(ServerId{0}, kFirstLeafOffset, 1)).word(),
                                word_at.address()));
    co_await endpoint->Execute(batch);
    co_return batch.verbs()[0].old_value();
  };
  ASSERT_EQ(scheduler.Run(take()), 0u);

  const Counters before = session->counters();
  const Status put = session->Put("key", "another value");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kContended) << put.error().ToString();
  // In one second: some thousands at first, then one every 250 to 500 us.
  const uint64_t tries = session->counters().locks.remote_retries - before.locks.remote_retries;
  EXPECT_LE(tries, 10'000u);
  EXPECT_GE(tries, 5'000u);
}

}  // namespace
}  // namespace gossamer
