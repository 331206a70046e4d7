#include "memory/control_group.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace gossamer {
namespace {

// File names of one version of control groups.
struct FileNames {
  std::vector<const char*> limits;
  const char* used;
  std::vector<std::string_view> page_cache;  // lines of memory.stat
};

const FileNames& Version1() {
  static const FileNames names{{"memory.limit_in_bytes"},
                               "memory.usage_in_bytes",
                               {"total_inactive_file", "total_active_file"}};
  return names;
}

const FileNames& Version2() {
  static const FileNames names{
      {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};
  return names;
}

// Where a hierarchy with the memory controller is mounted, and which part of it is visible.
struct Mount {
  bool is_version_2 = false;
  std::string root;   // the part of the hierarchy that the mount shows
  std::string point;  // mount point
};

bool HasWord(std::string_view list, std::string_view word) {
  std::istringstream words{std::string(list)};
  for (std::string each; std::getline(words, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

// A line reads "ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE SUPEROPTIONS".
std::vector<Mount> ReadMounts(std::istream& mountinfo) {
  std::vector<Mount> mounts;
  for (std::string line; std::getline(mountinfo, line);) {
    std::istringstream words(line);
    std::string unused;
    Mount mount;
    words >> unused >> unused >> unused >> mount.root >> mount.point;
    for (std::string word; words >> word && word != "-";) continue;
    std::string type;
    std::string options;
    words >> type >> unused >> options;
    mount.is_version_2 = type == "cgroup2";
    if (mount.is_version_2 || (type == "cgroup" && HasWord(options, "memory"))) {
      mounts.push_back(mount);
    }
  }
  return mounts;
}

// The path of this process in the hierarchy of version 2, or in the version 1 hierarchy that has
// the memory controller. A line reads "NUMBER:CONTROLLERS:PATH"; in version 2 CONTROLLERS is empty.
std::optional<std::string> ReadPath(std::istream& cgroup, bool version_2) {
  for (std::string line; std::getline(cgroup, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version_2 ? controllers.empty() : HasWord(controllers, "memory")) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// `path` relative to the mount. A group outside the mounted part, such as that of a container seen
// from within, counts as the mount's own group.
std::string BelowMount(const std::string& path, const Mount& mount) {
  if (path.find("/..") != std::string::npos) return {};
  if (mount.root == "/") return path == "/" ? "" : path;
  if (path == mount.root || !path.starts_with(mount.root + "/")) return {};
  return path.substr(mount.root.size());
}

// Returns nullopt for "max" and for anything unreadable.
std::optional<uint64_t> ReadNumber(const std::string& file) {
  std::ifstream input(file);
  uint64_t number = 0;
  if (!(input >> number)) return std::nullopt;
  return number;
}

uint64_t PageCache(const std::string& stat_file, const FileNames& names) {
  std::ifstream stat(stat_file);
  uint64_t bytes = 0;
  uint64_t number = 0;
  for (std::string name; stat >> name >> number;) {
    for (const std::string_view wanted : names.page_cache) {
      if (name == wanted) bytes += number;
    }
  }
  return bytes;
}

void AddLimits(const std::string& root, const std::string& directory, const FileNames& names,
               std::vector<ControlGroupLimit>& limits) {
  for (const char* name : names.limits) {
    const std::string file = directory + "/" + name;
    const std::optional<uint64_t> limit = ReadNumber(root + file);
    const std::optional<uint64_t> used = ReadNumber(root + directory + "/" + names.used);
    if (!limit || !used) continue;
    const uint64_t cache = PageCache(root + directory + "/memory.stat", names);
    limits.push_back({file, *limit, *used - std::min(*used, cache)});
  }
}

}  // namespace

std::vector<ControlGroupLimit> ReadControlGroupLimits(const std::string& root) {
  std::vector<ControlGroupLimit> limits;
  std::ifstream mountinfo(root + "/proc/self/mountinfo");
  for (const Mount& mount : ReadMounts(mountinfo)) {
    std::ifstream cgroup(root + "/proc/self/cgroup");
    const std::optional<std::string> path = ReadPath(cgroup, mount.is_version_2);
    if (!path) continue;
    const FileNames& names = mount.is_version_2 ? Version2() : Version1();
    std::string below = BelowMount(*path, mount);
    while (true) {
      AddLimits(root, mount.point + below, names, limits);
      if (below.empty()) break;
      below.resize(below.rfind('/'));
    }
  }
  return limits;
}

}  // namespace gossamer
