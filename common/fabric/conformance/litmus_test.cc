// The litmus test passes on all our fabrics, and detects a fabric that does not order.
#include "common/fabric/litmus.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "common/fabric/conformance/harness.h"
#include "common/fabric/endpoint_decorator.h"

namespace gossamer::test {
namespace {

class LitmusTest : public FabricConformance {};

INSTANTIATE_TEST_SUITE_P(Fabrics, LitmusTest, testing::ValuesIn(FabricCases()), FabricCaseName);

TEST_P(LitmusTest, TheFabricOrdersWhatTheProtocolReliesOn) {
  const auto port = NewPort();
  TestClient writer(*port);
  TestClient reader(*port);
  for (const Space space : {Space::kLockTable, Space::kRegion}) {
    writer.FetchAdd(space, 8, 41);
    const Result<LitmusReport> report =
        RunLitmus(writer.endpoint(), reader.endpoint(), kServer,
                  {.data_offset = 4096, .word_offset = 8, .word_space = space}, {.rounds = 500});
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_TRUE(report.value().passed()) << report.value().ToString();
    EXPECT_EQ(report.value().atomic_before_read.rounds, 500U);
    EXPECT_EQ(report.value().write_before_atomic.rounds, 500U);
    EXPECT_EQ(report.value().write_before_write.rounds, 500U);
    EXPECT_GT(report.value().atomic_before_read.decisive, 0U);
    EXPECT_GT(report.value().write_before_atomic.decisive, 0U);
    EXPECT_GT(report.value().write_before_write.decisive, 0U);
    EXPECT_EQ(writer.FetchAdd(space, 8, 0), 41U) << "the word is not restored";
    std::printf("%s\n", report.value().ToString().c_str());
  }
}

TEST_P(LitmusTest, AFailingVerbIsNodeUnreachable) {
  const auto port = NewPort();
  TestClient writer(*port);
  TestClient reader(*port);
  const Result<LitmusReport> report =
      RunLitmus(writer.endpoint(), reader.endpoint(), kServer, {.data_offset = kRegionBytes});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kNodeUnreachable);
}

// A device that does not order: performs the verbs of each batch backwards, with pauses in between.
class BackwardEndpoint final : public EndpointDecorator {
 public:
  explicit BackwardEndpoint(Endpoint& inner) : EndpointDecorator(inner) {}

  using EndpointDecorator::Post;
  void Post(Batch& batch) override {
    posted_ = &batch;
    left_ = batch.verbs().size();
    PerformOne();
  }
  size_t Poll() override {
    if (posted_ != nullptr && ++polls_ % 4 == 0) PerformOne();
    return 0;
  }

 private:
  void PerformOne() {
    Verb& verb = posted_->verbs()[--left_];
    InlineBatch<1> single(posted_->server());
    single.Add(verb);
    verb.status = Execute(below(), single);
    if (left_ == 0) --std::exchange(posted_, nullptr)->completion->remaining;
  }

  // Calls the helper, not the member of the same name.
  static VerbStatus Execute(Endpoint& endpoint, Batch& batch) {
    return test::Execute(endpoint, batch);
  }

  Batch* posted_ = nullptr;
  size_t left_ = 0;
  uint64_t polls_ = 0;
};

TEST_P(LitmusTest, ADeviceThatDoesNotOrderFails) {
  if (GetParam().kind != FabricKind::kShm) GTEST_SKIP() << "needs verbs that run when polled";
  const auto port = NewPort();
  TestClient writer(*port);
  TestClient reader(*port);
  BackwardEndpoint backward_writer(writer.endpoint());
  BackwardEndpoint backward_reader(reader.endpoint());
  const LitmusScratch scratch{.data_offset = 4096, .word_offset = 8};
  std::vector<LitmusScratch> scratches{scratch};
  if (!server_in_other_process()) {
    scratches.push_back(scratch);
    scratches.back().view = memory_port().region().data() + scratch.data_offset;
  }
  for (const LitmusScratch& each : scratches) {
    const LitmusReport of_writer =
        RunLitmus(backward_writer, reader.endpoint(), kServer, each).value();
    EXPECT_GT(of_writer.write_before_atomic.failures, 0U) << of_writer.ToString();
    EXPECT_GT(of_writer.write_before_write.failures, 0U) << of_writer.ToString();
    EXPECT_EQ(of_writer.atomic_before_read.failures, 0U) << of_writer.ToString();
  }
  const LitmusReport of_reader =
      RunLitmus(writer.endpoint(), backward_reader, kServer, scratch).value();
  EXPECT_GT(of_reader.atomic_before_read.failures, 0U) << of_reader.ToString();
  EXPECT_EQ(of_reader.write_before_atomic.failures, 0U) << of_reader.ToString();
  EXPECT_EQ(of_reader.write_before_write.failures, 0U) << of_reader.ToString();
}

}  // namespace
}  // namespace gossamer::test
