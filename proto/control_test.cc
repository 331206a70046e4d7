// Control messages are sent as they are in memory: golden bytes pin their layout.
#include "proto/control.h"

#include "proto/test_support.h"

namespace gossamer::control {
namespace {

using test::BytesOf;
using test::ToHexTrimmed;

TEST(Control, GoldenBytesOfRequests) {
  EXPECT_EQ(ToHexTrimmed(BytesOf(RegisterRequest{})), "01000a");
  RegisterRequest named;
  named.process = {0x01020304, 3, "ant"};
  EXPECT_EQ(ToHexTrimmed(BytesOf(named)), "01000a00000000000403020103616e74");
  EXPECT_EQ(ToHexTrimmed(
                BytesOf(AllocateRequest{.bytes = 0x0102030405060708, .kind = ExtentKind::kBlocks})),
            "02000a0000000000080706050403020102");
  ReleaseRequest release;
  release.count = 2;
  release.compute_id = 0x3344;
  release.incarnation = 0x556677;
  release.ranges[0] = {0x11, 0x22, 3, Past::kUsed};
  release.ranges[1] = {0x44, 0x55, 6, Past::kOrphaned, 0x1234, 0x567890};
  EXPECT_EQ(ToHexTrimmed(BytesOf(release)),
            "03000a00000000000200443377665500"
            "110000000000000022000000000000000301000000000000"
            "4400000000000000550000000000000006033412907856");
  EXPECT_EQ(ToHexTrimmed(BytesOf(StatRequest{})), "04000a");
  EXPECT_EQ(ToHexTrimmed(BytesOf(ListExtentsRequest{.from_offset = 0x33})), "05000a000000000033");
  EXPECT_EQ(ToHexTrimmed(BytesOf(
                GiveUpRequest{.offer = 0x55667788, .compute_id = 0x1122, .incarnation = 0x334455})),
            "0b000a00000000008877665522110000554433");
  RenewRequest renewal;
  renewal.epoch = 0x1122;
  EXPECT_EQ(ToHexTrimmed(BytesOf(renewal)), "06000a00000000002211");
  EpochRequest epoch;
  epoch.start = 1;
  EXPECT_EQ(ToHexTrimmed(BytesOf(epoch)), "08000a000000000001");
  ClientQueryRequest client;
  client.client_uuid = 0x1122;
  EXPECT_EQ(ToHexTrimmed(BytesOf(client)), "09000a00000000002211");
  SweepRequest sweep;
  sweep.step = SweepStep::kDone;
  sweep.ended = 0x1122;
  EXPECT_EQ(ToHexTrimmed(BytesOf(sweep)), "0a000a0000000000030000002211");
  EXPECT_EQ(ToHexTrimmed(BytesOf(LeaseQueryRequest{.compute_id = 0x1122, .incarnation = 0x334455})),
            "07000a000000000022110000554433");
}

TEST(Control, GoldenBytesOfReplies) {
  ErrorReply error;
  error.code = 9;
  error.message_bytes = 2;
  error.message[0] = 'n';
  error.message[1] = 'o';
  EXPECT_EQ(ToHexTrimmed(BytesOf(error)), "00000a000000000009026e6f");
  RegisterReply registered;
  registered.compute_id = 0x1122;
  registered.incarnation = 0x334455;
  registered.lease_ms = 0x6677;
  registered.usage = {1, 2, 3, 4};
  EXPECT_EQ(ToHexTrimmed(BytesOf(registered)),
            "01000a000000000022110000554433007766000000000000"
            "010000000000000002000000000000000300000000000000"
            "04");
  RenewReply renewed;
  renewed.clock_us = 0x77;
  renewed.lease_ms = 0x6677;
  renewed.compute_servers = 8;
  renewed.epoch = 9;
  renewed.acknowledged = 7;
  renewed.waiting = 1;
  renewed.refusals = 0x3344;
  renewed.offer = 0x5566;
  renewed.ranges[0] = {0x11, 0x22};
  EXPECT_EQ(ToHexTrimmed(BytesOf(renewed)),
            "06000a0000000000770000000000000077660000080000000900000007000000"
            "01004433665500001100000000000000"
            "22");
  EpochReply epoch;
  epoch.epoch = 3;
  epoch.acknowledged = 2;
  epoch.last = {0x01020304, 3, "ant"};
  EXPECT_EQ(ToHexTrimmed(BytesOf(epoch)), "08000a000000000003000000020000000403020103616e74");
  SweepReply sweep;
  sweep.ended = 3;
  sweep.swept = 2;
  sweep.is_sender = 1;
  EXPECT_EQ(ToHexTrimmed(BytesOf(sweep)), "0a000a0000000000030000000200000001");
  ClientQueryReply client;
  client.in_force = 1;
  client.incarnation = 0x334455;
  EXPECT_EQ(ToHexTrimmed(BytesOf(client)), "09000a000000000001000000554433");
  LeaseQueryReply query;
  query.in_force = 1;
  EXPECT_EQ(ToHexTrimmed(BytesOf(query)), "07000a000000000001");
  query.holder = {0x01020304, 3, "ant"};
  EXPECT_EQ(ToHexTrimmed(BytesOf(query)), "07000a000000000001000000000000000403020103616e74");
  AllocateReply allocated;
  allocated.offset = 1;
  allocated.bytes = 2;
  allocated.compute_id = 0x1122;
  allocated.generation = 7;
  allocated.incarnation = 0x334455;
  allocated.more = 1;
  allocated.usage = {3, 4, 5, 6};
  allocated.extents[0] = {8, 9, 0x0a};
  EXPECT_EQ(ToHexTrimmed(BytesOf(allocated)),
            "02000a000000000001000000000000000200000000000000"
            "2211070155443300030000000000000004000000000000000500000000000000"
            "0600000000000000080000000000000009000000000000000a");
  ReleaseReply released;
  released.refused = 5;
  EXPECT_EQ(ToHexTrimmed(BytesOf(released)), "03000a000000000005");
  StatReply stat;
  stat.usage = {1, 2, 4, 5};
  stat.extents = 3;
  stat.compute_servers = 6;
  stat.lock_table_on_chip = 7;
  stat.waiting_bytes = 8;
  stat.orphaned_bytes = 9;
  stat.lock_table_why[0] = 'w';
  EXPECT_EQ(ToHexTrimmed(BytesOf(stat)),
            "04000a0000000000010000000000000002000000000000000400000000000000"
            "0500000000000000030000000000000006000000070000000800000000000000"
            "090000000000000077");
  ListExtentsReply list;
  list.count = 1;
  list.more = 1;
  list.extents[0] = {0x2000, 0x100000, 0x1122, 0x334455, 7, ExtentKind::kNodes, 1, 1};
  EXPECT_EQ(ToHexTrimmed(BytesOf(list)),
            "05000a00000000000100000001000000"
            "00200000000000000000100000000000221100000000000055443300070001"
            "03");
}

}  // namespace
}  // namespace gossamer::control
