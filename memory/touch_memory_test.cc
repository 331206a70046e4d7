#include "memory/touch_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "common/fabric/shm/handles.h"

namespace gossamer {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBytes = 10 * kMiB;

size_t TouchedPages(const MemoryMapping& mapping) {
  std::vector<unsigned char> is_there(mapping.bytes() / 4096);
  EXPECT_EQ(::mincore(mapping.data(), mapping.bytes(), is_there.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(is_there, [](auto page) { return page & 1; }));
}

MemoryMapping Shared() {
  return shm::MapFile(shm::CreateMemfd("touch-test", kBytes, false).value()).value();
}

class TouchMemoryInPages : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(HugeOrNot, TouchMemoryInPages, testing::Bool());

TEST_P(TouchMemoryInPages, HasEveryPageAndLeavesWhatIsThere) {
  for (const unsigned threads : {0u, 1u, 3u}) {
    const MemoryMapping mapping = Shared();
    mapping.data()[5 * kMiB] = std::byte{7};
    std::vector<uint64_t> left;
    uint64_t done = 0;
    TouchOptions options{.slice_bytes = 3 * kMiB, .threads = threads, .huge_pages = GetParam()};
    options.may_go_on = [&left](uint64_t bytes) -> Status {
      left.push_back(bytes);
      return Ok();
    };
    options.progress = [&done](uint64_t bytes) { done = bytes; };
    const Status touched = TouchMemory({mapping.data(), kBytes}, options);
    ASSERT_TRUE(touched) << touched.error().ToString();
    EXPECT_EQ(TouchedPages(mapping), kBytes / 4096);
    EXPECT_EQ(mapping.data()[5 * kMiB], std::byte{7});
    EXPECT_THAT(left, ::testing::ElementsAre(10 * kMiB, 7 * kMiB, 4 * kMiB, kMiB));
    if (threads == 1) {
      EXPECT_EQ(done, kBytes);
    }
  }
}

TEST(TouchMemory, EndsWhereItMayNotGoOn) {
  const MemoryMapping mapping = Shared();
  TouchOptions options{.slice_bytes = kMiB, .threads = 2};
  options.may_go_on = [](uint64_t left) -> Status {
    if (left > 8 * kMiB) return Ok();
    return MakeError(Code::kNoResources, "short by now");
  };
  const Status touched = TouchMemory({mapping.data(), kBytes}, options);
  ASSERT_FALSE(touched);
  EXPECT_EQ(touched.error().message, "short by now");
  EXPECT_EQ(TouchedPages(mapping), 2 * kMiB / 4096);
}

// Pages behind the end of a file: a bus error at their first use.
TEST(TouchMemory, PagesThatCannotBeHadAreASentence) {
  const auto file = shm::CreateMemfd("touch-test", 4 * kMiB, false).value();
  void* data = ::mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  const Status touched =
      TouchMemory({static_cast<std::byte*>(data), 8 * kMiB}, {.slice_bytes = kMiB, .threads = 1});
  ASSERT_FALSE(touched);
  EXPECT_EQ(touched.error().code, Code::kNoResources);
  EXPECT_THAT(
      touched.error().message,
      ::testing::HasSubstr("after 4.00 MiB of 8.00 MiB of memory the kernel gives no more"));
  ::munmap(data, 8 * kMiB);
}

TEST(TouchMemory, NothingIsTouchedAtOnce) { EXPECT_TRUE(TouchMemory({}, {})); }

}  // namespace
}  // namespace gossamer
