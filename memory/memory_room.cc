#include "memory/memory_room.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <ios>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "common/huge_pages.h"
#include "common/text/human.h"

namespace gossamer {
namespace {

// Threads, the program with its libraries, client messages.
constexpr uint64_t kRestOfProcess = uint64_t{16} << 20;
// Thread stacks and heaps take address space without touching it.
constexpr uint64_t kAddressesOfThreads = uint64_t{64} << 20;
constexpr uint64_t kBytesPerPageTableByte = 512;
constexpr int kIpcLockBit = 14;  // CAP_IPC_LOCK: no limit on locked memory

// The number behind `name`, in the first line that begins with it. nullopt if there is none: a
// limit is "max" or "unlimited".
std::optional<uint64_t> NumberBehind(std::string_view name, const std::string& file,
                                     bool is_hexadecimal = false) {
  std::ifstream input(file);
  for (std::string line; std::getline(input, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    uint64_t number = 0;
    if (rest >> (is_hexadecimal ? std::hex : std::dec) >> number) return number;
    break;
  }
  return std::nullopt;
}

struct Room {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  std::string of_whom;  // "that this machine has available"
  std::string remedy;
};

// The smallest room, with its explanation.
class Rooms {
 public:
  void Add(uint64_t bytes, const std::string& of_whom, const std::string& remedy) {
    if (bytes < smallest_.bytes) smallest_ = {bytes, of_whom, remedy};
  }
  // Errors: less than `wanted` plus `extra` is left. The message names `extra` only if `wanted`
  // alone fits.
  Status Check(uint64_t wanted, uint64_t extra) const {
    if (wanted + extra <= smallest_.bytes) return Ok();
    const std::string rest = wanted > smallest_.bytes
                                 ? ""
                                 : ", with " + HumanBytes(extra) + " for the rest of the process,";
    return MakeError(Code::kNoResources, HumanBytes(wanted) + " of memory" + rest +
                                             " are more than the " + HumanBytes(smallest_.bytes) +
                                             " " + smallest_.of_whom + "; " + smallest_.remedy);
  }

 private:
  Room smallest_;
};

void AddMachine(const std::string& root, Rooms& rooms) {
  const std::optional<uint64_t> kilobytes = NumberBehind("MemAvailable:", root + "/proc/meminfo");
  if (!kilobytes) return;
  rooms.Add(*kilobytes << 10, "that this machine has available", "give less, or free some");
}

// The files of a control group, of versions 2 and 1.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::array<std::string_view, 2> page_cache;  // lines of memory.stat: the kernel can reclaim it
};
constexpr std::array kGroupFiles{
    GroupFiles{"memory.max", "memory.current", {"inactive_file ", "active_file "}},
    GroupFiles{"memory.high", "memory.current", {"inactive_file ", "active_file "}},
    GroupFiles{"memory.limit_in_bytes",
               "memory.usage_in_bytes",
               {"total_inactive_file ", "total_active_file "}}};

// The directories of this process's control groups, and of those above them, where systems mount
// them. Some may not be there: a container may see its own group as the topmost one.
std::vector<std::string> ControlGroups(const std::string& root) {
  std::vector<std::string> groups;
  std::ifstream input(root + "/proc/self/cgroup");
  // A line reads "NUMBER:CONTROLLERS:PATH"; in version 2 CONTROLLERS is empty.
  for (std::string line; std::getline(input, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find(",memory,") == std::string::npos) continue;
    const std::string top = is_version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string path = line.substr(second + 1);
    std::string group = path == "/" ? top : top + path;
    for (; group.size() > top.size(); group.resize(group.rfind('/'))) groups.push_back(group);
    groups.push_back(top);
  }
  return groups;
}

void AddControlGroups(const std::string& root, Rooms& rooms) {
  for (const std::string& group : ControlGroups(root)) {
    const auto read = [&](std::string_view name, const std::string& file) {
      return NumberBehind(name, fmt::format("{}{}/{}", root, group, file));
    };
    for (const GroupFiles& files : kGroupFiles) {
      const std::optional<uint64_t> limit = read("", files.limit);
      const std::optional<uint64_t> used = read("", files.used);
      if (!limit || !used) continue;
      uint64_t taken = *used;
      for (const std::string_view line : files.page_cache) {
        taken -= std::min(taken, read(line, "memory.stat").value_or(0));
      }
      rooms.Add(*limit - std::min(*limit, taken),
                "that are left of the " + HumanBytes(*limit) +
                    " which the control group of this process may have (" + group + "/" +
                    files.limit + ")",
                "give less, or raise that limit");
    }
  }
}

struct ProcessLimit {
  const char* name;     // in /proc/self/limits
  const char* ulimit;   // how a shell sets it
  const char* used;     // in /proc/self/status; empty: nothing counts against the limit
  uint64_t beside = 0;  // room that other uses need
};

Status CheckProcessLimit(const ProcessLimit& limit, uint64_t bytes, const std::string& root) {
  const std::optional<uint64_t> most = NumberBehind(limit.name, root + "/proc/self/limits");
  if (!most) return Ok();
  const uint64_t used = limit.used[0] == '\0'
                            ? 0
                            : NumberBehind(limit.used, root + "/proc/self/status").value_or(0)
                                  << 10;
  Rooms rooms;
  rooms.Add(*most - std::min(*most, used),
            "that are left of the " + HumanBytes(*most) + " which " + limit.ulimit +
                " lets this process have",
            "give less, or raise that limit (" + std::string(limit.ulimit) + " unlimited)");
  return rooms.Check(bytes, limit.beside);
}

Status CheckProcess(const MemoryWish& wish, const std::string& root) {
  BOOST_OUTCOME_TRYV(CheckProcessLimit(
      {"Max address space ", "ulimit -v", "VmSize:", kAddressesOfThreads + wish.bookkeeping},
      wish.is_mapped ? 0 : wish.bytes, root));
  if (wish.is_shared) {
    BOOST_OUTCOME_TRYV(CheckProcessLimit({"Max file size ", "ulimit -f", ""}, wish.bytes, root));
  }
  BOOST_OUTCOME_TRYV(CheckProcessLimit({"Max data size ", "ulimit -d", "VmData:", wish.bookkeeping},
                                       wish.is_shared ? 0 : wish.bytes, root));
  const std::optional<uint64_t> capabilities =
      NumberBehind("CapEff:", root + "/proc/self/status", true);
  const bool may_lock_all = (capabilities.value_or(0) >> kIpcLockBit & 1) != 0;
  if (!wish.is_locked || may_lock_all) return Ok();
  return CheckProcessLimit({"Max locked memory ", "ulimit -l", "VmLck:"}, wish.bytes, root);
}

}  // namespace

bool FitsHugePages(const MemoryWish& wish, const std::string& root) {
  const auto room = [&](uint64_t page_bytes) {
    const std::string folder =
        fmt::format("{}/sys/kernel/mm/hugepages/hugepages-{}kB/", root, page_bytes >> 10);
    const uint64_t free_pages = NumberBehind("", folder + "free_hugepages").value_or(0);
    const uint64_t reserved_pages = NumberBehind("", folder + "resv_hugepages").value_or(0);
    return (free_pages - std::min(free_pages, reserved_pages)) * page_bytes;
  };
  if (wish.may_be_giant &&
      wish.bytes / kGiantPageBytes * kGiantPageBytes <= room(kGiantPageBytes)) {
    return true;
  }
  return wish.may_be_huge && wish.bytes <= room(kHugePageBytes);
}

Status CheckRoom(const MemoryWish& wish, const std::string& root) {
  BOOST_OUTCOME_TRYV(CheckProcess(wish, root));
  Rooms rooms;
  AddMachine(root, rooms);
  AddControlGroups(root, rooms);
  if (FitsHugePages(wish, root)) return rooms.Check(0, wish.bookkeeping);
  return rooms.Check(wish.bytes,
                     wish.bytes / kBytesPerPageTableByte + kRestOfProcess + wish.bookkeeping);
}

Status CheckRoomLeft(const MemoryWish& wish, const std::string& root) {
  Rooms rooms;
  AddMachine(root, rooms);
  AddControlGroups(root, rooms);
  return rooms.Check(wish.bytes, wish.bookkeeping);
}

}  // namespace gossamer
