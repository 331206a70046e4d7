#include "memory/saved_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/bootstrap/test_support.h"
#include "common/testing/seed.h"
#include "memory/chunk_allocator.h"
#include "memory/repeated_sums.h"
#include "memory/saved_files.h"
#include "proto/leaf_test_support.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRegionBytes = uint64_t{10} << 20;
constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
constexpr uint64_t kHolder = 77;
constexpr StoreParameters kParameters{1024, 32, 16};
constexpr ServerId kServer{3};

class SavedFileTest : public ::testing::Test {
 protected:
  static std::unique_ptr<RegionInMemory> NewRegion() {
    return RegionInMemory::New(kRegionBytes, ChunkAllocator::MapBytes(kRegionBytes)).value();
  }
  // A region with random bytes all over, and a map by which some of it is handed out.
  void SetUp() override {
    region_ = NewRegion();
    RegionHeader header{};
    header.magic = kRegionMagic;
    header.format_version = kFormatVersion;
    header.store_id = 5;
    header.incarnation = 6;
    header.region_bytes = kRegionBytes;
    header.lock_table_bytes = 4096;
    header.chunk_bytes = kChunkBytes;
    header.parameters = kParameters;
    header.server_id = static_cast<uint16_t>(ToInteger(kServer));
    header.checksum = HeaderChecksum(header);
    region_->BeginLife(header);
    region_->NoteGiven({11, 12});
    region_->NoteRecord("a record");
    std::mt19937_64 random(TestSeed());
    const std::span<std::byte> memory = region_->memory().region;
    for (uint64_t at = kHeapOffset; at < memory.size(); at += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(memory.data() + at, &word, sizeof word);
    }
    const uint64_t grains = ChunkAllocator::GrainsOf(kHeapOffset, kRegionBytes);
    HeapMap map = HeapMap::New(region_->map(), grains);
    map.SetHolder(1, {.lease = {ComputeId{1}, 1}, .client_uuid = kHolder});
    HeapMap::Use held;
    held.owner = 1;
    HeapMap::Use waiting = held;
    waiting.is_waiting = true;
    // Free, held, waiting, free, held: none of them begins where a block does.
    uint64_t first = 0;
    for (const auto& [end, use] : {std::pair{uint64_t{1000}, HeapMap::Use()},
                                   {40'000, held},
                                   {50'000, waiting},
                                   {90'000, HeapMap::Use()},
                                   {100'000, held}}) {
      map.Split(first, end);
      if (use.owner != HeapMap::kFree) map.SetUse(first, use);
      if (use.owner != HeapMap::kFree && !use.is_waiting) held_.push_back({first, end});
      first = end;
    }
    region_->EndLife();
    header_.set = 0xabcdef;
    header_.saved_at_ms = 1'000;
    header_.servers = 4;
    std::string("try").copy(header_.store.data(), header_.store.size());
  }

  // A leaf in held memory, and blocks of values to which its entries refer.
  struct Referring {
    std::vector<BlockRef> blocks;
    uint64_t leaf_at;
  };
  Referring WriteLeafWithBlocks() {
    Referring written{{}, 128 << 10};
    for (uint32_t i = 0; i < 10; ++i) {
      const BlockPtr pointer(kServer, (256 << 10) + i * uint64_t{256}, static_cast<uint8_t>(i));
      const std::string value(100 + i, static_cast<char>('a' + i));
      written.blocks.push_back(
          EncodeBlock(pointer, value, region_->memory().region.data() + pointer.offset()));
    }
    WriteLeaf(written.leaf_at, written.blocks);
    return written;
  }
  void WriteLeaf(uint64_t at, const std::vector<BlockRef>& blocks) {
    std::vector<std::string> keys;
    std::vector<test::Stored> stored;
    for (const BlockRef& ref : blocks) {
      keys.push_back("k" + std::to_string(keys.size()));
      stored.push_back(test::StoredBlock(ref.pointer, ref.length, ref.checksum));
    }
    std::vector<Entry> entries;
    for (size_t i = 0; i < keys.size(); ++i) {
      entries.push_back({keys[i], stored[i].bytes, stored[i].kind});
    }
    const test::LeafImage image{.node_bytes = kParameters.node_bytes,
                                .leaf = RemotePtr(kServer, at, 7),
                                .range = {"k", HighFence::At("l")}};
    std::ranges::copy(image.TryEncode(entries).value(),
                      region_->memory().region.begin() + static_cast<ptrdiff_t>(at));
  }
  Result<uint64_t> Save(const std::string& path) const {
    return WriteSavedFile(path, header_, *region_);
  }
  std::string Saved() const {
    const std::string path = directory_.path() + "/saved";
    const Result<uint64_t> saved = Save(path);
    EXPECT_TRUE(saved) << saved.error().ToString();
    EXPECT_EQ(saved.value(), std::filesystem::file_size(path));
    return path;
  }
  // What a region has in it if it was loaded from a file of `region_`.
  std::vector<std::byte> Expected() const {
    const std::span<const std::byte> memory = region_->memory().region;
    std::vector<std::byte> expected(memory.size());
    std::copy_n(memory.begin(), kHeapOffset, expected.begin());
    for (const auto& [first, end] : held_) {
      const uint64_t at = kHeapOffset + first * HeapMap::kGrain;
      std::copy_n(memory.data() + at, (end - first) * HeapMap::kGrain, expected.data() + at);
    }
    // The loaded one keeps the header of its own file.
    std::memset(expected.data() + kRegionFileHeaderAt, 0, sizeof(RegionFileHeader));
    return expected;
  }
  static std::vector<std::byte> MemoryOf(const KeptRegion& region) {
    const std::span<const std::byte> memory = region.memory().region;
    std::vector<std::byte> bytes(memory.begin(), memory.end());
    std::memset(bytes.data() + kRegionFileHeaderAt, 0, sizeof(RegionFileHeader));
    return bytes;
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<RegionInMemory> region_;
  SavedFileHeader header_{};
  struct Run {
    uint64_t first;
    uint64_t end;
  };
  std::vector<Run> held_;
};

TEST_F(SavedFileTest, ComesBackAsItWas) {
  const std::string path = Saved();
  const auto file = SavedFile::Open(path);
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(file.value().store(), "try");
  EXPECT_EQ(file.value().header().set, 0xabcdef);
  EXPECT_EQ(file.value().header().servers, 4);
  EXPECT_EQ(file.value().header().region.incarnation, 6);
  const auto loaded = NewRegion();
  const auto result = file.value().LoadInto(*loaded, false);
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result.value().damaged, 0);
  EXPECT_TRUE(MemoryOf(*loaded) == Expected());
  EXPECT_TRUE(std::ranges::equal(loaded->map(), region_->map()));
  EXPECT_EQ(loaded->given(), region_->given());
  EXPECT_EQ(loaded->record(), "a record");
  EXPECT_EQ(loaded->earlier(), region_->earlier());
  // What is free is not in the file: 49,000 of 163,712 grains are held.
  EXPECT_LT(std::filesystem::file_size(path), 4u << 20);
}

// What a leaf's entries repeat, the file has once; what was loaded has it twice again.
TEST_F(SavedFileTest, ChecksumsOfBlocksComeFromTheirEntries) {
  const Referring written = WriteLeafWithBlocks();
  const RestingRegion resting{
      region_->memory().region, region_->last_life()->header,
      HeapMap::Left(region_->map(), ChunkAllocator::GrainsOf(kHeapOffset, kRegionBytes))};
  const RepeatedSums repeated(resting, 2);
  std::vector<std::byte> copy(resting.bytes.begin(), resting.bytes.end());
  repeated.LeaveOut(0, copy);
  for (size_t at = 0; at < copy.size(); ++at) {
    const bool is_left_out = std::ranges::any_of(written.blocks, [&](const BlockRef& ref) {
      return at >= ref.ptr().offset() && at < ref.ptr().offset() + sizeof ref.checksum;
    });
    ASSERT_EQ(copy[at], is_left_out ? std::byte{0} : resting.bytes[at]) << at;
  }
  // Of a part, what is in that part.
  const uint64_t from = written.blocks[4].ptr().offset();
  std::vector<std::byte> part(resting.bytes.begin() + static_cast<ptrdiff_t>(from),
                              resting.bytes.begin() + static_cast<ptrdiff_t>(from + 512));
  repeated.LeaveOut(from, part);
  EXPECT_TRUE(std::ranges::equal(part, std::span(copy).subspan(from, part.size())));

  const auto loaded = NewRegion();
  ASSERT_TRUE(SavedFile::Open(Saved()).value().LoadInto(*loaded, false));
  EXPECT_TRUE(MemoryOf(*loaded) == Expected());
}

// A block that is not what its entry says, as of memory that was used again, keeps its checksum.
TEST_F(SavedFileTest, BlocksThatNoEntryKnowsStayAsTheyAre) {
  const Referring written = WriteLeafWithBlocks();
  const std::span<std::byte> memory = region_->memory().region;
  // Another generation, a byte of a value, a length, and a sum that is zero.
  EncodeBlock(BlockPtr(kServer, written.blocks[0].ptr().offset(), 33), std::string(100, 'a'),
              memory.data() + written.blocks[0].ptr().offset());
  memory[written.blocks[1].ptr().offset() + 50] ^= std::byte{1};
  memory[written.blocks[2].ptr().offset() + 4] ^= std::byte{1};
  std::memset(memory.data() + written.blocks[3].ptr().offset(), 0, sizeof(uint32_t));
  memory[written.blocks[3].ptr().offset() + 50] ^= std::byte{1};
  const auto loaded = NewRegion();
  ASSERT_TRUE(SavedFile::Open(Saved()).value().LoadInto(*loaded, false));
  EXPECT_TRUE(MemoryOf(*loaded) == Expected());
  // Of a leaf that is damaged, nothing is left out.
  std::memset(memory.data() + written.leaf_at, 1, kParameters.node_bytes);
  const auto again = NewRegion();
  ASSERT_TRUE(SavedFile::Open(Saved()).value().LoadInto(*again, false));
  EXPECT_TRUE(MemoryOf(*again) == Expected());
}

// Regression: a leaf that nothing leads to any more has entries of an earlier use of the memory, which
// had the same values.
TEST_F(SavedFileTest, EntriesOfAnEarlierUseOfTheMemoryPutNothingBack) {
  const Referring written = WriteLeafWithBlocks();
  std::vector<BlockRef> earlier;
  for (const BlockRef& ref : written.blocks) {
    std::vector<std::byte> bytes(BlockReadBytes(ref.length));
    std::copy_n(region_->memory().region.data() + ref.ptr().offset(), bytes.size(), bytes.data());
    earlier.push_back(
        SealBlock(BlockPtr(kServer, ref.ptr().offset(), 40), ref.length, bytes.data()));
    ASSERT_NE(earlier.back().checksum, ref.checksum);
  }
  for (const uint64_t at : {written.leaf_at - (16 << 10), written.leaf_at + (16 << 10)}) {
    WriteLeaf(at, earlier);
    const auto loaded = NewRegion();
    ASSERT_TRUE(SavedFile::Open(Saved()).value().LoadInto(*loaded, false));
    EXPECT_TRUE(MemoryOf(*loaded) == Expected());
  }
}

TEST_F(SavedFileTest, TheSameMemoryMakesTheSameFile) {
  const std::string first = Bytes(Saved());
  EXPECT_TRUE(Bytes(Saved()) == first);
}

// Wherever a byte is another one, or the file ends, it is refused, and the rest can be salvaged.
TEST_F(SavedFileTest, DamageIsFoundAndTheRestSalvaged) {
  const std::string path = Saved();
  const std::string good = Bytes(path);
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 60; ++i) {
    std::string bad = good;
    const size_t at = sizeof(SavedFileHeader) + random() % (good.size() - sizeof(SavedFileHeader));
    const bool is_cut = i % 3 == 0;
    if (is_cut) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    }
    Write(path, bad);
    const auto file = SavedFile::Open(path);
    ASSERT_TRUE(file) << file.error().ToString();
    const auto refused = file.value().LoadInto(*NewRegion(), false);
    ASSERT_FALSE(refused) << at;
    EXPECT_EQ(refused.error().code, Code::kCorruption);
    EXPECT_THAT(refused.error().message, HasSubstr("is damaged, or cut, at byte "));
    const auto loaded = NewRegion();
    const auto salvaged = file.value().LoadInto(*loaded, true);
    // Where the lives are in what is lost, nothing can be used. They are at the beginning.
    if (!salvaged) {
      EXPECT_LT(at, good.size() / 2);
      EXPECT_THAT(salvaged.error().message, HasSubstr("nothing of it can be used"));
      continue;
    }
    // Damage to the end looks like a cut.
    const bool is_at_end = at >= good.size() - sizeof(SavedBlock) - sizeof(uint64_t);
    EXPECT_EQ(salvaged.value().is_cut, is_cut || is_at_end);
    EXPECT_GE(salvaged.value().damaged, 1);
    // Each block is there or is zeros; but for a cut, one of them is lost at most.
    const std::vector<std::byte> expected = Expected();
    const std::vector<std::byte> found = MemoryOf(*loaded);
    int lost = 0;
    for (uint64_t block = 0; block < kRegionBytes; block += kSavedBlockBytes) {
      const auto part = std::span(found).subspan(block, kSavedBlockBytes);
      if (std::ranges::equal(part, std::span(expected).subspan(block, kSavedBlockBytes))) continue;
      ++lost;
      EXPECT_TRUE(std::ranges::all_of(part, [](std::byte b) { return b == std::byte{0}; }));
    }
    if (!is_cut) {
      EXPECT_LE(lost, 1) << at;
    }
  }
}

TEST_F(SavedFileTest, EveryBitOfTheHeaderIsChecked) {
  const std::string path = Saved();
  const std::string good = Bytes(path);
  for (size_t bit = 0; bit < 8 * sizeof(SavedFileHeader); ++bit) {
    std::string bad = good.substr(0, sizeof(SavedFileHeader));  // Open reads no more
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    Write(path, bad);
    EXPECT_FALSE(SavedFile::Open(path)) << bit;
  }
}

TEST_F(SavedFileTest, RefusesInOneSentence) {
  const std::string path = directory_.path() + "/saved";
  EXPECT_EQ(SavedFile::Open(path).error().code, Code::kNotFound);
  Write(path, "something else, longer than a number");
  EXPECT_THAT(SavedFile::Open(path).error().message, HasSubstr("no memory server has saved it"));
  const std::string good = Bytes(Saved());
  Write(path, good.substr(0, 100));
  EXPECT_THAT(SavedFile::Open(path).error().message, HasSubstr("it ends at byte 100"));
  SavedFileHeader header;
  std::memcpy(&header, good.data(), sizeof header);
  ++header.version;
  header.checksum = HeaderChecksum(header);
  std::string other = good;
  std::memcpy(other.data(), &header, sizeof header);
  Write(path, other);
  EXPECT_EQ(SavedFile::Open(path).error().code, Code::kUnsupported);
  EXPECT_THAT(SavedFile::Open(path).error().message, HasSubstr("gossamer dump"));
  Write(path, good);
  const auto larger =
      RegionInMemory::New(2 * kRegionBytes, ChunkAllocator::MapBytes(2 * kRegionBytes)).value();
  EXPECT_THAT(SavedFile::Open(path).value().LoadInto(*larger, false).error().message,
              HasSubstr("give --memory=10485760"));
}

// A file system that is full, as a limit of the process shows it.
TEST_F(SavedFileTest, WhatDoesNotFitIsRemoved) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit less{1'000'000, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &less);
  const std::string path = directory_.path() + "/saved";
  const Result<uint64_t> saved = Save(path);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::kNoResources);
  EXPECT_THAT(saved.error().message, HasSubstr("it cannot be written: "));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(Save(directory_.path() + "/none/saved").error().code, Code::kInvalidArgument);
}

// ---- Files of several lives

// Clocks are set back, and sets have random numbers.
TEST_F(SavedFileTest, TheLatestIsOfTheLatestLifeWhateverTheClockSaid) {
  constexpr std::chrono::hours kDay{24};
  SavedFiles files = SavedFiles::Open(directory_.path(), "try").value();
  ASSERT_TRUE(files.Take(ServerId{3}));
  header_.saved_at_ms = 1'000'000'000;
  auto modified = std::filesystem::file_time_type::clock::now();
  for (const uint64_t set : {5, 9, 1, 7}) {
    RegionHeader header = region_->last_life()->header;
    ++header.incarnation;
    header.checksum = HeaderChecksum(header);
    region_->BeginLife(header);
    region_->EndLife();
    header_.set = set;
    ASSERT_TRUE(Save(files.PartPath(set)));
    ASSERT_TRUE(files.Publish(set));
    std::filesystem::last_write_time(files.Path(set), modified);
    EXPECT_EQ(files.Choose(std::nullopt).value()->header().set, set);
    header_.saved_at_ms -= std::chrono::milliseconds(kDay).count();
    modified -= kDay;
  }
}

}  // namespace
}  // namespace gossamer
