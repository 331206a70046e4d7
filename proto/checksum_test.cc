// Built twice, as crc32c_test.cc is.
#include "proto/checksum.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;

constexpr RemotePtr kNode(ServerId{3}, 0x12300, 7);

uint64_t WordOf(const Checksum& sum) { return std::bit_cast<uint64_t>(sum); }

// Byte by byte, from the definition.
class SlowSum {
 public:
  void Add(std::span<const std::byte> bytes) {
    std::vector<std::byte> padded(bytes.begin(), bytes.end());
    padded.resize((bytes.size() + 15) / 16 * 16);
    for (size_t at = 0; at < padded.size(); at += 8) {
      uint32_t& words = lanes_[at / 8 % 2].words;
      words = Next(words, std::span(padded).subspan(at, 8));
    }
    for (size_t at = padded.size(); at != 0; at -= 8) {
      const std::span<std::byte> word = std::span(padded).subspan(at - 8, 8);
      for (size_t k = 0; k < 4; ++k) word[k] ^= word[k + 4];
      uint32_t& folded = lanes_[at / 8 % 2].folded;
      folded = Next(folded, word);
    }
  }
  Checksum End() const {
    const auto end = [](uint32_t first, uint32_t second) {
      const uint64_t word = uint64_t{second} << 32;
      return Next(first, std::as_bytes(std::span(&word, 1)));
    };
    return {end(lanes_[0].words, lanes_[1].words), end(lanes_[0].folded, lanes_[1].folded)};
  }

 private:
  struct Lane {
    uint32_t words;
    uint32_t folded;
  };
  static uint32_t Next(uint32_t crc, std::span<const std::byte> bytes) {
    return ~Crc32c(~crc, bytes);
  }

  Lane lanes_[2] = {{0x47534d52u, 0x33746166u}, {0x53657250u, 0x726f4d65u}};
};

class ChecksumTest : public test::SeededTest {};

TEST_F(ChecksumTest, IsItsDefinitionAtEveryLengthAndAlignment) {
  const std::string text = random.String(200);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= text.size(); ++size) {
      const auto part = BytesOf(text).subspan(from, size);
      PairSum sum;
      sum.Add(part);
      SlowSum slow;
      slow.Add(part);
      ASSERT_EQ(sum.End(), slow.End()) << from << "+" << size;
    }
  }
}

TEST(Checksum, GoldenValues) {
  EXPECT_EQ(WordOf(UnitSeed(RemotePtr(), 0).End()), 0xd102129c3ee0ee45u);
  EXPECT_EQ(WordOf(UnitSeed(kNode, 2).End()), 0x6000d00e470ee0au);
  EXPECT_EQ(WordOf(UnitSeed(kNode, 2, "key", 1).End()), 0xdf7b29164e456780u);
  EXPECT_EQ(WordOf(UnitSeed(kNode, 2, "a prefix of 21 bytes! and more", 21).End()),
            0xa1d20a5ee01aeca3u);
  Bytes piece(32);
  for (uint8_t i = 8; i < 32; ++i) piece[i] = std::byte{i};
  EXPECT_EQ(WordOf(ChecksumOf(UnitSeed(kNode, 2), piece)), 0x12584bf92e915c0fu);
}

// ---- What it cannot miss

// The rank of vectors over GF(2).
size_t RankOf(std::vector<uint64_t> rows) {
  size_t rank = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const auto pivot = std::find_if(rows.begin() + static_cast<ptrdiff_t>(rank), rows.end(),
                                    [bit](uint64_t row) { return (row >> bit & 1) != 0; });
    if (pivot == rows.end()) continue;
    std::swap(*pivot, rows[rank]);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i != rank && (rows[i] >> bit & 1) != 0) rows[i] ^= rows[rank];
    }
    ++rank;
  }
  return rank;
}

// What a flip of bit `bit` changes in the checksum of a unit of 164 bytes. The checksum is linear:
// changes add up.
uint64_t ChangeOf(size_t bit) {
  Bytes piece(164);
  const uint64_t before = WordOf(ChecksumOf({}, piece));
  piece[bit / 8] ^= std::byte{1} << bit % 8;
  return WordOf(ChecksumOf({}, piece)) ^ before;
}

std::vector<uint64_t> ChangesOf(size_t first_byte, size_t bytes) {
  std::vector<uint64_t> changes;
  for (size_t bit = 8 * first_byte; bit < 8 * (first_byte + bytes); ++bit) {
    changes.push_back(ChangeOf(bit));
  }
  return changes;
}

TEST(Checksum, MissesNoChangeWithinOneWord) {
  for (size_t word = 8; word + 8 <= 164; word += 8) EXPECT_EQ(RankOf(ChangesOf(word, 8)), 64u);
}

TEST(Checksum, HardlyMissesChangesWithinEightBytes) {
  for (size_t at = 8; at + 8 <= 164; ++at) EXPECT_GE(RankOf(ChangesOf(at, 8)), 61u) << at;
}

TEST(Checksum, HardlyMissesChangesOfTwoHalvesOfWordsAnywhere) {
  for (size_t first = 8; first + 4 <= 160; first += 4) {
    for (size_t second = first + 4; second + 4 <= 164; second += 4) {
      std::vector<uint64_t> changes = ChangesOf(first, 4);
      const std::vector<uint64_t> others = ChangesOf(second, 4);
      changes.insert(changes.end(), others.begin(), others.end());
      ASSERT_GE(RankOf(changes), 62u) << first << " " << second;
    }
  }
}

// The low bytes of counters: of each entry, two bytes change.
TEST(Checksum, HardlyMissesChangesOfManyCounters) {
  for (size_t stride = 10; stride <= 24; ++stride) {
    for (size_t first = 18; first < 26; ++first) {
      std::vector<uint64_t> changes;
      for (size_t at = first; at + 2 <= 164 && changes.size() < 64; at += stride) {
        const std::vector<uint64_t> two = ChangesOf(at, 2);
        changes.insert(changes.end(), two.begin(), two.end());
      }
      ASSERT_GE(RankOf(changes) + 4, changes.size()) << stride << " " << first;
    }
  }
}

TEST(Checksum, MissesNoChangeOfTwoBytesAnywhere) {
  std::set<uint64_t> seen;
  size_t count = 0;
  // Two different changes of at most one byte each never look alike.
  for (size_t at = 8; at < 164; ++at) {
    for (uint32_t change = 1; change < 256; ++change) {
      Bytes piece(164);
      piece[at] = std::byte{static_cast<uint8_t>(change)};
      seen.insert(WordOf(ChecksumOf({}, piece)));
      ++count;
    }
  }
  EXPECT_EQ(seen.size(), count);
}

// ---- Overwriting

TEST_F(ChecksumTest, AnOverwrittenPieceIsSealed) {
  size_t done = 0;
  for (int round = 0; round < 20'000; ++round) {
    const size_t size = 8 + 1 + random.Below(200);
    std::string bytes = random.String(size);
    const std::span<std::byte> piece = std::as_writable_bytes(std::span(bytes));
    Seal(UnitSeed(kNode, 5, "some prefix", 9), piece);
    const size_t at = 8 + random.Below(size - 8);
    const std::string fresh = random.String(random.Below(std::min<size_t>(size - at, 50) + 1));
    std::string expected = bytes;
    expected.replace(at, fresh.size(), fresh);
    Seal(UnitSeed(kNode, 5, "some prefix", 9), std::as_writable_bytes(std::span(expected)));
    if (OverwriteSealed(piece, at, fresh)) {
      ++done;
      ASSERT_EQ(bytes, expected) << fresh.size() << " bytes at " << at << " of " << size;
    } else {
      ASSERT_GT(fresh.size(), 32u);
    }
  }
  EXPECT_GT(done, 15'000u);
}

// ---- Seeds

TEST(UnitSeed, DiffersForEveryUnitGenerationAndPrefix) {
  std::set<uint64_t> seeds;
  size_t count = 0;
  const auto add = [&](const PairSum& seed) {
    seeds.insert(WordOf(seed.End()));
    ++count;
  };
  for (uint32_t unit = 0; unit <= 24; ++unit) add(UnitSeed(kNode, unit));
  for (RemotePtr node = kNode.NextGeneration(); node != kNode; node = node.NextGeneration()) {
    add(UnitSeed(node, 0));
  }
  // Also where one prefix is that of another with zeros behind it.
  for (size_t length = 1; length < 256; ++length) {
    add(UnitSeed(kNode, 0, std::string(length, '\0'), length));
    add(UnitSeed(kNode, 0, std::string(length - 1, '\0') + '\1', length));
    add(UnitSeed(kNode, 0, std::string(length + 9, 'x'), length));
  }
  EXPECT_EQ(seeds.size(), count);
}

}  // namespace
}  // namespace gossamer
