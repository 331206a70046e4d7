#include "memory/available_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace gossamer {
namespace {

uint64_t Available(const std::string& text, bool huge_pages) {
  std::istringstream meminfo(text);
  return ReadMachineMemory(meminfo).Room(huge_pages);
}

constexpr char kMeminfo[] =
    "MemTotal:       65536000 kB\n"
    "MemFree:         4000000 kB\n"
    "MemAvailable:    8388608 kB\n"
    "CommitLimit:    30000000 kB\n"
    "Committed_AS:   10000000 kB\n"
    "HugePages_Total:   24576\n"
    "HugePages_Free:    20480\n"
    "Hugepagesize:       2048 kB\n";

TEST(AvailableMemory, IsWhatTheKernelCallsSo) {
  EXPECT_EQ(Available(kMeminfo, false), uint64_t{8} << 30);
  EXPECT_EQ(Available("MemTotal: 1 kB\n", true), 0u);
  EXPECT_EQ(Available("", false), 0u);
}

TEST(AvailableMemory, SaysWhatMayBePromised) {
  std::istringstream meminfo(kMeminfo);
  const MachineMemory memory = ReadMachineMemory(meminfo);
  EXPECT_EQ(memory.commit_limit, uint64_t{30'000'000} << 10);
  EXPECT_EQ(memory.committed, uint64_t{10'000'000} << 10);
}

// A machine that sets most of its memory aside as 2 MB pages for the store has little other memory.
TEST(AvailableMemory, CountsPagesThatWereSetAside) {
  EXPECT_EQ(Available(kMeminfo, true), uint64_t{40} << 30);
}

// Free pages reserved by one mapping are not free for another.
TEST(AvailableMemory, PagesThatAreReservedAreNotFree) {
  const std::string text(kMeminfo);
  EXPECT_EQ(Available(text + "HugePages_Rsvd: 10240\n", true), uint64_t{20} << 30);
  EXPECT_EQ(Available(text + "HugePages_Rsvd: 30000\n", true), uint64_t{8} << 30);
}

TEST(AvailableMemory, PagesOfAnotherSizeAreNotOurs) {
  const std::string text = "MemAvailable: 1024 kB\nHugePages_Free: 8\nHugepagesize: 1048576 kB\n";
  EXPECT_EQ(Available(text, true), uint64_t{1} << 20);
}

TEST(AvailableMemory, ReadsThisMachines) {
  std::ifstream meminfo("/proc/meminfo");
  EXPECT_GT(ReadMachineMemory(meminfo).Room(true), 0u);
}

}  // namespace
}  // namespace gossamer
