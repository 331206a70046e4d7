// Machines that are short of memory, imitated by files in place of /proc and /sys.
#include "memory/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/bootstrap/test_support.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

constexpr char kHugePages[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
constexpr char kGiantPages[] = "/sys/kernel/mm/hugepages/hugepages-1048576kB/";

// 23 GiB available, no limits.
class MemoryRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 24117248 kB\n");
    Write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max file size             unlimited            unlimited            bytes     \n"
          "Max data size             unlimited            unlimited            bytes     \n"
          "Max locked memory         8388608              8388608              bytes     \n"
          "Max address space         unlimited            unlimited            bytes     \n");
    Write("/proc/self/status", "VmSize:\t  102400 kB\nVmLck:\t 0 kB\nCapEff:\t0000000000000000\n");
  }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }
  void SetAside(std::string_view folder, int free, int reserved) const {
    Write(std::string(folder) + "free_hugepages", std::to_string(free) + "\n");
    Write(std::string(folder) + "resv_hugepages", std::to_string(reserved) + "\n");
  }
  std::string root() const { return directory_.path(); }
  static MemoryWish Shared(uint64_t bytes) { return {.bytes = bytes, .is_shared = true}; }
  // Empty: there is enough room.
  std::string Refusal(const MemoryWish& wish) const {
    const Status status = CheckRoom(wish, root());
    if (status) return {};
    EXPECT_EQ(status.error().code, Code::kNoResources);
    return status.error().message;
  }
  std::string RefusalOfWhatIsLeft(const MemoryWish& wish) const {
    const Status status = CheckRoomLeft(wish, root());
    return status ? std::string() : status.error().message;
  }
  // Version 2, as in a container: the process's group is the root of the mount.
  void BeInContainer(const std::string& limits_file, const std::string& limit) const {
    Write("/proc/self/cgroup", "0::/\n");
    Write("/sys/fs/cgroup/" + limits_file, limit);
    Write("/sys/fs/cgroup/memory.current", "1610612736\n");
    Write("/sys/fs/cgroup/memory.stat",
          "anon 536870912\nfile 1073741824\nshmem 0\ninactive_file 536870912\n"
          "active_file 536870912\n");
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(MemoryRoom, OfTheMachine) {
  EXPECT_EQ(Refusal(Shared(20 * kGiB)), "");
  EXPECT_EQ(Refusal(Shared(24 * kGiB)),
            "24.0 GiB of memory are more than the 23.0 GiB that this machine has available; give "
            "less, or free some");
  EXPECT_THAT(Refusal(Shared(23 * kGiB - kMiB)), HasSubstr("for the rest of the process"));
}

TEST_F(MemoryRoom, PagesThatWereSetAsideCountAgainstNothingElse) {
  Write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  SetAside(kHugePages, 10240, 0);
  MemoryWish wish = Shared(20 * kGiB);
  EXPECT_NE(Refusal(wish), "");
  wish.may_be_huge = true;
  EXPECT_TRUE(FitsHugePages(wish, root()));
  EXPECT_EQ(Refusal(wish), "");
}

// A machine that sets most of its memory aside as 2 MB pages for the store has little other memory.
TEST_F(MemoryRoom, HugePagesAreThoseThatAreFree) {
  MemoryWish wish = Shared(40 * kGiB);
  wish.may_be_huge = true;
  EXPECT_FALSE(FitsHugePages(wish, root()));
  SetAside(kHugePages, 20480, 0);
  EXPECT_TRUE(FitsHugePages(wish, root()));
  // Free pages reserved by one mapping are not free for another.
  SetAside(kHugePages, 20480, 10240);
  EXPECT_FALSE(FitsHugePages(wish, root()));
  wish.bytes = 20 * kGiB;
  EXPECT_TRUE(FitsHugePages(wish, root()));
  SetAside(kHugePages, 20480, 30000);
  EXPECT_FALSE(FitsHugePages(wish, root()));
}

// The lock table is not in a page of 1 GB.
TEST_F(MemoryRoom, PagesOfAGigabyteServeWhoMapsThem) {
  SetAside(kGiantPages, 4, 0);
  MemoryWish wish = Shared(4 * kGiB + kMiB / 4);
  wish.may_be_huge = true;
  EXPECT_FALSE(FitsHugePages(wish, root()));
  wish.may_be_giant = true;
  EXPECT_TRUE(FitsHugePages(wish, root()));
  SetAside(kGiantPages, 4, 1);
  EXPECT_FALSE(FitsHugePages(wish, root()));
}

TEST_F(MemoryRoom, OfAContainer) {
  // 1 GiB of the 1.5 GiB in use is page cache, which the kernel can reclaim.
  BeInContainer("memory.max", "2147483648\n");
  EXPECT_EQ(Refusal(Shared(kGiB)), "");
  EXPECT_EQ(Refusal(Shared(2 * kGiB)),
            "2.00 GiB of memory are more than the 1.50 GiB that are left of the 2.00 GiB which the "
            "control group of this process may have (/sys/fs/cgroup/memory.max); give less, or "
            "raise that limit");
  EXPECT_THAT(RefusalOfWhatIsLeft(Shared(2 * kGiB)), HasSubstr("/sys/fs/cgroup/memory.max"));
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Refusal(Shared(2 * kGiB)), "");
  Write("/sys/fs/cgroup/memory.high", "1073741824\n");
  EXPECT_THAT(Refusal(Shared(2 * kGiB)), HasSubstr("512 MiB that are left of the 1.00 GiB"));
}

TEST_F(MemoryRoom, OfTheControlGroupsAbove) {
  Write("/proc/self/cgroup", "0::/system.slice/store.service\n");
  Write("/sys/fs/cgroup/system.slice/store.service/memory.max", "max\n");
  Write("/sys/fs/cgroup/system.slice/store.service/memory.current", "0\n");
  Write("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/system.slice/memory.current", "536870912\n");
  EXPECT_THAT(Refusal(Shared(kGiB)),
              HasSubstr("512 MiB that are left of the 1.00 GiB which the control group of this "
                        "process may have (/sys/fs/cgroup/system.slice/memory.max)"));
}

// Both versions at once. The container's part of the hierarchy is mounted as if it were all of it.
TEST_F(MemoryRoom, OfControlGroupsOfVersion1) {
  Write("/proc/self/cgroup", "4:memory,other:/docker/abc\n1:cpu:/else\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 536870912\n"
        "total_active_file 536870912\n");
  EXPECT_EQ(Refusal(Shared(kGiB)), "");
  EXPECT_THAT(Refusal(Shared(3 * kGiB)),
              HasSubstr("2.00 GiB that are left of the 3.00 GiB which the control group of this "
                        "process may have (/sys/fs/cgroup/memory/memory.limit_in_bytes)"));
}

TEST_F(MemoryRoom, OfTheProcess) {
  MemoryWish wish = Shared(kGiB);
  wish.is_locked = true;
  EXPECT_EQ(Refusal(wish),
            "1.00 GiB of memory are more than the 8.00 MiB that are left of the 8.00 MiB which "
            "ulimit -l lets this process have; give less, or raise that limit (ulimit -l "
            "unlimited)");
  Write("/proc/self/status", "VmSize:\t  102400 kB\nCapEff:\t0000000000004000\n");
  EXPECT_EQ(Refusal(wish), "");
  Write("/proc/self/limits", "Max file size             1073741823           unlimited  bytes\n");
  EXPECT_THAT(Refusal(Shared(kGiB)), HasSubstr("ulimit -f lets this process have"));
  EXPECT_EQ(Refusal({.bytes = kGiB}), "");
  Write("/proc/self/limits", "Max address space         1181116006           unlimited  bytes\n");
  EXPECT_THAT(Refusal(Shared(kGiB)), HasSubstr("ulimit -v lets this process have"));
  EXPECT_EQ(Refusal({.bytes = kGiB, .is_shared = true, .is_mapped = true}), "");
}

TEST(MemoryRoomOfThisMachine, IsRead) {
  const Status status = CheckRoom({.bytes = kGiB << 30, .is_shared = true});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("of memory are more than"));
}

TEST_F(MemoryRoom, WhatTheMachineDoesNotSayIsNoLimit) {
  const TemporaryDirectory nothing;
  EXPECT_TRUE(CheckRoom(Shared(kGiB << 20), nothing.path()));
}

}  // namespace
}  // namespace gossamer
