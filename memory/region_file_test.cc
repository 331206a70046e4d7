#include "memory/region_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/bootstrap/test_support.h"
#include "common/process.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kRegionBytes = uint64_t{4} << 20;
constexpr uint64_t kMapBytes = 100'000;

class RegionFileTest : public ::testing::Test {
 protected:
  RegionFileWish Wish() const {
    RegionFileWish wish;
    wish.path = directory_.path() + "/region";
    wish.region_bytes = kRegionBytes;
    wish.map_bytes = kMapBytes;
    return wish;
  }
  static RegionHeader HeaderOf(uint64_t incarnation) {
    RegionHeader header{};
    header.magic = kRegionMagic;
    header.format_version = kFormatVersion;
    header.store_id = 5;
    header.incarnation = incarnation;
    header.region_bytes = kRegionBytes;
    header.lock_table_bytes = 4096;
    header.chunk_bytes = 1 << 18;
    header.checksum = HeaderChecksum(header);
    return header;
  }
  std::unique_ptr<RegionFile> Open() const {
    auto opened = RegionFile::Open(Wish());
    EXPECT_TRUE(opened) << opened.error().ToString();
    return opened ? std::move(opened).value() : nullptr;
  }
  std::unique_ptr<RegionFile> Begin(uint64_t incarnation) const {
    auto file = Open();
    file->BeginLife(HeaderOf(incarnation));
    const Status published = file->Publish();
    EXPECT_TRUE(published) << published.error().ToString();
    return file;
  }
  Error Refusal() const { return RefusalOf(Wish()); }
  static Error RefusalOf(const RegionFileWish& wish) {
    const std::string before = Bytes(wish.path);
    auto opened = RegionFile::Open(wish);
    EXPECT_FALSE(opened);
    EXPECT_TRUE(Bytes(wish.path) == before) << "a file that was refused has changed";
    return opened ? MakeError(Code::kUnsupported, "it was opened") : opened.error();
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Overwrite(uint64_t at, const std::string& bytes) const {
    std::fstream file(Wish().path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static uint64_t StateOfFile() { return StateAt({0, 0, 0, kRegionBytes, kMapBytes, 0}); }

  const TemporaryDirectory directory_;
};

TEST_F(RegionFileTest, HasItsNameOnceItIsPublished) {
  {
    const auto file = Open();
    ASSERT_EQ(Names().size(), 1u);
    EXPECT_NE(Names().front(), "region");
  }
  EXPECT_THAT(Names(), IsEmpty()) << "what was not published leaves nothing";
  Begin(1);
  EXPECT_THAT(Names(), ElementsAre("region"));
}

// A process that is killed before it serves leaves its file under another name.
TEST_F(RegionFileTest, WhatWasNeverPublishedGoesWithTheNextStart) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = RegionFile::Open(Wish());
    _exit(file ? 0 : 1);  // destroys nothing
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(Names().size(), 1u);
  const std::string left = Names().front();
  const auto being_made = Open();
  EXPECT_THAT(Names(), AllOf(SizeIs(1), Not(Contains(left))));
  const std::string other = Names().front();
  // Neither one that lives, nor what has another name, or is no file.
  const std::vector<std::string> others = {"region.0123456789abcde",  "region.0123456789abcdef0",
                                           "region.0123456789abcdeF", "region-0123456789abcdef",
                                           "regiom.0123456789abcdef", "0123456789abcdef"};
  for (const std::string& name : others) std::ofstream(directory_.path() + "/" + name) << "x";
  std::filesystem::create_directory(directory_.path() + "/region.0123456789abcdef");
  std::filesystem::create_symlink("0123456789abcdef",
                                  directory_.path() + "/region.0000000000000000");
  Begin(1);
  EXPECT_THAT(Names(), AllOf(SizeIs(others.size() + 4), IsSupersetOf(others),
                             Contains("region.0123456789abcdef"),
                             Contains("region.0000000000000000"), Contains(other)));
}

TEST_F(RegionFileTest, CountsThePagesThatItsRegionHas) {
  {
    const auto file = Begin(1);
    EXPECT_LT(file->bytes_in_place(), kRegionBytes / 2);
    for (size_t at = 0; at < kRegionBytes; at += 4096)
      file->memory().region[at + 64] = std::byte{1};
  }
  const auto file = Open();
  EXPECT_GE(file->bytes_in_place(), kRegionBytes);
  EXPECT_LT(file->bytes_in_place(), kRegionBytes + (1 << 20)) << "the map is none of its pages";
}

TEST_F(RegionFileTest, KeepsWhatWasWritten) {
  {
    const auto file = Begin(11);
    EXPECT_FALSE(file->last_life());
    EXPECT_EQ(file->memory().region.size(), kRegionBytes);
    EXPECT_EQ(file->map().size(), kMapBytes);
    file->memory().region[kHeapOffset] = std::byte{7};
    file->map()[99] = std::byte{8};
    file->NoteGiven({3, 4});
    file->NoteRecord("a record");
  }
  for (uint64_t life = 12; life < 40; ++life) {
    const auto file = Open();
    ASSERT_TRUE(file->last_life());
    EXPECT_EQ(file->last_life()->header.incarnation, life - 1);
    EXPECT_EQ(file->memory().region[kHeapOffset], std::byte{7});
    EXPECT_EQ(file->map()[99], std::byte{8});
    EXPECT_EQ(file->given(), (GivenNumbers{3, 4}));
    EXPECT_EQ(file->record(),
              life == 12 ? "a record" : "the record of " + std::to_string(life - 1));
    const std::vector<uint64_t> earlier = file->earlier();
    EXPECT_EQ(earlier.size(), std::min<uint64_t>(life - 11, RegionLife::kEarlier + 1));
    EXPECT_EQ(earlier.front(), life - 1);
    EXPECT_EQ(earlier.back(), life - earlier.size());
    file->BeginLife(HeaderOf(life));
    file->NoteRecord("the record of " + std::to_string(life));
  }
}

// A process is killed before it has written a life, or a record, to its end.
TEST_F(RegionFileTest, TheOneBeforeCountsWhereTheLastOneIsTorn) {
  Begin(1)->NoteRecord("first");
  {
    const auto file = Open();
    file->BeginLife(HeaderOf(2));
    file->NoteRecord("second");
  }
  Overwrite(StateOfFile() + kLivesAt[0] + 20, "torn");  // the second: sequences count from 1
  Overwrite(StateOfFile() + kRecordsAt[0] + sizeof(RegionRecord), "torn");
  const auto file = Open();
  EXPECT_EQ(file->last_life()->header.incarnation, 1u);
  EXPECT_EQ(file->record(), "first");
}

TEST_F(RegionFileTest, ATornHeaderOfTheRegionIsWrittenAnew) {
  Begin(1);
  Overwrite(24, "torn");
  const auto file = Open();
  file->BeginLife(HeaderOf(2));
  std::string problem;
  EXPECT_EQ(ParseRegionHeader(file->memory().region, problem)->incarnation, 2u);
}

TEST_F(RegionFileTest, OneServerHasIt) {
  auto file = Begin(1);
  EXPECT_THAT(Refusal().message, HasSubstr("another memory server uses it"));
  // Clients get the file, and may outlive the server.
  const UniqueFd of_client(::dup(file->memory().file));
  file.reset();
  EXPECT_TRUE(Open());
}

TEST_F(RegionFileTest, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  Begin(1);
  ASSERT_EQ(::chown(Wish().path.c_str(), 12'345, 12'345), 0);
  EXPECT_THAT(Refusal().message, HasSubstr("it belongs to user 12345"));
}

TEST_F(RegionFileTest, TwoThatCreateItMakeOne) {
  const auto first = Open();
  const auto second = Open();
  first->BeginLife(HeaderOf(1));
  second->BeginLife(HeaderOf(2));
  ASSERT_TRUE(second->Publish());
  const Status refused = first->Publish();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_F(RegionFileTest, ANewOneReplacesTheOldOneWhenItIsPublished) {
  Begin(1);
  RegionFileWish wish = Wish();
  wish.is_new = true;
  wish.region_bytes *= 2;
  {
    const auto file = RegionFile::Open(wish).value();
    EXPECT_FALSE(file->last_life());
  }
  EXPECT_EQ(Open()->last_life()->header.incarnation, 1u) << "it is still there";
  const auto file = RegionFile::Open(wish).value();
  RegionHeader header = HeaderOf(2);
  file->BeginLife(header);
  ASSERT_TRUE(file->Publish());
  EXPECT_THAT(Names(), ElementsAre("region"));
}

TEST_F(RegionFileTest, WhatIsNoRegionIsRefused) {
  std::ofstream(Wish().path) << "something else";
  EXPECT_THAT(Refusal().message, AllOf(HasSubstr("it is no region"), HasSubstr("--create=new")));
  std::filesystem::remove(Wish().path);
  std::filesystem::create_directory(Wish().path);
  const auto opened = RegionFile::Open(Wish());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
}

TEST_F(RegionFileTest, ADamagedOrShortFileIsRefused) {
  Begin(1);
  const std::string good = Bytes(Wish().path);
  std::filesystem::resize_file(Wish().path, good.size() - 4096);
  EXPECT_THAT(Refusal().message, HasSubstr("a part of it is missing"));
  std::filesystem::resize_file(Wish().path, good.size());
  Overwrite(kRegionFileHeaderAt + 20, "x");
  EXPECT_THAT(Refusal().message, HasSubstr("does not match its checksum"));
  Overwrite(kRegionFileHeaderAt, good.substr(kRegionFileHeaderAt, 40));
  Overwrite(kRegionFileHeaderAt + 8, std::string("\2\0\0\0", 4));
  EXPECT_THAT(Refusal().message, HasSubstr("version 2 of region files, this build has 1"));
  Overwrite(kRegionFileHeaderAt, good.substr(kRegionFileHeaderAt, 40));
  Overwrite(StateOfFile() + kLivesAt[1], "torn");
  EXPECT_THAT(Refusal().message, HasSubstr("no life of a memory server"));
}

TEST_F(RegionFileTest, OtherSizesAreRefused) {
  Begin(1);
  RegionFileWish wish = Wish();
  wish.region_bytes *= 2;
  EXPECT_THAT(RefusalOf(wish).message,
              AllOf(HasSubstr("4194304 bytes, and --memory says 8388608"),
                    HasSubstr("leave --memory out, or give --memory=4194304")));
}

// The life of a process that may have been killed with the machine.
TEST_F(RegionFileTest, AnotherBootIsRefusedUnlessItWasClosed) {
  const auto set_process = [this](uint64_t sequence, const std::string& process) {
    const uint64_t at = StateOfFile() + kLivesAt[sequence % 2];
    RegionLife life;
    std::memcpy(&life, Bytes(Wish().path).data() + at, sizeof life);
    life.process = {};
    process.copy(life.process.data(), process.size());
    life.checksum = ChecksumOf(life);
    Overwrite(at, std::string(reinterpret_cast<const char*>(&life), sizeof life));
  };
  Begin(1);
  set_process(1, "0123456789abcdef/1/2/3");
  EXPECT_THAT(Refusal().message, HasSubstr("what it holds may be torn"));
  set_process(1, OwnProcessIdentity());
  {
    const auto file = Open();
    file->BeginLife(HeaderOf(2));
    ASSERT_TRUE(file->Close());
  }
  set_process(3, "0123456789abcdef/1/2/3");  // closing it is a life's last entry
  EXPECT_TRUE(Open());
}

// The process before is gone only when all of its threads are.
TEST_F(RegionFileTest, WaitsForTheEndOfTheProcessBefore) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RegionFileWish wish = Wish();
    auto file = RegionFile::Open(wish);
    if (!file) _exit(1);
    file.value()->BeginLife(HeaderOf(1));
    if (!file.value()->Publish()) _exit(1);
    file.value().reset();  // the lock goes before the process
    char byte = 0;
    [[maybe_unused]] const ssize_t written = ::write(ready[1], &byte, 1);
    ::usleep(300'000);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(Open());
  EXPECT_GT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(100));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RegionFileTest, AFileThatCannotBeCreatedIsRefused) {
  RegionFileWish wish = Wish();
  wish.path = directory_.path() + "/none/region";
  const auto opened = RegionFile::Open(wish);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("cannot be created there"));
  wish = Wish();
  wish.region_bytes = uint64_t{1} << 43;
  const auto large = RegionFile::Open(wish);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kNoResources);
  EXPECT_THAT(large.error().message, HasSubstr("give less --memory"));
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace gossamer
