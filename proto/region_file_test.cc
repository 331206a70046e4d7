#include "proto/region_file.h"

#include <gmock/gmock.h>

#include <string>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;
using test::ForEachBitFlip;
using test::ToHex;

RegionFileHeader FileHeader() {
  RegionFileHeader header{kRegionFileMagic, kRegionFileVersion, 0, (5 << 20) + 4096, 3000, 1 << 24};
  header.checksum = HeaderChecksum(header);
  return header;
}

RegionLife SomeLife() {
  RegionLife life{};
  life.sequence = 3;
  life.earlier = {0x22, 0x11};
  life.header.magic = kRegionMagic;
  life.header.incarnation = 0x33;
  std::string("boot/1/2/3").copy(life.process.data(), life.process.size());
  life.checksum = ChecksumOf(life);
  return life;
}

TEST(RegionFile, GoldenBytes) {
  const RegionFileHeader header = FileHeader();
  EXPECT_EQ(ToHex(BytesOf(header)),
            "5247494f4e46494c01000000e3fc2a8d0010500000000000b80b0000000000000000000100000000");
  const RegionLife life = SomeLife();
  const auto image = BytesOf(life);
  const Bytes bytes(image.begin(), image.end());
  EXPECT_EQ(ToHex(Bytes(bytes.begin(), bytes.begin() + 24)),
            "030000000000000022000000000000001100000000000000");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 136, bytes.begin() + 144)), "474f5353414d4552");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 208, bytes.begin() + 220)), "626f6f742f312f322f330000");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 336, bytes.end())), "000000003d10f8f0");
  EXPECT_EQ(ChecksumOf(RegionRecord{7, 4, 0}, "text"), 3517286073u);
}

TEST(RegionFile, PartsBeginAtMultiplesOf2MiB) {
  const RegionFileHeader header = FileHeader();
  EXPECT_EQ(StateAt(header), uint64_t{6} << 20);
  EXPECT_EQ(MapAt(header), uint64_t{10} << 20);
  EXPECT_EQ(PagesAt(header), uint64_t{12} << 20);
  EXPECT_EQ(FileBytes(header), uint64_t{28} << 20);
}

TEST(RegionFile, ChecksumsCoverEveryBit) {
  const RegionFileHeader header = FileHeader();
  const auto of_header = BytesOf(header);
  ForEachBitFlip({of_header.begin(), of_header.end()},
                 [](std::span<const std::byte> flipped, size_t) {
                   RegionFileHeader damaged{};
                   std::memcpy(&damaged, flipped.data(), sizeof damaged);
                   EXPECT_NE(damaged.checksum, HeaderChecksum(damaged));
                 });
  const RegionLife life = SomeLife();
  const auto of_life = BytesOf(life);
  ForEachBitFlip({of_life.begin(), of_life.end()}, [](std::span<const std::byte> flipped, size_t) {
    RegionLife damaged{};
    std::memcpy(&damaged, flipped.data(), sizeof damaged);
    EXPECT_NE(damaged.checksum, ChecksumOf(damaged));
  });
}

}  // namespace
}  // namespace gossamer
