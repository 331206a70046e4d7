#include "proto/region.h"

#include <gmock/gmock.h>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;
using test::ForEachBitFlip;
using test::ForEachMixture;
using test::ToHex;
using ::testing::StartsWith;

RegionHeader Header() {
  RegionHeader header{};
  header.magic = kRegionMagic;
  header.format_version = kFormatVersion;
  header.store_id = 0x1122334455667788;
  header.incarnation = 0x0102030405060708;
  header.region_bytes = 1 << 30;
  header.lock_table_bytes = 1 << 17;
  header.chunk_bytes = 32 << 20;
  header.server_id = 5;
  header.checksum = HeaderChecksum(header);
  return header;
}

Bytes Image(const RegionHeader& header) {
  const auto bytes = BytesOf(header);
  return {bytes.begin(), bytes.end()};
}

// Why the bytes are rejected; empty if they are not.
std::string ProblemOf(std::span<const std::byte> bytes) {
  std::string problem;
  const std::optional<RegionHeader> header = ParseRegionHeader(bytes, problem);
  EXPECT_EQ(header.has_value(), problem.empty());
  return problem;
}

constexpr std::string_view kNotGossamer = "not a Gossamer region";
constexpr std::string_view kOtherFormat = "region of format version ";
constexpr std::string_view kBadChecksum = "region header does not match its checksum";
constexpr std::string_view kUnusable = "region header with sizes that this build cannot use: ";

TEST(RegionHeader, GoldenBytes) {
  EXPECT_EQ(ToHex(BytesOf(Header())),
            "474f5353414d455206000000d92fded388776655443322110807060504030201"
            "00000040000000000000020000000000000000020000000000040000fa001000"
            "0500000000000000");
}

TEST(RegionHeader, PlacesOfTheSuperblock) {
  EXPECT_EQ(kRootWordOffset, 2048u);
  EXPECT_EQ(kFirstLeafOffset, 4096u);
  EXPECT_EQ(kHeapOffset, 8192u);
}

TEST(ParseRegionHeader, AcceptsAndIgnoresWhatLiesBehind) {
  Bytes bytes = Image(Header());
  bytes.resize(4096, std::byte{0x55});
  std::string problem;
  const std::optional<RegionHeader> header = ParseRegionHeader(bytes, problem);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->store_id, 0x1122334455667788u);
  EXPECT_EQ(header->parameters, StoreParameters());
  EXPECT_EQ(problem, "");
}

TEST(ParseRegionHeader, RejectsEverySingleBitError) {
  ForEachBitFlip(Image(Header()), [](const Bytes& image, size_t bit) {
    const std::string_view expected = bit < 64   ? kNotGossamer
                                      : bit < 96 ? kOtherFormat
                                                 : kBadChecksum;
    ASSERT_THAT(ProblemOf(image), StartsWith(expected)) << bit;
  });
}

TEST(ParseRegionHeader, RejectsWhatIsTooShort) {
  const Bytes image = Image(Header());
  for (size_t size = 0; size < image.size(); ++size) {
    const Bytes part(image.begin(), image.begin() + static_cast<ptrdiff_t>(size));
    ASSERT_EQ(ProblemOf(part), kNotGossamer);
  }
}

TEST(ParseRegionHeader, RejectsMemoryThatNobodyWrote) {
  EXPECT_EQ(ProblemOf(Bytes(4096)), kNotGossamer);
}

TEST(ParseRegionHeader, NamesAnotherFormat) {
  RegionHeader header = Header();
  header.format_version = 7;  // its checksum may lie anywhere
  EXPECT_EQ(ProblemOf(Image(header)), "region of format version 7; this build speaks version 6");
}

TEST(ParseRegionHeader, RejectsSizesThatItCannotUse) {
  const auto problem = [](auto&& change) {
    RegionHeader header = Header();
    change(header);
    header.checksum = HeaderChecksum(header);
    return ProblemOf(Image(header));
  };
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.node_bytes = 0; }), StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.node_bytes = 1000; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.node_bytes = 8192; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters = {256, 32, 64}; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.max_key_bytes = 0; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.max_key_bytes = 251; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.parameters.inline_value_bytes = 65; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.region_bytes = kHeapOffset - 1; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.region_bytes = kMaxOffset + 2; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.lock_table_bytes = 0; }), StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.lock_table_bytes = 4; }), StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.lock_table_bytes = 3 << 10; }),
              StartsWith(kUnusable));
  EXPECT_THAT(problem([](RegionHeader& h) { h.chunk_bytes = 0; }), StartsWith(kUnusable));
  EXPECT_EQ(problem([](RegionHeader& h) { h.lock_table_bytes = 8; }), "");
}

class RegionTest : public test::SeededTest {};

// A header is written before clients can connect. If a server is replaced under a client all the
// same, the client gets one header or the other.
TEST_F(RegionTest, MixturesOfTwoHeadersAreRejected) {
  RegionHeader other = Header();
  other.store_id = 99;
  other.incarnation = 0xfedcba9876543210;
  other.region_bytes = 3 << 20;
  other.parameters = {512, 8, 8};
  other.server_id = 1;
  other.checksum = HeaderChecksum(other);
  const Bytes before = Image(Header());
  const Bytes after = Image(other);
  ForEachMixture(before, after, random, 20000, [&](const Bytes& mixture) {
    const bool whole = mixture == before || mixture == after;
    ASSERT_EQ(ProblemOf(mixture).empty(), whole) << ToHex(mixture);
  });
}

}  // namespace
}  // namespace gossamer
