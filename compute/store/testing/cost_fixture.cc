#include "compute/store/testing/cost_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "common/testing/need.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

const char* RunningStore() { return std::getenv("GOSSAMER_TEST_BOOTSTRAP"); }

// "GetsAreQuick" for the test "GetsAreQuick/Running".
std::string NameOfTest() {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  return name.substr(0, name.find('/'));
}

Result<std::unique_ptr<Store>> OpenRunning() {
  OpenOptions options;
  options.bootstrap = RunningStore();
  options.fabric = std::getenv("GOSSAMER_TEST_FABRIC");
  options.store = NameOfTest();
  return Store::Open(options);
}

}  // namespace

std::vector<TestFabric> TestFabrics() {
  if (RunningStore() != nullptr) return {TestFabric::kRunning};
  return {TestFabric::kShm, TestFabric::kSim};
}

std::string NameOfFabric(const testing::TestParamInfo<TestFabric>& fabric) {
  switch (fabric.param) {
    case TestFabric::kShm: return "Shm";
    case TestFabric::kSim: return "Sim";
    case TestFabric::kRunning: return "Running";
  }
  return "";
}

std::string Text(const WireCounts& counts) {
  std::ostringstream text;
  text << counts.operations << " operations, " << counts.round_trips << " round trips, "
       << counts.reads << " reads, " << counts.writes << " writes, " << counts.atomics << " cas, "
       << counts.sends << " sends, " << counts.bytes_read << " B read, " << counts.bytes_written
       << " B written";
  return text.str();
}

void CostFixture::Open(const StoreParameters& parameters, size_t servers) {
  if (fabric_ == TestFabric::kSim) {
    SimOptions options;
    options.seed = TestSeed();
    // No leases are renewed here.
    options.observes_death = std::chrono::milliseconds(1);
    network_ = std::make_unique<SimNetwork>(options);
  }
  if (fabric_ != TestFabric::kRunning) {
    ClusterOptions options;
    options.parameters = parameters;
    options.servers = servers;
    options.memory_bytes = uint64_t{128} << 20;
    options.chunk_bytes = uint64_t{4} << 20;
    options.network = network_.get();
    cluster_ = std::make_unique<TestCluster>(options);
  }
  store_ = OpenAnother();
  ASSERT_EQ(store_->parameters(), parameters);
  Result<StoreStat> stat = store_->Stat();
  ASSERT_TRUE(stat) << stat.error().ToString();
  ASSERT_EQ(stat.value().servers.size(), servers);
  session_ = Need(store_->NewSession());
}

std::unique_ptr<Store> CostFixture::OpenAnother() {
  std::unique_ptr<Store> store = fabric_ == TestFabric::kRunning
                                     ? Need(OpenRunning())
                                     : cluster_->OpenStore(10'000, uint64_t{64} << 20);
  static_cast<OpenStore&>(*store).StopUpkeep();
  return store;
}

void CostFixture::LoadRandom(size_t count) {
  for (size_t i = 0; i < Scaled(count); ++i) {
    keys_.push_back(EightBytes(random_()));
    ASSERT_TRUE(session_->Put(keys_.back(), "12345678"));
  }
}

void CostFixture::WarmUp(Session& session) {
  const std::unique_ptr<ScanCursor> cursor = session.Scan({});
  while (cursor->Next()) {
  }
  ASSERT_TRUE(cursor->status());
}

WireCounts CostFixture::CostOfGet(Session& session, const std::string& key) {
  return CostOf(session, OperationClass::kRead, [&] { EXPECT_TRUE(session.Get(key)); });
}

WireCounts CostFixture::CostOfUpdate(Session& session, const std::string& key,
                                     const std::string& value) {
  return CostOf(session, OperationClass::kUpdate, [&] { EXPECT_TRUE(session.Update(key, value)); });
}

CostFixture::Path CostFixture::PathTo(const std::string& key) {
  auto& session = static_cast<OpenSession&>(*session_);
  const RootWord root = Need(session.RunToEnd(session.tree().ReadRoot()));
  Path path{root.level(), RemotePtr(), root.pointer(), Key()};
  for (uint32_t level = root.level(); level > 0; --level) {
    path.parent = path.leaf;
    const InternalNode node = Need(session.RunToEnd(session.tree().ReadInternal(path.parent)));
    EXPECT_TRUE(node.high.Admits(key)) << "one client leaves no downlink missing";
    const InternalNode::Child& child = node.children[node.ChildIndex(key)];
    path.leaf = child.pointer;
    path.low = child.separator;
  }
  return path;
}

RemotePtr CostFixture::SiblingOf(const Path& path) {
  auto& session = static_cast<OpenSession&>(*session_);
  const std::vector<std::byte> bytes =
      Need(session.RunToEnd(session.tree().ReadLeaf(path.leaf, path.low)));
  return LeafView::Parse(bytes, path.leaf, session.tree().shared().geometry, path.low)
      ->trailer()
      .sibling();
}

bool CostFixture::ShareTurns(RemotePtr a, RemotePtr b) {
  auto& session = static_cast<OpenSession&>(*session_);
  const auto place_of = [&session](RemotePtr node) {
    const ServerInfo* server = session.tree().shared().servers.Find(node.server());
    return LockPlace{node.server(), LockSlotOffset(node, server->lock_table_bytes)};
  };
  const LockTable::Turn turn = turns_->TryTake(place_of(a), session.scheduler());
  return turns_->IsAt(turn, place_of(b));
}

std::vector<std::string> CostFixture::KeysOfLeaves(size_t count) {
  std::vector<std::string> keys;
  std::vector<RemotePtr> leaves;
  while (keys.size() < count) {
    const std::string& key = keys_[random_() % keys_.size()];
    const RemotePtr leaf = PathTo(key).leaf;
    const auto shares = [&](RemotePtr other) { return ShareTurns(leaf, other); };
    if (std::ranges::any_of(leaves, shares)) continue;
    keys.push_back(key);
    leaves.push_back(leaf);
  }
  return keys;
}

void CostFixture::OpenLoaded(size_t servers) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore, servers));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
}

std::vector<KeyValueView> WithValue(const std::vector<std::string>& keys, std::string_view value) {
  std::vector<KeyValueView> pairs;
  for (const std::string& key : keys) pairs.push_back({key, value});
  return pairs;
}

}  // namespace gossamer
