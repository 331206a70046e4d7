// Nodes whose siblings lead back to them: every walk over siblings ends.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "compute/store/testing/protocol_fixture.h"
#include "gossamer/modifier.h"
#include "gossamer/values.h"
#include "proto/checksum.h"

namespace gossamer {
namespace {

class SiblingCycleTest : public ProtocolTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
    ASSERT_NO_FATAL_FAILURE(Load(2000));
    ASSERT_GE(client_->Root().level(), 2u);
  }
  void Write(RemotePtr at, const std::vector<std::byte>& image) {
    client_->Write(at.server(), at.offset(), image);
  }
  void SetSibling(RemotePtr at, uint32_t level, RemotePtr sibling) {
    if (level != 0) {
      InternalNode node = client_->Internal(at);
      node.sibling = sibling;
      std::vector<std::byte> image(client_->shared().parameters.node_bytes);
      ASSERT_TRUE(EncodeInternal(image, at, node));
      return Write(at, image);
    }
    const LeafGeometry& geometry = client_->shared().geometry;
    std::vector<std::byte> image = client_->LeafBytes(at);
    const std::span<std::byte> bytes =
        std::span(image).subspan(geometry.trailer_offset(), kTrailerBytes);
    Trailer trailer;
    std::memcpy(&trailer, bytes.data(), sizeof trailer);
    trailer.sibling = sibling.word();
    std::memcpy(bytes.data(), &trailer, sizeof trailer);
    Seal(UnitSeed(at, geometry.units()), bytes);
    Write(at, image);
  }
  // The first `nodes` nodes of the level form a ring, and keys from the result on are right of
  // them: only the ring leads there.
  std::string MakeRing(uint32_t level, size_t nodes) {
    const RemotePtr parent = LeftmostAt(level + 1);
    const RemotePtr first = LeftmostAt(level);
    RemotePtr last = first;
    std::string beyond;
    for (size_t i = 0; i < nodes; ++i) {
      const InternalNode::Child removed = client_->RemoveDownlink(parent);
      beyond = std::string(removed.separator.view());
      if (i + 1 < nodes) last = removed.pointer;
    }
    SetSibling(last, level, first);
    return beyond;
  }
  // Each operation of a client that has nothing cached ends with Corruption, and soon.
  void ExpectCorruption(const std::string& key) {
    struct Keeps : ValueModifier {
      Change Modify(std::optional<std::string_view>, Expiry) override { return {}; }
    };
    const std::vector<std::function<Code(Session&)>> operations = {
        [&](Session& session) { return session.Get(key).error().code; },
        [&](Session& session) {
          const std::string_view keys[] = {key, key};
          return session.MultiGet(keys)[1].error().code;
        },
        [&](Session& session) { return session.Put(key, "new").error().code; },
        [&](Session& session) { return session.Update(key, "new").error().code; },
        [&](Session& session) { return session.Delete(key).error().code; },
        [&](Session& session) {
          Keeps keeps;
          return session.Modify(key, keeps).error().code;
        },
        [&](Session& session) {
          const KeyValue pairs[] = {{key, "new"}, {key, "newer"}};
          return session.MultiPut(pairs)[1].error().code;
        },
        [&](Session& session) { return ScanFrom(session, key, false); },
        [&](Session& session) { return ScanFrom(session, key, true); },
        [&](Session& session) {
          return session.DeleteRange(KeyRange(key, std::nullopt), {}).status.error().code;
        },
    };
    constexpr uint64_t kMostRoundTrips = 20'000;
    for (size_t i = 0; i < operations.size(); ++i) {
      SCOPED_TRACE(i);
      TestClient other(*cluster_);
      const std::unique_ptr<OpenSession> session = other.NewSession();
      EXPECT_EQ(operations[i](*session), Code::kCorruption);
      uint64_t round_trips = 0;
      for (const WireCounts& counts : session->counters().wire) round_trips += counts.round_trips;
      EXPECT_LT(round_trips, kMostRoundTrips);
    }
  }
  static Code ScanFrom(Session& session, const std::string& key, bool reverse) {
    ScanOptions options;
    options.from = key;
    options.to = key + '\xff';
    options.reverse = reverse;
    const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
    while (cursor->Next()) {
    }
    return cursor->status() ? Code::kNotFound : cursor->status().error().code;
  }
  void ExpectChecksEnd() { EXPECT_NE(cluster_->Check().problem_count, 0u); }
};

TEST_F(SiblingCycleTest, AnInternalNodeThatNamesItself) {
  const std::string beyond = MakeRing(1, 1);
  ASSERT_NO_FATAL_FAILURE(ExpectCorruption(beyond));
  ExpectChecksEnd();
}

TEST_F(SiblingCycleTest, TwoInternalNodesThatNameEachOther) {
  const std::string beyond = MakeRing(1, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectCorruption(beyond));
  ExpectChecksEnd();
}

TEST_F(SiblingCycleTest, ALeafThatNamesItself) {
  const std::string beyond = MakeRing(0, 1);
  ASSERT_NO_FATAL_FAILURE(ExpectCorruption(beyond));
  ExpectChecksEnd();
}

TEST_F(SiblingCycleTest, TwoLeavesThatNameEachOther) {
  const std::string beyond = MakeRing(0, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectCorruption(beyond));
  ExpectChecksEnd();
}

}  // namespace
}  // namespace gossamer
