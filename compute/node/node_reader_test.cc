#include "compute/node/node_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "compute/lock/testing/lock_session.h"
#include "compute/node/descent.h"

namespace gossamer {
namespace {

using Fate = ScriptedEndpoint::Fate;

constexpr ServerId kServer{0};

StoreParameters Parameters() {
  StoreParameters parameters;
  parameters.node_bytes = kNodeBytes;
  return parameters;
}

class HopRecorder final : public TreeEvents {
 public:
  struct Hop {
    RemotePtr left;
    uint32_t level;
    Key low;
  };

  void OnCacheMiss() override {}
  void OnHop(RemotePtr left, uint32_t level, const Key& low) override {
    hops.push_back({left, level, low});
  }
  void OnSparseLeaf(const Key&) override {}
  Task<Status> FinishMerge(Op&, const Key&) override { co_return Ok(); }

  std::vector<Hop> hops;
};

// A tree in a byte array: a root over two leaves, of which the right one splits later.
class NodeReaderTest : public ::testing::Test {
 protected:
  NodeReaderTest() {
    WriteLeaf(left_, NodeVersion{1}, {}, HighFence::At("m"), right_);
    WriteLeaf(right_, NodeVersion{1}, "m", HighFence{}, RemotePtr());
    WriteInternal(root_, 1, {{Key(), left_}, {Key("m"), right_}});
    SetRoot(RootWord(root_, 1));
    Op registers;
    EXPECT_TRUE(session_.Run(session_.links.Register(registers, kServer)));
  }
  void WriteLeaf(RemotePtr at, NodeVersion version, KeyView low, const HighFence& high,
                 RemotePtr sibling) {
    const LeafContent content{version, low, high, sibling, {}};
    EXPECT_TRUE(EncodeLeaf(Image(at), at, store_.geometry, content));
  }
  void WriteInternal(RemotePtr at, uint8_t level, std::vector<InternalNode::Child> children) {
    InternalNode node;
    node.version = NodeVersion{1};
    node.level = level;
    node.children = std::move(children);
    EXPECT_TRUE(EncodeInternal(Image(at), at, node));
  }
  // The root gives its right half to third_.
  void SplitRoot() {
    InternalNode half;
    half.version = NodeVersion{2};
    half.level = 1;
    half.children = {{Key(), left_}};
    half.high = HighFence::At("m");
    half.sibling = third_;
    ASSERT_TRUE(EncodeInternal(Image(root_), root_, half));
    WriteInternal(third_, 1, {{Key("m"), right_}});
  }
  void SetRoot(RootWord root) {
    const uint64_t word = root.word();
    std::memcpy(&session_.endpoint.region(kServer)[kRootWordOffset], &word, sizeof word);
  }
  std::span<std::byte> Image(RemotePtr at) {
    return session_.endpoint.region(kServer).subspan(at.offset(), kNodeBytes);
  }
  // The next `count` READs of whole nodes are torn.
  void Tear(int count) {
    session_.endpoint.decide = [this, count](ServerId, const Verb& verb) mutable {
      if (!verb.is_read() || verb.length != kNodeBytes) return Fate::kApplied;
      std::byte& byte = session_.endpoint.region(kServer)[verb.remote_offset + 40];
      const bool is_torn = count-- > 0;
      if (is_torn != is_torn_) byte ^= std::byte{1};
      is_torn_ = is_torn;
      return Fate::kApplied;
    };
  }

  const RemotePtr root_{kServer, 4096, 0};
  const RemotePtr left_{kServer, 8192, 0};
  const RemotePtr right_{kServer, 12288, 0};
  const RemotePtr third_{kServer, 16384, 0};
  const RemotePtr new_root_{kServer, 20480, 0};
  bool is_torn_ = false;
  LockSharing sharing_;
  LockSession session_{sharing_};
  StoreState store_{Parameters(), {}, sharing_.events};
  LiveCacheCounts counts_;
  LeafSketch leaves_;
  SessionCache cache_{store_.cache, counts_, leaves_};
  LiveCount rereads_;
  NodeReader nodes_{store_, session_.links, session_.pauses, session_.locks, cache_, rereads_};
  HopRecorder events_;
  Descent descent_{nodes_, cache_, events_};
  Op op_;
};

TEST_F(NodeReaderTest, RereadsWhatIsTorn) {
  Tear(3);
  ASSERT_TRUE(session_.Run(nodes_.ReadLeaf(op_, left_, "")));
  EXPECT_EQ(rereads_.Read(), 3U);
  EXPECT_EQ(op_.wire.reads, 4U);
  EXPECT_EQ(op_.wire.atomics, 0U) << "no lock";
}

TEST_F(NodeReaderTest, ReadsWhatStaysTornUnderItsLock) {
  Tear(kMaxNodeRereads);
  ASSERT_TRUE(session_.Run(nodes_.ReadInternal(op_, root_)));
  EXPECT_EQ(op_.wire.atomics, 2U) << "taken and released";
  EXPECT_EQ(sharing_.table.CountTurns(), 0U);
}

TEST_F(NodeReaderTest, WhatFailsUnderItsLockIsCorrupt) {
  Tear(1'000'000);
  const Result<InternalNode> node = session_.Run(nodes_.ReadInternal(op_, root_));
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Code::kCorruption);
}

TEST_F(NodeReaderTest, APointerOutsideTheRegionIsCorrupt) {
  const RemotePtr outside(kServer, kRegionBytes - kNodeBytes / 2, 0);
  const Result<BufferLease> leaf = session_.Run(nodes_.ReadLeaf(op_, outside, ""));
  ASSERT_FALSE(leaf);
  EXPECT_EQ(leaf.error().code, Code::kCorruption);
  EXPECT_EQ(op_.wire.reads, 0U);
}

TEST_F(NodeReaderTest, ALossIsNotedAndNotRepeated) {
  session_.endpoint.decide = [](ServerId, const Verb&) { return Fate::kLost; };
  const Result<BufferLease> leaf = session_.Run(nodes_.ReadLeaf(op_, left_, ""));
  ASSERT_FALSE(leaf);
  EXPECT_EQ(leaf.error().code, Code::kNodeUnreachable);
  ASSERT_TRUE(op_.lost);
  EXPECT_EQ(op_.lost->server, kServer);
  EXPECT_EQ(session_.endpoint.replaced, 0U);
}

TEST_F(NodeReaderTest, ADescentReadsEachLevelOnceAndThenTheCacheKnows) {
  const Result<NodeCache::Step> cold = session_.Run(descent_.To(op_, SearchGoal::Covering("x"), 0));
  ASSERT_TRUE(cold);
  EXPECT_EQ(cold.value().node, right_);
  EXPECT_EQ(op_.wire.round_trips, 2U) << "root word, root";
  Op warm;
  EXPECT_EQ(session_.Run(descent_.To(warm, SearchGoal::Covering("a"), 0)).value().node, left_);
  EXPECT_EQ(warm.wire.round_trips, 0U);
}

// Another root has come between: READs of the old one end at a high fence.
TEST_F(NodeReaderTest, AStaleRootIsFoundAfreshAndNotHoppedFrom) {
  ASSERT_TRUE(session_.Run(descent_.To(op_, SearchGoal::Covering("a"), 1)));
  cache_.Forget(1, KeyView(), root_);
  SplitRoot();
  WriteInternal(new_root_, 2, {{Key(), root_}, {Key("m"), third_}});
  SetRoot(RootWord(new_root_, 2));
  const Result<NodeCache::Step> step = session_.Run(descent_.To(op_, SearchGoal::Covering("x"), 0));
  ASSERT_TRUE(step);
  EXPECT_EQ(step.value().node, right_);
  EXPECT_EQ(step.value().parent, third_);
  EXPECT_TRUE(events_.hops.empty());
}

TEST_F(NodeReaderTest, AHopNotesTheDownlinkThatMayBeMissing) {
  SplitRoot();
  WriteInternal(new_root_, 2, {{Key(), root_}});
  SetRoot(RootWord(new_root_, 2));
  const Result<NodeCache::Step> step = session_.Run(descent_.To(op_, SearchGoal::Covering("x"), 0));
  ASSERT_TRUE(step);
  EXPECT_EQ(step.value().node, right_);
  ASSERT_EQ(events_.hops.size(), 1U);
  EXPECT_EQ(events_.hops[0].left, root_);
  EXPECT_EQ(events_.hops[0].level, 1U);
  EXPECT_EQ(events_.hops[0].low, Key());
}

// Rule R8. The descent hops over a node of level 2. Meanwhile another session has cached the
// sibling, as it was before a merge froze its child. So the descent goes on below the sibling: it
// came to that child by a cached path, not over its left neighbour.
TEST_F(NodeReaderTest, AJumpThroughTheCacheIsNoWayOverTheLeftNeighbour) {
  const RemotePtr top(kServer, 24576, 0);
  const RemotePtr near(kServer, 28672, 0);
  const RemotePtr far(kServer, 32768, 0);
  const RemotePtr frozen(kServer, 36864, 0);
  const auto write = [this](RemotePtr at, const InternalNode& node) {
    ASSERT_TRUE(EncodeInternal(Image(at), at, node));
  };
  WriteInternal(top, 3, {{Key(), near}});
  SetRoot(RootWord(top, 3));
  InternalNode of_near;
  of_near.version = NodeVersion{2};
  of_near.level = 2;
  of_near.children = {{Key(), root_}};
  of_near.high = HighFence::At("g");
  of_near.sibling = far;
  write(near, of_near);
  InternalNode past_far;
  past_far.version = NodeVersion{1};
  past_far.level = 2;
  past_far.children = {{Key("g"), third_}, {Key("p"), frozen}};
  InternalNode of_frozen;
  of_frozen.version = NodeVersion{2};
  of_frozen.frozen = true;
  of_frozen.children = {{Key("p"), left_}};
  write(frozen, of_frozen);
  // As it is now.
  WriteInternal(far, 2, {{Key("g"), third_}});
  WriteInternal(third_, 1, {{Key("g"), left_}, {Key("p"), right_}});

  session_.endpoint.decide = [&](ServerId, const Verb& verb) {
    if (verb.is_read() && verb.remote_offset == near.offset()) cache_.Insert(0, far, past_far);
    return Fate::kApplied;
  };
  const Result<NodeCache::Step> step = session_.Run(descent_.To(op_, SearchGoal::Covering("x"), 0));
  ASSERT_TRUE(step) << step.error().ToString();
  EXPECT_EQ(step.value().node, right_);
  EXPECT_EQ(step.value().parent, third_);
}

}  // namespace
}  // namespace gossamer
