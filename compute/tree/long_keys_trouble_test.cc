// Long keys whose blocks are damaged, out of reach or large, and a long key that one unit has
// whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "compute/store/testing/protocol_fixture.h"
#include "proto/key.h"

namespace gossamer {
namespace {

class LongKeysTroubleTest : public ProtocolTest {
 protected:
  // The leaf of a key, as it is now.
  struct Read {
    RemotePtr pointer;
    std::string low;
    std::vector<std::byte> bytes;
    LeafGeometry geometry;

    LeafView view() const { return *LeafView::Parse(bytes, pointer, geometry, low); }
  };
  Read ReadLeafOf(const std::string& key) {
    const auto found = client_->FindLeaf(key);
    return {found.leaf, std::string(KeyView(found.low)), client_->LeafBytes(found.leaf),
            client_->shared().geometry};
  }
  // The block of `key`, a long key.
  std::optional<BlockRef> BlockOf(const std::string& key) {
    const Read leaf = ReadLeafOf(key);
    std::optional<BlockRef> block;
    const LeafView view = leaf.view();
    for (uint32_t number = 0; number < view.unit_count(); ++number) {
      view.unit(number).ForEach([&](const Entry& entry) {
        if (entry.is_long() && entry.key_hash() == KeyHash(key)) block = entry.block();
      });
    }
    return block;
  }
};

TEST_F(LongKeysTroubleTest, AScanOverADamagedOneEnds) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 16}));
  const std::string key(200, 'k');
  ASSERT_TRUE(session_->Put("a", "1"));
  ASSERT_TRUE(session_->Put(key, "value"));
  ASSERT_TRUE(session_->Put("z", "1"));
  const std::optional<BlockRef> block = BlockOf(key);
  ASSERT_TRUE(block);
  Flip(block->ptr().server(), block->ptr().offset() + 16);
  for (const bool keys_only : {false, true}) {
    ScanOptions options;
    options.keys_only = keys_only;
    const auto cursor = session_->Scan(options);
    size_t count = 0;
    while (cursor->Next()) ++count;
    EXPECT_EQ(count, 1u);
    ASSERT_FALSE(cursor->status());
    EXPECT_EQ(cursor->status().error().code, Code::kCorruption);
  }
  // Writes to other keys go on as long as the leaf need not be split.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(session_->Put("m" + NumberKey(i, 4), "0123456789"));
}

// A READ that got the overflow group before a key was deleted there, and its home group after it
// was inserted again.
TEST_F(LongKeysTroubleTest, AScanEmitsAKeyOfBothFormsOnce) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 16}));
  const LeafGeometry& geometry = client_->shared().geometry;
  const std::string stem(90, 'p');
  std::vector<int> order(400);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  for (const int i : order) ASSERT_TRUE(session_->Put(stem + NumberKey(i * 64, 8), "v"));
  TestClient other(*cluster_, {10000, 0});  // Without a cache it stores such a key as a long one.
  const auto writer = other.NewSession();
  for (int i = 0; i < 400; ++i) {
    const std::string key = stem + NumberKey(i * 64, 8);
    const Read full = ReadLeafOf(key);
    const LeafView view = full.view();
    const std::optional<Entry> entry = view.overflow().Find(key);
    if (view.prefix().size() < 82 || !entry || entry->is_long()) continue;
    const uint32_t home = geometry.GroupOf(KeyHash(key));
    std::vector<std::string> at_home;
    view.unit(home).ForEach([&](const Entry& one) {
      at_home.push_back(std::string(view.prefix()) + std::string(one.key));
    });
    for (const std::string& one : at_home) ASSERT_TRUE(session_->Delete(one));
    const Read before = ReadLeafOf(key);
    ASSERT_TRUE(session_->Delete(key));
    ASSERT_TRUE(writer->Put(key, "new"));
    Read mixture = ReadLeafOf(key);
    if (mixture.view().version() != view.version() || !BlockOf(key)) continue;
    const size_t overflow = geometry.unit_offset(geometry.overflow_unit());
    std::copy_n(before.bytes.begin() + static_cast<ptrdiff_t>(overflow), geometry.unit_bytes(),
                mixture.bytes.begin() + static_cast<ptrdiff_t>(overflow));
    client_->Write(mixture.pointer.server(), mixture.pointer.offset(), mixture.bytes);
    for (const bool reverse : {false, true}) {
      ScanOptions options;
      options.reverse = reverse;
      options.prefix = key;
      const auto cursor = session_->Scan(options);
      size_t times = 0;
      while (cursor->Next()) times += cursor->key() == key ? 1 : 0;
      EXPECT_EQ(times, 1u) << "reverse: " << reverse;
    }
    return;
  }
  FAIL() << "no key went from the overflow group to its home group";
}

TEST_F(LongKeysTroubleTest, ThoseOnALostServerDoNotStopUpdatesOfOthers) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 16}, 2));
  // More than the server of their leaf takes alone.
  const std::string value(2000, 'v');
  std::vector<std::string> within_reach;
  size_t count = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string key = std::string(100, 'b') + NumberKey(i, 4);
    ASSERT_TRUE(session_->Put(key, value));
    const std::optional<BlockRef> block = BlockOf(key);
    ASSERT_TRUE(block);
    ++count;
    if (block->ptr().server() == ServerId{0}) within_reach.push_back(key);
  }
  ASSERT_FALSE(within_reach.empty());
  ASSERT_LT(within_reach.size(), count);
  cluster_->Kill(ServerId{1});
  for (const std::string& key : within_reach) {
    EXPECT_TRUE(session_->Get(key));
    const Status updated = session_->Update(key, "w");
    EXPECT_TRUE(updated) << updated.error().ToString();
    EXPECT_EQ(session_->Get(key).value(), "w");
    EXPECT_TRUE(session_->Delete(key));
  }
}

TEST_F(LongKeysTroubleTest, AScanOfKeysAloneReadsNoValues) {
  ClusterOptions options;
  options.parameters = {1024, 250, 16};
  options.memory_bytes = uint64_t{64} << 20;
  options.chunk_bytes = uint64_t{8} << 20;
  OpenCluster(options);
  const std::string stem(100, 'k');
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(session_->Put(stem + NumberKey(i, 4), std::string(1'000'000, 'v')));
  }
  const auto reader = client_->NewSession();
  ScanOptions scan;
  scan.keys_only = true;
  const auto cursor = reader->Scan(scan);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cursor->Next());
    EXPECT_EQ(cursor->key(), stem + NumberKey(i, 4));
  }
  EXPECT_FALSE(cursor->Next());
  EXPECT_LT(reader->counters().of(OperationClass::kScan).bytes_read, 10'000u);
}

}  // namespace
}  // namespace gossamer
