// Control messages are sent as they stand in memory: golden bytes hold that still.
#include "proto/control.h"

#include "proto/test_support.h"

namespace gossamer::control {
namespace {

using test::BytesOf;
using test::ToHexTrimmed;

TEST(Control, GoldenBytesOfRequests) {
  EXPECT_EQ(ToHexTrimmed(BytesOf(RegisterRequest{})), "010001");
  EXPECT_EQ(ToHexTrimmed(
                BytesOf(AllocateRequest{.bytes = 0x0102030405060708, .kind = ExtentKind::kBlocks})),
            "0200010000000000080706050403020102");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ReleaseRequest{.offset = 0x11, .bytes = 0x22})),
            "0300010000000000110000000000000022");
  EXPECT_EQ(ToHexTrimmed(BytesOf(StatRequest{})), "040001");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ListExtentsRequest{.from_offset = 0x33})), "050001000000000033");
}

TEST(Control, GoldenBytesOfReplies) {
  ErrorReply error;
  error.code = 9;
  error.message_bytes = 2;
  error.message[0] = 'n';
  error.message[1] = 'o';
  EXPECT_EQ(ToHexTrimmed(BytesOf(error)), "000001000000000009026e6f");
  RegisterReply registered;
  registered.compute_id = 0x1122;
  registered.incarnation = 0x334455;
  EXPECT_EQ(ToHexTrimmed(BytesOf(registered)),
            "0100010000000000221100005544"
            "33");
  AllocateReply allocated;
  allocated.offset = 1;
  allocated.bytes = 2;
  allocated.heap_bytes = 3;
  allocated.free_bytes = 4;
  EXPECT_EQ(ToHexTrimmed(BytesOf(allocated)),
            "02000100000000000100000000000000020000000000000003000000000000"
            "0004");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ReleaseReply{})), "030001");
  StatReply stat;
  stat.heap_bytes = 1;
  stat.free_bytes = 2;
  stat.extents = 3;
  stat.node_bytes = 4;
  stat.block_bytes = 5;
  stat.compute_servers = 6;
  stat.lock_table_on_chip = 7;
  EXPECT_EQ(ToHexTrimmed(BytesOf(stat)),
            "0400010000000000010000000000000002000000000000000300000000000000"
            "040000000000000005000000000000000600000007");
  ListExtentsReply list;
  list.count = 1;
  list.more = 1;
  list.extents[0] = {0x2000, 0x100000, 7, ExtentKind::kNodes, {}};
  EXPECT_EQ(ToHexTrimmed(BytesOf(list)),
            "05000100000000000100000001000000"
            "00200000000000000000100000000000070001");
}

}  // namespace
}  // namespace gossamer::control
