// The parts of the verbs fabric that need no device: addresses, wire layouts, time-outs.
#include "common/fabric/verbs/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "common/fabric/verbs/address.h"
#include "common/fabric/verbs/device_facts.h"
#include "common/fabric/verbs/resources.h"

namespace gossamer::verbs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(VerbsAddress, ReadsAndWrites) {
  const std::map<std::string, std::string> cases = {
      {"192.0.2.1:7000", "192.0.2.1:7000"},
      {"127.0.0.1:0", "127.0.0.1:0"},
      {"[2001:db8::1]:65535", "[2001:db8::1]:65535"},
  };
  for (const auto& [text, expected] : cases) {
    const Result<SocketAddress> address = ParseSocketAddress(text);
    ASSERT_TRUE(address) << text << ": " << address.error().ToString();
    EXPECT_EQ(ToString(address.value()), expected);
  }
  EXPECT_TRUE(ParseSocketAddress("0.0.0.0:1").value().address().is_unspecified());
  EXPECT_TRUE(ParseSocketAddress("[::]:1").value().address().is_unspecified());
}

TEST(VerbsAddress, SaysWhatIsWrong) {
  for (const char* text : {"", "192.0.2.1", "192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:x", ":7000",
                           "2001:db8::1:7000", "[2001:db8::1]"}) {
    const Result<SocketAddress> address = ParseSocketAddress(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(address.error().message, HasSubstr("write ADDRESS:PORT"));
  }
}

TEST(VerbsWire, GoldenBytes) {
  ConnectRequest request;
  request.kind = RequestKind::kAttach;
  request.client_uuid = 0x1122334455667788;
  request.incarnation = 2;
  request.replaces = 3;
  request.also_destroys = 4;
  const unsigned char expected[] = {0x47, 0x4f, 0x53, 0x52, 4,    0,    1,    0,  //
                                    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 0, 0,
                                    0,    0,    0,    0,    0,    3,    0,    0,    0, 0, 0,
                                    0,    0,    4,    0,    0,    0,    0,    0,    0, 0};
  static_assert(sizeof expected == sizeof request);
  EXPECT_EQ(std::memcmp(&request, expected, sizeof expected), 0);
}

TEST(VerbsTimeout, RetriesEndWithinHalfTheBound) {
  for (const uint32_t timeout_ms : {100u, 500u, 2000u, 10000u}) {
    const auto milliseconds = [](uint8_t exponent) {
      return 4.096e-3 * static_cast<double>(uint64_t{1} << exponent);
    };
    const double total_ms = milliseconds(ServerAckTimeout(timeout_ms)) * (kRetryCount + 1);
    EXPECT_LE(total_ms, timeout_ms / 2.0);
    EXPECT_GT(total_ms, timeout_ms / 4.0 - 1);
    EXPECT_LE(milliseconds(ClientAckTimeout(timeout_ms)), 17);
    EXPECT_LE(ClientAckTimeout(timeout_ms), ServerAckTimeout(timeout_ms));
  }
}

TEST(VerbsDeviceFacts, ALinkIsAsFastAsItsLanes) {
  EXPECT_EQ(LinkSpeed(1, 1), "2.5 Gb/s");    // SDR
  EXPECT_EQ(LinkSpeed(16, 2), "56 Gb/s");    // FDR
  EXPECT_EQ(LinkSpeed(32, 1), "25 Gb/s");    // 25 GbE
  EXPECT_EQ(LinkSpeed(32, 2), "100 Gb/s");   // EDR, 100 GbE
  EXPECT_EQ(LinkSpeed(64, 16), "100 Gb/s");  // HDR100
  EXPECT_EQ(LinkSpeed(64, 2), "200 Gb/s");   // HDR
  EXPECT_EQ(LinkSpeed(128, 2), "400 Gb/s");  // NDR
  EXPECT_EQ(LinkSpeed(0, 2), "unknown");
  EXPECT_EQ(LinkSpeed(32, 3), "unknown");
}

// A device locks what it shares with this process: buffers, and the rings of its queues.
TEST(VerbsResources, WhatTheLimitOnLockedMemoryMayRefuseNamesIt) {
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &own), 0);
  const rlimit little{.rlim_cur = 65'536, .rlim_max = own.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &little), 0);
  for (const int error : {ENOMEM, EPERM, EAGAIN}) {
    const Error refused = LockingError(Code::kUnsupported, "making a queue pair on mlx5_0", error);
    EXPECT_EQ(refused.code, Code::kNoResources);
    EXPECT_THAT(refused.message, StartsWith("making a queue pair on mlx5_0: "));
    EXPECT_THAT(refused.message, HasSubstr("the limit on locked memory, which is 65536 bytes"));
    EXPECT_THAT(refused.message, HasSubstr(": ulimit -l unlimited)"));
  }
  const Error other = LockingError(Code::kUnsupported, "making a queue pair on mlx5_0", EINVAL);
  EXPECT_EQ(other.code, Code::kUnsupported);
  EXPECT_EQ(other.message, "making a queue pair on mlx5_0: Invalid argument");
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &own), 0);
}

}  // namespace
}  // namespace gossamer::verbs
