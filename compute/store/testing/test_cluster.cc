#include "compute/store/testing/test_cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "common/bootstrap/membership.h"
#include "common/bootstrap/server_probe.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "common/testing/need.h"
#include "compute/session/registration.h"
#include "compute/store/open_store.h"

namespace gossamer {
TestCluster::TestCluster(const ClusterOptions& options) : network_(options.network) {
  EmbeddedMemoryOptions memory;
  memory.memory_bytes = options.memory_bytes;
  memory.parameters = options.parameters;
  memory.chunk_bytes = options.chunk_bytes;
  memory.lock_table_bytes = options.lock_table_bytes;
  if (network_ != nullptr) {
    memory.network = network_;
    record_.store = "simulated";
    record_.store_id = 1;
    memory_ = Need(StartSimulatedMemory(memory, static_cast<uint32_t>(options.servers), record_));
    return;
  }
  std::string name = testing::TempDir() + "gossamer-cluster-XXXXXX";
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  directory_ = name;
  bootstrap_ = Need(OpenBootstrap("dir:" + name));
  memory.bootstrap = bootstrap_.get();
  for (size_t i = 0; i < options.servers; ++i) {
    const bool is_like_others = i >= options.memory_bytes_of.size();
    memory.memory_bytes = is_like_others ? options.memory_bytes : options.memory_bytes_of[i];
    memory_.push_back(Need(StartEmbeddedMemory(memory)));
  }
  record_ = Need(FindStore(*bootstrap_, FindOptions{}));
}

TestCluster::~TestCluster() {
  while (!memory_.empty()) memory_.pop_back();
  if (directory_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::unique_ptr<Store> TestCluster::OpenStore(uint32_t lock_timeout_ms, uint64_t cache_bytes) {
  if (network_ != nullptr) {
    ComputePortOptions port;
    port.client_uuid = RandomId();
    port.network = network_;
    TreeOptions tree;
    tree.lock_timeout_ms = lock_timeout_ms;
    tree.cache_bytes = cache_bytes;
    return Need(
        gossamer::OpenStore::OpenOn(Need(OpenComputePort(FabricKind::kSim, port)), record_, tree));
  }
  OpenOptions options;
  options.bootstrap = bootstrap_->url();
  options.lock_timeout_ms = lock_timeout_ms;
  options.cache_bytes = cache_bytes;
  return Need(Store::Open(options));
}

CheckReport TestCluster::Check() { return Need(OpenStore()->Check({})); }

CheckReport TestCluster::CheckOnce() {
  const std::unique_ptr<Store> store = OpenStore();
  return Need(static_cast<gossamer::OpenStore&>(*store).CheckOnce({}));
}

TestClient::TestClient(const TestCluster& cluster, const ClientOptions& options) {
  ComputePortOptions port;
  port.client_uuid = RandomId();
  port_ = Need(OpenComputePort(FabricKind::kShm, port));
  const StoreRecord& record = cluster.record();
  TreeOptions tree_options;
  tree_options.cache_bytes = options.cache_bytes;
  tree_options.lock_timeout_ms = options.lock_timeout_ms;
  shared_ = std::make_unique<StoreState>(record.parameters, tree_options,
                                         static_cast<StoreEvents&>(*this));
  for (const MemberRecord& member : record.servers) {
    EXPECT_TRUE(port_->Connect(member.server, member.address));
  }
  endpoint_ = Need(port_->NewEndpoint());
  Scheduler scheduler(*endpoint_);
  for (const MemberRecord& member : record.servers) {
    const RegionHeader header = Need(ReadRegionHeader(*endpoint_, member.server));
    const Registration registration = Need(scheduler.Run(RegisterOver(*endpoint_, member.server)));
    ServerInfo info;
    info.id = member.server;
    info.address = member.address;
    info.lease = registration.lease;
    info.region_bytes = header.region_bytes;
    info.lock_table_bytes = header.lock_table_bytes;
    info.chunk_bytes = header.chunk_bytes;
    shared_->servers.Add(std::move(info));
    shared_->allocator.Registered(member.server, registration);
  }
  settler_ = std::make_unique<FaultyEndpoint>(Need(port_->NewEndpoint()), settler_plan_);
  shared_->orphans.SettleOver(*settler_, shared_->allocator);
}

TestClient::~TestClient() { shared_->orphans.Stop(); }

std::unique_ptr<OpenSession> TestClient::NewSession(FaultPlan& plan) {
  return std::make_unique<OpenSession>(
      *shared_, std::make_unique<FaultyEndpoint>(Need(port_->NewEndpoint()), plan));
}

std::unique_ptr<OpenSession> TestClient::NewSession() {
  return std::make_unique<OpenSession>(*shared_, Need(port_->NewEndpoint()));
}

VerbStatus TestClient::Run(Batch& batch) {
  Completion completion{1, std::noop_coroutine()};
  batch.completion = &completion;
  endpoint_->Post(batch);
  while (completion.remaining != 0) endpoint_->Poll();
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
  return batch.status();
}

std::vector<std::byte> TestClient::Read(ServerId server, uint64_t offset, uint32_t bytes,
                                        Space space) {
  const BufferLease lease = Need(endpoint_->buffers().Allocate(bytes));
  InlineBatch<1> batch(server);
  batch.Add(Verb::Read(offset, bytes, lease.address(), space));
  Run(batch);
  return {lease.data(), lease.data() + bytes};
}

void TestClient::Write(ServerId server, uint64_t offset, std::span<const std::byte> bytes) {
  const BufferLease lease = Need(endpoint_->buffers().Allocate(bytes.size()));
  std::memcpy(lease.data(), bytes.data(), bytes.size());
  InlineBatch<1> batch(server);
  batch.Add(Verb::Write(offset, static_cast<uint32_t>(bytes.size()), lease.address()));
  Run(batch);
}

uint64_t TestClient::CompareSwap(ServerId server, uint64_t offset, uint64_t compare, uint64_t swap,
                                 Space space) {
  const BufferLease lease = Need(endpoint_->buffers().Allocate(sizeof(uint64_t)));
  InlineBatch<1> batch(server);
  batch.Add(Verb::CompareSwap(space, offset, compare, swap, lease.address()));
  Run(batch);
  return batch.verbs()[0].old_value();
}

RootWord TestClient::Root() {
  const std::vector<std::byte> bytes = Read(ServerId{0}, kRootWordOffset, sizeof(uint64_t));
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return RootWord::FromWord(word);
}

InternalNode TestClient::Internal(RemotePtr pointer) {
  const std::optional<InternalNode> node = DecodeInternal(
      Read(pointer.server(), pointer.offset(), shared_->parameters.node_bytes), pointer);
  EXPECT_TRUE(node);
  return *node;
}

InternalNode::Child TestClient::RemoveDownlink(RemotePtr parent) {
  InternalNode node = Internal(parent);
  const auto at = node.children.begin() + 1;
  InternalNode::Child removed = *at;
  node.children.erase(at);
  node.version = Next(node.version);
  std::vector<std::byte> image(shared_->parameters.node_bytes);
  EXPECT_TRUE(EncodeInternal(image, parent, node));
  Write(parent.server(), parent.offset(), image);
  return removed;
}

std::vector<std::byte> TestClient::LeafBytes(RemotePtr leaf) {
  return Read(leaf.server(), leaf.offset(), shared_->parameters.node_bytes);
}

TestClient::FoundLeaf TestClient::FindLeaf(KeyView key) {
  const RootWord root = Root();
  RemotePtr node = root.pointer();
  Key low;
  for (uint32_t level = root.level(); level > 0;) {
    const InternalNode internal = Internal(node);
    if (!internal.high.Admits(key)) {
      node = internal.sibling;
      continue;
    }
    const InternalNode::Child& child = internal.children[internal.ChildIndex(key)];
    node = child.pointer;
    low = child.separator;
    --level;
  }
  for (;;) {
    const std::vector<std::byte> bytes = LeafBytes(node);
    const std::optional<LeafView> leaf = LeafView::Parse(bytes, node, shared_->geometry, low);
    EXPECT_TRUE(leaf);
    if (leaf->unit(0).Admits(key)) return {node, low};
    low = leaf->high().key;
    node = leaf->trailer().sibling();
  }
}

uint64_t TestClient::LockSlot(RemotePtr node) {
  return LockSlotOffset(node, shared_->servers.Find(node.server())->lock_table_bytes);
}

std::string NumberKey(uint64_t number, size_t bytes) {
  std::string key(bytes, '\0');
  for (size_t i = bytes; i-- > 0; number >>= 8) key[i] = static_cast<char>(number);
  return key;
}

}  // namespace gossamer
