// ProtocolTest: a store with a model of its content. A test may read, damage and lock its remote
// memory directly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {

class ProtocolTest : public testing::Test {
 protected:
  void Open(const StoreParameters& parameters, size_t servers = 1) {
    ClusterOptions options;
    options.parameters = parameters;
    options.servers = servers;
    OpenCluster(options);
  }
  void OpenCluster(const ClusterOptions& options) {
    session_.reset();  // before the objects it uses
    client_.reset();
    cluster_ = std::make_unique<TestCluster>(options);
    client_ = std::make_unique<TestClient>(*cluster_);
    session_ = client_->NewSession();
  }
  // Keys 0, 10, 20, ..., in an order that splits leaves in the middle.
  void Load(uint64_t count, size_t value_bytes = 8) {
    std::vector<uint64_t> numbers(count);
    for (uint64_t i = 0; i < count; ++i) numbers[i] = 10 * i;
    std::shuffle(numbers.begin(), numbers.end(), random_);
    for (const uint64_t number : numbers) {
      const std::string value(value_bytes, static_cast<char>('a' + number % 26));
      ASSERT_TRUE(session_->Put(NumberKey(number), value));
      model_[NumberKey(number)] = value;
    }
  }
  void ExpectSame(Session& session) {
    for (const bool reverse : {false, true}) {
      ScanOptions options;
      options.reverse = reverse;
      const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
      std::vector<std::pair<std::string, std::string>> found;
      while (cursor->Next()) found.emplace_back(cursor->key(), cursor->value());
      ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
      if (reverse) std::reverse(found.begin(), found.end());
      ASSERT_EQ(found,
                (std::vector<std::pair<std::string, std::string>>(model_.begin(), model_.end())));
    }
  }
  void ExpectCleanCheck() {
    const CheckReport report = cluster_->Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    EXPECT_EQ(report.keys, model_.size());
    EXPECT_EQ(report.missing_downlinks, 0u);
  }
  // Cost of one operation of `session`, without repairs.
  template <typename Operate>
  static WireCounts CostOf(Session& session, OperationClass kind, Operate&& operate) {
    const WireCounts before = session.counters().of(kind);
    operate();
    return Since(before, session.counters().of(kind));
  }
  RemotePtr LeftmostAt(uint32_t level) {
    const auto root = client_->Root();
    RemotePtr node = root.pointer();
    for (uint32_t at = root.level(); at > level; --at)
      node = client_->Internal(node).children[0].pointer;
    return node;
  }
  void Flip(ServerId server, uint64_t offset) {
    std::vector<std::byte> bytes = client_->Read(server, offset, 1);
    bytes[0] ^= std::byte{0x40};
    client_->Write(server, offset, bytes);
  }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<OpenSession> session_;
};

}  // namespace gossamer
