// How many mixtures of two images of a unit a checksum accepts: the 8 bytes that units have, and a
// plain CRC32C of 4.
//
// A READ beside a WRITE may return each byte of the old or of the new image (CONTRACT.md, A6),
// those of the checksum too. Both checksums are linear: a mixture is accepted if the changes that
// its new bytes make cancel out. So one XOR tells of each mixture whether it is accepted, if they
// are visited in the order of a Gray code.
//
//   GOSSAMER_TEST_MIXTURES=20000000000 build/test/proto_test --gtest_filter='TornMixtures*'   # the table of LAYOUT.md; 5 min
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "proto/leaf_test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;
using test::Content;
using test::UnitImage;

constexpr size_t kGrayBits = 20;  // mixtures of one pair of images: at most 2^20
constexpr uint32_t kUnitBytes = 164;

// What each byte that differs, of the piece or of its checksum, adds to "computed ^ stored".
using Changes = std::vector<uint64_t>;

uint64_t Wide(const Bytes& piece) {
  return std::bit_cast<uint64_t>(ChecksumOf(UnitSeed(test::kLeaf, 2), piece));
}
uint64_t Narrow(const Bytes& piece) {
  return Crc32c(0, std::span(piece).subspan(sizeof(Checksum)));
}

template <typename Sum>
Changes ChangesBetween(const Bytes& before, const Bytes& after, const Sum& sum) {
  const uint64_t nothing = sum(Bytes(kUnitBytes));
  Changes changes;
  for (size_t at = sizeof(Checksum); at < kUnitBytes; ++at) {
    if (before[at] == after[at]) continue;
    Bytes change(kUnitBytes);
    change[at] = before[at] ^ after[at];
    changes.push_back(sum(change) ^ nothing);
  }
  const uint64_t stored = sum(before) ^ sum(after);
  for (int byte = 0; byte < 8; ++byte) {
    const uint64_t change = stored & uint64_t{0xff} << 8 * byte;
    if (change != 0) changes.push_back(change);
  }
  return changes;
}

struct Count {
  uint64_t mixtures = 0;
  uint64_t accepted = 0;  // that are neither of the images
};

// Of at most kGrayBits changes, all subsets; with each, the same random subset of the others.
void CountAccepted(Changes changes, test::Random& random, Count& count) {
  if (changes.empty()) return;
  for (size_t i = changes.size(); i > 1; --i) {
    std::swap(changes[i - 1], changes[random.Below(static_cast<uint32_t>(i))]);
  }
  const size_t bits = std::min(changes.size(), kGrayBits);
  uint64_t sum = 0;
  uint64_t images = 2;  // that the walk meets: none of the changes, and all of them
  if (changes.size() > bits) {
    size_t chosen = 0;
    for (size_t i = bits; i < changes.size(); ++i) {
      if (!random.OneIn(2)) continue;
      sum ^= changes[i];
      ++chosen;
    }
    images = chosen == 0 || chosen == changes.size() - bits ? 1 : 0;
  }
  const uint64_t subsets = uint64_t{1} << bits;
  uint64_t accepted = sum == 0 ? 1 : 0;
  for (uint64_t i = 1; i < subsets; ++i) {
    sum ^= changes[static_cast<size_t>(std::countr_zero(i))];
    accepted += sum == 0 ? 1 : 0;
  }
  count.mixtures += subsets;
  count.accepted += accepted - images;
}

enum class Change { kUpdate, kCounter, kInsert, kDelete, kRewrite };
constexpr Change kChanges[] = {Change::kUpdate, Change::kCounter, Change::kInsert, Change::kDelete,
                               Change::kRewrite};
constexpr const char* kNames[] = {"update of a value", "update of a counter", "insert", "delete",
                                  "rewrite"};

class TornMixturesTest : public test::SeededTest {
 protected:
  std::string Number(uint64_t number) {
    std::string text(8, '\0');
    for (size_t i = 0; i < 8; ++i, number >>= 8) text[7 - i] = static_cast<char>(number);
    return text;
  }
  Content Entries(size_t count) {
    Content content;
    const bool counters = random.OneIn(2);
    while (content.size() < count) {
      content[Number(random.Word())] = {Number(counters ? random.Below(1000) : random.Word())};
    }
    return content;
  }
  // Two images of one unit, before and after `change`.
  std::pair<Bytes, Bytes> Images(Change change) {
    UnitImage unit{.bytes = kUnitBytes, .version = NodeVersion{random.Below(1 << 20)}};
    Content content = Entries(random.Between(2, 8));
    const Bytes before = unit.Encode(content);
    const auto entry =
        std::next(content.begin(), random.Below(static_cast<uint32_t>(content.size())));
    switch (change) {
      case Change::kUpdate: entry->second.bytes = Number(random.Word()); break;
      case Change::kCounter: entry->second.bytes = Number(random.Below(1000)); break;
      case Change::kInsert: content[Number(random.Word())] = {Number(random.Word())}; break;
      case Change::kDelete: content.erase(entry); break;
      case Change::kRewrite: {
        unit.version = Next(unit.version);
        const size_t half = content.size() / 2;
        content.erase(std::next(content.begin(), static_cast<ptrdiff_t>(half)), content.end());
        break;
      }
    }
    return {before, unit.Encode(content)};
  }
};

TEST_F(TornMixturesTest, ChangesCancelOutForBothImages) {
  for (const Change change : kChanges) {
    const auto [before, after] = Images(change);
    uint64_t stored = 0;
    std::memcpy(&stored, before.data(), sizeof stored);
    EXPECT_EQ(Wide(before), stored);
    uint64_t sum = 0;
    for (const uint64_t each : ChangesBetween(before, after, Wide)) sum ^= each;
    EXPECT_EQ(sum, 0u);
  }
}

TEST_F(TornMixturesTest, EightBytesAcceptNone) {
  const char* text = std::getenv("GOSSAMER_TEST_MIXTURES");
  const uint64_t wanted = text == nullptr ? uint64_t{1} << 24 : std::strtoull(text, nullptr, 0);
  std::printf("%-20s | 4 bytes: %11s %9s | 8 bytes: %11s %9s\n", "change", "mixtures", "accepted",
              "mixtures", "accepted");
  for (size_t kind = 0; kind < std::size(kChanges); ++kind) {
    Count narrow;
    Count wide;
    while (narrow.mixtures < wanted / std::size(kChanges)) {
      const auto [before, after] = Images(kChanges[kind]);
      CountAccepted(ChangesBetween(before, after, Narrow), random, narrow);
      CountAccepted(ChangesBetween(before, after, Wide), random, wide);
    }
    std::printf("%-20s | %20lu %9lu | %20lu %9lu\n", kNames[kind], narrow.mixtures, narrow.accepted,
                wide.mixtures, wide.accepted);
    EXPECT_EQ(wide.accepted, 0u) << kNames[kind];
  }
}

}  // namespace
}  // namespace gossamer
