#include "proto/saved_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;
using test::ForEachBitFlip;
using test::ToHex;

SavedFileHeader SomeHeader() {
  SavedFileHeader header{};
  header.magic = kSavedFileMagic;
  header.version = kSavedFileVersion;
  header.set = 0x1122334455667788;
  header.sequence = 3;
  header.saved_at_ms = 0x0102;
  header.servers = 4;
  header.region.magic = kRegionMagic;
  header.file.magic = kRegionFileMagic;
  std::string("shop").copy(header.store.data(), header.store.size());
  header.checksum = HeaderChecksum(header);
  return header;
}

TEST(SavedFile, GoldenBytes) {
  const SavedFileHeader header = SomeHeader();
  const auto image = BytesOf(header);
  const Bytes bytes(image.begin(), image.end());
  EXPECT_EQ(ToHex(Bytes(bytes.begin(), bytes.begin() + 48)),
            "53415645444d454d0200000000857826887766554433221103000000000000000201000000000000"
            "0400000000000000");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 48, bytes.begin() + 56)), "474f5353414d4552");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 120, bytes.begin() + 128)), "5247494f4e46494c");
  EXPECT_EQ(ToHex(Bytes(bytes.begin() + 160, bytes.begin() + 168)), "73686f7000000000");
  const SavedBlock block{kSavedBlockBytes, 4, 0xa1b2c3d4};
  EXPECT_EQ(ToHex(BytesOf(block)), "000010000000000004000000d4c3b2a1");
  EXPECT_EQ(ChecksumOf(block, std::as_bytes(std::span("data", 4))), 3623540676u);
}

TEST(SavedFile, ChecksumsCoverEveryBit) {
  const SavedFileHeader good = SomeHeader();
  const auto of_header = BytesOf(good);
  ForEachBitFlip({of_header.begin(), of_header.end()},
                 [](std::span<const std::byte> flipped, size_t) {
                   SavedFileHeader header;
                   std::memcpy(&header, flipped.data(), sizeof header);
                   EXPECT_NE(header.checksum, HeaderChecksum(header));
                 });
}

}  // namespace
}  // namespace gossamer
