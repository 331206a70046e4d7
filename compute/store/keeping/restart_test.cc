// A memory server restarted at its predecessor's address is another server (rule U6): a store
// opened on the predecessor neither reads from it nor writes to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/bootstrap/membership.h"
#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "compute/store/open_store.h"
#include "compute/store/testing/bootstrapped_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kKeys = 200;

class RestartTest : public BootstrappedStore {
 protected:
  RestartTest() { Start(); }

  // Always uses the same address.
  void Start() { memory_ = StartMemory(directory_.path() + "/memory.sock"); }
  void Restart() {
    memory_.reset();
    Start();
  }
  static void Fill(Store& store, const std::string& value) {
    const auto session = store.NewSession().value();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Put(NumberKey(i), value));
  }

  std::unique_ptr<EmbeddedMemory> memory_;
};

TEST_F(RestartTest, AnOpenStoreStaysWithTheServerThatItWasOpenedOn) {
  const std::unique_ptr<Store> before = Open();
  const auto session = before->NewSession().value();
  ASSERT_NO_FATAL_FAILURE(Fill(*before, "before"));
  Restart();
  const std::unique_ptr<Store> after = Open();
  ASSERT_NO_FATAL_FAILURE(Fill(*after, "after"));

  for (uint64_t i = 0; i < 2 * kKeys; ++i) {
    const Status put = session->Put(NumberKey(i), "of a store that is gone");
    ASSERT_FALSE(put) << "acknowledged into another store";
    EXPECT_EQ(put.error().code, Code::kNodeUnreachable) << put.error().ToString();
    const auto got = session->Get(NumberKey(i));
    ASSERT_FALSE(got) << "read from another store";
    EXPECT_EQ(got.error().code, Code::kNodeUnreachable) << got.error().ToString();
  }
  EXPECT_THAT(session->Get(NumberKey(0)).error().message,
              AllOf(HasSubstr("started anew"), HasSubstr("open the store again"),
                    Not(HasSubstr("is served")), Not(HasSubstr("--salvage"))));
  const auto late = before->NewSession().value();
  EXPECT_EQ(late->Put(NumberKey(0), "likewise").error().code, Code::kNodeUnreachable);

  const CheckReport report = after->Check({}).value();
  EXPECT_EQ(report.keys, kKeys);
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
  EXPECT_EQ(after->NewSession().value()->Get(NumberKey(7)).value(), "after");
}

// The record names a server that is gone: the other server's data is served.
TEST_F(RestartTest, AStoreOpensWithoutAServerThatIsGone) {
  auto second = StartMemory();
  {
    const std::unique_ptr<Store> store = Open();
    const auto session = store->NewSession().value();
    for (uint64_t i = 0; i < 10 * kKeys; ++i) {
      ASSERT_TRUE(session->Put(NumberKey(i), std::string(200, 'v')));
    }
  }
  const std::optional<std::string> record = bootstrap_->Get("default").value();
  second.reset();
  const std::optional<std::string> without = bootstrap_->Get("default").value();
  ASSERT_TRUE(bootstrap_->CompareAndSwap("default", without, record).value());

  const std::unique_ptr<Store> store = Open();
  const auto session = store->NewSession().value();
  uint64_t got = 0;
  for (uint64_t i = 0; i < 10 * kKeys; i += 10) {
    const Result<std::string> value = session->Get(NumberKey(i));
    got += value ? 1 : 0;
    if (value) continue;
    ASSERT_EQ(value.error().code, Code::kNodeUnreachable) << value.error().ToString();
    ASSERT_THAT(value.error().message, HasSubstr("dump --salvage"));
  }
  EXPECT_GT(got, 0u);
  EXPECT_LT(got, kKeys);
  const StoreStat stat = store->Stat().value();
  ASSERT_EQ(stat.servers.size(), 2u);
  EXPECT_EQ(stat.servers[0].unreachable, "");
  EXPECT_THAT(stat.servers[1].unreachable, HasSubstr("memory server 1"));
}

// Without the root nothing is served and nothing can be salvaged.
TEST_F(RestartTest, NobodyIsToldToSalvageWithoutServer0) {
  const std::unique_ptr<Store> store = Open();
  const auto session = store->NewSession().value();
  ASSERT_TRUE(session->Put("key", "value"));
  memory_.reset();
  EXPECT_THAT(session->Get("key").error().message,
              AllOf(HasSubstr("memory server 0"), HasSubstr("root"), Not(HasSubstr("is served")),
                    Not(HasSubstr("--salvage"))));
}

// An open store goes on without the server. Opening it again does not bring its data back.
TEST_F(RestartTest, AnotherServerThatIsStartedAnewIsNotWaitedFor) {
  const std::string address = directory_.path() + "/second.sock";
  auto second = StartMemory(address);
  const std::unique_ptr<Store> store = Open();
  const auto session = store->NewSession().value();
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(session->Put(NumberKey(i), std::string(200, 'v')));
  }
  second.reset();
  second = StartMemory(address);
  uint64_t lost = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Result<std::string> value = session->Get(NumberKey(i));
    if (value) continue;
    ++lost;
    ASSERT_THAT(value.error().message,
                AllOf(HasSubstr("memory server 1"), HasSubstr("started anew"),
                      HasSubstr("dump --salvage"), Not(HasSubstr("open the store again")),
                      Not(HasSubstr("if this one is gone for good"))));
  }
  EXPECT_GT(lost, 0u);
}

// A stopped server takes itself out of the record, but the tree still names it.
TEST_F(RestartTest, ALaterClientIsToldThatAServerHasLeft) {
  auto second = StartMemory();
  std::unique_ptr<Store> store = Open();
  {
    const auto session = store->NewSession().value();
    for (uint64_t i = 0; i < 10 * kKeys; ++i) {
      ASSERT_TRUE(session->Put(NumberKey(i), std::string(200, 'v')));
    }
  }
  second.reset();
  store = Open();
  const auto session = store->NewSession().value();
  uint64_t lost = 0;
  for (uint64_t i = 0; i < 10 * kKeys; i += 10) {
    const Result<std::string> value = session->Get(NumberKey(i));
    if (value) continue;
    ++lost;
    ASSERT_EQ(value.error().code, Code::kNodeUnreachable) << value.error().ToString();
    ASSERT_THAT(value.error().message, HasSubstr("memory server 1 has left the store"));
    ASSERT_THAT(value.error().message, HasSubstr("dump --salvage"));
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, kKeys);
}

// A port over verbs without a given device: it learns one from the first server it connects to.
class PortWithoutDevice final : public ComputePortDecorator {
 public:
  explicit PortWithoutDevice(std::unique_ptr<ComputePort> port)
      : ComputePortDecorator(std::move(port)) {}
  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override {
    BOOST_OUTCOME_TRYV(ComputePortDecorator::Connect(server, address, incarnation));
    has_device_ = true;
    return Ok();
  }
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override {
    if (!has_device_) return MakeError(Code::kUnsupported, "which device reaches the servers?");
    return ComputePortDecorator::NewEndpoint();
  }

 private:
  bool has_device_ = false;
};

TEST_F(RestartTest, AStoreOpensOnTheDeviceThatReachesItsFirstServer) {
  ComputePortOptions options;
  options.client_uuid = RandomId();
  auto port = OpenComputePort(FabricKind::kShm, options).value();
  const auto opened = OpenStore::OpenOn(std::make_unique<PortWithoutDevice>(std::move(port)),
                                        FindStore(*bootstrap_, {}).value(), {});
  ASSERT_TRUE(opened) << opened.error().ToString();
  ASSERT_NO_FATAL_FAILURE(Fill(*opened.value(), "value"));
}

}  // namespace
}  // namespace gossamer
