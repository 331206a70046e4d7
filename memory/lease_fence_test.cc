// Leases over a real fabric: a registration and its queue pairs end together.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "memory/control_service.h"
#include "proto/region.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{0};

// A compute server with one endpoint.
class Client {
 public:
  Client(FabricKind fabric, const std::string& address) {
    ComputePortOptions options;
    options.client_uuid = uuid_;
    port_ = OpenComputePort(fabric, options).value();
    const Status connected = port_->Connect(kServer, address);
    EXPECT_TRUE(connected) << connected.error().ToString();
    endpoint_ = port_->NewEndpoint().value();
  }

  uint64_t uuid() const { return uuid_; }
  Endpoint& endpoint() { return *endpoint_; }

  // Returns nullopt if the queue pair is broken or the answer is an error.
  template <typename Reply, typename Request>
  std::optional<Reply> Ask(const Request& request) {
    ControlCall call;
    call.server = kServer;
    std::memcpy(call.request.data(), &request, sizeof request);
    call.request_bytes = sizeof request;
    if (Execute(call) != VerbStatus::kSuccess || call.reply_bytes != sizeof(Reply)) return {};
    Reply reply;
    std::memcpy(&reply, call.reply.data(), sizeof reply);
    if (reply.header.type == control::Type::kError) return {};
    return reply;
  }
  control::RegisterReply Register() {
    return Ask<control::RegisterReply>(control::RegisterRequest{})
        .value_or(control::RegisterReply{});
  }
  bool IsInForce(const control::RegisterReply& lease) {
    control::LeaseQueryRequest query;
    query.compute_id = lease.compute_id;
    query.incarnation = lease.incarnation;
    const auto reply = Ask<control::LeaseQueryReply>(query);
    EXPECT_TRUE(reply);
    return reply && reply->in_force == 1;
  }
  VerbStatus Increment() {
    const BufferLease buffer = endpoint_->buffers().Allocate(8).value();
    InlineBatch<1> batch(kServer);
    batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address()));
    return Execute(batch);
  }

 private:
  template <typename Posted>
  VerbStatus Execute(Posted& posted) {
    Completion completion{1, std::noop_coroutine()};
    posted.completion = &completion;
    endpoint_->Post(posted);
    while (completion.remaining != 0) endpoint_->Poll();
    if constexpr (std::is_same_v<Posted, ControlCall>) {
      return posted.status;
    } else {
      return posted.status();
    }
  }

  const uint64_t uuid_ = RandomId();
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<Endpoint> endpoint_;
};

class LeaseFenceTest : public ::testing::TestWithParam<FabricKind> {
 protected:
  void Serve(std::chrono::milliseconds lease) {
    MemoryPortOptions options;
    options.region_bytes = 1 << 20;
    options.lock_table_bytes = 4096;
    if (GetParam() == FabricKind::kVerbs) {
      const char* address = std::getenv("SOFT_ROCE_ADDRESS");
      if (address == nullptr) GTEST_SKIP() << "no RDMA device";
      options.listen = std::string(address) + ":0";
    }
    service_ = std::make_unique<ControlService>(
        ChunkAllocator(kHeapOffset, options.region_bytes, 64 << 10), LockTableFacts{}, lease);
    port_ = OpenMemoryPort(GetParam(), options).value();
    ASSERT_TRUE(port_->Start(*service_, RandomId()));
  }
  Client NewClient() const { return Client(GetParam(), port_->address()); }

  std::unique_ptr<ControlService> service_;
  std::unique_ptr<MemoryPort> port_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LeaseFenceTest,
                         ::testing::Values(FabricKind::kShm, FabricKind::kVerbs),
                         [](const auto& kind) { return std::string(FabricKindName(kind.param)); });

TEST_P(LeaseFenceTest, AFencedLeaseEndsAndTheNextIsAnother) {
  Serve({});
  if (IsSkipped()) return;
  Client observer = NewClient();
  Client client = NewClient();
  const control::RegisterReply first = client.Register();
  EXPECT_EQ(client.Register().incarnation, first.incarnation);
  EXPECT_TRUE(observer.IsInForce(first));
  EXPECT_EQ(client.Increment(), VerbStatus::kSuccess);
  port_->Fence(client.uuid());
  while (observer.IsInForce(first)) std::this_thread::yield();
  EXPECT_NE(client.Increment(), VerbStatus::kSuccess) << "of a lease that has ended";
  ASSERT_TRUE(client.endpoint().Reconnect(kServer));
  EXPECT_FALSE(client.Ask<control::RenewReply>(control::RenewRequest{})) << "not registered yet";
  const control::RegisterReply second = client.Register();
  EXPECT_EQ(second.compute_id, first.compute_id);
  EXPECT_EQ(second.incarnation, first.incarnation + 1);
  EXPECT_EQ(client.Increment(), VerbStatus::kSuccess);
  EXPECT_TRUE(observer.IsInForce(second));
  EXPECT_FALSE(observer.IsInForce(first));
}

TEST_P(LeaseFenceTest, WhoDoesNotRenewIsFenced) {
  Serve(std::chrono::milliseconds(100));
  if (IsSkipped()) return;
  Client observer = NewClient();
  Client client = NewClient();
  const control::RegisterReply lease = client.Register();
  EXPECT_EQ(lease.lease_ms, 100U);
  while (observer.IsInForce(lease)) std::this_thread::yield();
  EXPECT_NE(client.Increment(), VerbStatus::kSuccess);
  // The observer never registered: it has no lease to lose.
  EXPECT_EQ(observer.Increment(), VerbStatus::kSuccess);
}

}  // namespace
}  // namespace gossamer
