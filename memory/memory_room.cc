#include "memory/memory_room.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/text/human.h"
#include "memory/available_memory.h"
#include "memory/control_group.h"

namespace gossamer {
namespace {

// Threads, the program with its libraries, client messages.
constexpr uint64_t kRestOfProcess = uint64_t{16} << 20;
// Thread stacks and heaps take address space without touching it.
constexpr uint64_t kAddressesOfThreads = uint64_t{64} << 20;
constexpr uint64_t kBytesPerPageTableByte = 512;
constexpr int kIpcLockBit = 14;  // CAP_IPC_LOCK: no limit on locked memory

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

MachineMemory ReadMachine(const std::string& root) {
  std::ifstream meminfo(root + "/proc/meminfo");
  return ReadMachineMemory(meminfo);
}

void AddMachine(const MachineMemory& machine, const MemoryWish& wish, Rooms& rooms) {
  if (machine.available == 0) return;
  const uint64_t room = machine.available - std::min(machine.available, wish.promised);
  std::string of_whom = "that this machine has available";
  if (wish.promised != 0) {
    of_whom += " beside " + HumanBytes(wish.promised) +
               " that other memory servers have promised and not touched yet";
  }
  rooms.Add(room, of_whom, "give less, or free some");
}

void AddControlGroups(const std::string& root, Rooms& rooms) {
  for (const ControlGroupLimit& limit : ReadControlGroupLimits(root)) {
    rooms.Add(limit.room(),
              "that are left of the " + HumanBytes(limit.bytes) +
                  " which the control group of this process may have (" + limit.file + ")",
              "give less, or raise that limit");
  }
}

void AddOvercommit(const MachineMemory& machine, const std::string& root, Rooms& rooms) {
  std::ifstream mode_file(root + "/proc/sys/vm/overcommit_memory");
  int mode = 0;
  if (!(mode_file >> mode) || mode != 2 || machine.commit_limit == 0) return;
  rooms.Add(machine.commit_limit - std::min(machine.commit_limit, machine.committed),
            "that are left of the " + HumanBytes(machine.commit_limit) +
                " which this machine promises to processes (vm.overcommit_memory=2)",
            "give less, or raise vm.overcommit_ratio or vm.overcommit_kbytes");
}

// The soft limit that a line "NAME  SOFT  HARD  UNIT" of /proc/self/limits states.
std::optional<uint64_t> ReadProcessLimit(const std::string& root, const std::string& name) {
  std::ifstream limits(root + "/proc/self/limits");
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(name + " ")) continue;
    std::istringstream numbers(line.substr(name.size()));
    uint64_t soft = 0;
    if (numbers >> soft) return soft;
  }
  return std::nullopt;
}

// The value after "NAME:" in /proc/self/status.
std::string ReadProcessStatus(const std::string& root, const std::string& name) {
  std::ifstream status(root + "/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return line.substr(name.size() + 1);
  }
  return {};
}

uint64_t StatusBytes(const std::string& root, const std::string& name) {
  std::istringstream text(ReadProcessStatus(root, name));
  uint64_t kilobytes = 0;
  text >> kilobytes;
  return kilobytes << 10;
}

bool MayLockWithoutLimit(const std::string& root) {
  std::istringstream text(ReadProcessStatus(root, "CapEff"));
  uint64_t capabilities = 0;
  text >> std::hex >> capabilities;
  return (capabilities >> kIpcLockBit & 1) != 0;
}

struct ProcessLimit {
  const char* name;     // in /proc/self/limits
  const char* ulimit;   // how a shell sets it
  const char* used;     // in /proc/self/status; empty: nothing counts against the limit
  uint64_t beside = 0;  // room that other uses need
};

Status CheckProcessLimit(const ProcessLimit& limit, uint64_t bytes, const std::string& root) {
  const std::optional<uint64_t> most = ReadProcessLimit(root, limit.name);
  if (!most) return Ok();
  const uint64_t used = limit.used[0] == '\0' ? 0 : StatusBytes(root, limit.used);
  Rooms rooms;
  rooms.Add(*most - std::min(*most, used),
            "that are left of the " + HumanBytes(*most) + " which " + limit.ulimit +
                " lets this process have",
            "give less, or raise that limit (" + std::string(limit.ulimit) + " unlimited)");
  return rooms.Check(bytes, limit.beside);
}

Status CheckProcess(const MemoryWish& wish, const std::string& root) {
  BOOST_OUTCOME_TRYV(CheckProcessLimit(
      {"Max address space", "ulimit -v", "VmSize", kAddressesOfThreads + wish.bookkeeping},
      wish.bytes, root));
  if (wish.is_shared) {
    BOOST_OUTCOME_TRYV(CheckProcessLimit({"Max file size", "ulimit -f", ""}, wish.bytes, root));
  }
  BOOST_OUTCOME_TRYV(CheckProcessLimit({"Max data size", "ulimit -d", "VmData", wish.bookkeeping},
                                       wish.is_shared ? 0 : wish.bytes, root));
  if (!wish.is_locked || MayLockWithoutLimit(root)) return Ok();
  return CheckProcessLimit({"Max locked memory", "ulimit -l", "VmLck"}, wish.bytes, root);
}

bool ComesFromHugePages(const MachineMemory& machine, const MemoryWish& wish) {
  return wish.may_be_huge && wish.bytes <= machine.huge_pages;
}

}  // namespace

bool FitsHugePages(const MemoryWish& wish, const std::string& root) {
  return ComesFromHugePages(ReadMachine(root), wish);
}

Status CheckRoom(const MemoryWish& wish, const std::string& root) {
  BOOST_OUTCOME_TRYV(CheckProcess(wish, root));
  const MachineMemory machine = ReadMachine(root);
  Rooms rooms;
  AddMachine(machine, wish, rooms);
  AddControlGroups(root, rooms);
  AddOvercommit(machine, root, rooms);
  if (ComesFromHugePages(machine, wish)) return rooms.Check(0, wish.bookkeeping);
  return rooms.Check(wish.bytes,
                     wish.bytes / kBytesPerPageTableByte + kRestOfProcess + wish.bookkeeping);
}

Status CheckRoomLeft(const MemoryWish& wish, const std::string& root) {
  const MachineMemory machine = ReadMachine(root);
  Rooms rooms;
  AddMachine(machine, wish, rooms);
  AddControlGroups(root, rooms);
  // Private memory was promised in full when it was mapped.
  if (wish.is_shared) AddOvercommit(machine, root, rooms);
  return rooms.Check(wish.bytes, wish.bookkeeping);
}

}  // namespace gossamer
