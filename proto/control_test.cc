// Control messages are sent as they stand in memory: golden bytes hold that still.
#include "proto/control.h"

#include "proto/test_support.h"

namespace gossamer::control {
namespace {

using test::BytesOf;
using test::ToHexTrimmed;

TEST(Control, GoldenBytesOfRequests) {
  EXPECT_EQ(ToHexTrimmed(BytesOf(RegisterRequest{})), "010002");
  EXPECT_EQ(ToHexTrimmed(
                BytesOf(AllocateRequest{.bytes = 0x0102030405060708, .kind = ExtentKind::kBlocks})),
            "0200020000000000080706050403020102");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ReleaseRequest{.offset = 0x11, .bytes = 0x22})),
            "0300020000000000110000000000000022");
  EXPECT_EQ(ToHexTrimmed(BytesOf(StatRequest{})), "040002");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ListExtentsRequest{.from_offset = 0x33})), "050002000000000033");
  EXPECT_EQ(ToHexTrimmed(BytesOf(RenewRequest{})), "060002");
  EXPECT_EQ(ToHexTrimmed(BytesOf(LeaseQueryRequest{.compute_id = 0x1122, .incarnation = 0x334455})),
            "070002000000000022110000554433");
}

TEST(Control, GoldenBytesOfReplies) {
  ErrorReply error;
  error.code = 9;
  error.message_bytes = 2;
  error.message[0] = 'n';
  error.message[1] = 'o';
  EXPECT_EQ(ToHexTrimmed(BytesOf(error)), "000002000000000009026e6f");
  RegisterReply registered;
  registered.compute_id = 0x1122;
  registered.incarnation = 0x334455;
  registered.lease_ms = 0x6677;
  EXPECT_EQ(ToHexTrimmed(BytesOf(registered)), "010002000000000022110000554433007766");
  RenewReply renewed;
  renewed.lease_ms = 0x6677;
  renewed.compute_servers = 8;
  EXPECT_EQ(ToHexTrimmed(BytesOf(renewed)), "06000200000000007766000008");
  LeaseQueryReply query;
  query.in_force = 1;
  EXPECT_EQ(ToHexTrimmed(BytesOf(query)), "070002000000000001");
  AllocateReply allocated;
  allocated.offset = 1;
  allocated.bytes = 2;
  allocated.heap_bytes = 3;
  allocated.free_bytes = 4;
  EXPECT_EQ(ToHexTrimmed(BytesOf(allocated)),
            "02000200000000000100000000000000020000000000000003000000000000"
            "0004");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ReleaseReply{})), "030002");
  StatReply stat;
  stat.heap_bytes = 1;
  stat.free_bytes = 2;
  stat.extents = 3;
  stat.node_bytes = 4;
  stat.block_bytes = 5;
  stat.compute_servers = 6;
  stat.lock_table_on_chip = 7;
  EXPECT_EQ(ToHexTrimmed(BytesOf(stat)),
            "0400020000000000010000000000000002000000000000000300000000000000"
            "040000000000000005000000000000000600000007");
  ListExtentsReply list;
  list.count = 1;
  list.more = 1;
  list.extents[0] = {0x2000, 0x100000, 7, ExtentKind::kNodes, {}};
  EXPECT_EQ(ToHexTrimmed(BytesOf(list)),
            "05000200000000000100000001000000"
            "00200000000000000000100000000000070001");
}

}  // namespace
}  // namespace gossamer::control
