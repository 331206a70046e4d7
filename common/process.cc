#include "common/process.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <ranges>
#include <vector>

#include "common/unique_fd.h"

namespace gossamer {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string BootId() {
  std::string digits;
  for (const char c : ReadFile("/proc/sys/kernel/random/boot_id")) {
    if (c != '-' && c != '\n' && digits.size() < 16) digits += c;
  }
  return digits;
}

std::string PidNamespace() {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? std::to_string(info.st_ino) : std::string();
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(text, separator)) {
    parts.emplace_back(part.begin(), part.end());
  }
  return parts;
}

// The clock tick at which `pid` started; empty if there is no such process. `with_dead`: also of
// one whose first thread has ended.
std::string StartTick(std::string_view pid, bool with_dead = false) {
  const std::string line = ReadFile("/proc/" + std::string(pid) + "/stat");
  const size_t name_end = line.rfind(") ");  // The name may contain anything.
  if (name_end == std::string::npos) return {};
  const auto fields = Split(std::string_view(line).substr(name_end + 2), ' ');
  constexpr size_t kState = 0;
  constexpr size_t kStart = 19;
  if (fields.size() <= kStart) return {};
  if (!with_dead && (fields[kState] == "Z" || fields[kState] == "X")) return {};
  return std::string(fields[kStart]);
}

std::string WithoutUnprintable(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

std::string OwnProcessIdentity() { return ProcessIdentity(getpid()); }

std::string ProcessIdentity(pid_t process) {
  const std::string boot = BootId();
  const std::string pid_namespace = PidNamespace();
  const std::string pid = std::to_string(process);
  const std::string start = StartTick(pid);
  if (boot.empty() || pid_namespace.empty() || start.empty()) return "-";
  return boot + "/" + pid_namespace + "/" + pid + "/" + start;
}

ProcessState LookUpProcess(std::string_view identity) {
  const auto fields = Split(identity, '/');
  const std::string boot = BootId();
  // Without a start, a process that is gone would pass for one that runs: it has none, either.
  if (fields.size() != 4 || fields[3].empty() || boot.empty()) return ProcessState::kUnknown;
  if (fields[0] != boot) return ProcessState::kOtherBoot;
  if (fields[1] != PidNamespace()) return ProcessState::kUnknown;
  uint32_t pid = 0;
  const auto [end, error] = std::from_chars(fields[2].begin(), fields[2].end(), pid);
  if (error != std::errc() || end != fields[2].end()) return ProcessState::kUnknown;
  return StartTick(fields[2]) == fields[3] ? ProcessState::kRunning : ProcessState::kGone;
}

bool AwaitEnd(std::string_view identity, std::chrono::milliseconds patience) {
  const auto fields = Split(identity, '/');
  if (fields.size() != 4 || fields[0] != BootId() || fields[1] != PidNamespace()) return true;
  pid_t pid = 0;
  std::from_chars(fields[2].begin(), fields[2].end(), pid);
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process || StartTick(fields[2], /*with_dead=*/true) != fields[3]) return true;
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(patience.count())) != 0;
}

std::string ProcessIdOf(std::string_view identity) {
  const auto fields = Split(identity, '/');
  return fields.size() == 4 && !fields[2].empty() ? std::string(fields[2]) : "?";
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return WithoutUnprintable(name);
}

control::ProcessName OwnProcessName() {
  control::ProcessName name;
  name.process_id = static_cast<uint32_t>(getpid());
  const std::string host = HostName();
  const size_t bytes = std::min(host.size(), control::ProcessName::kMaxHostBytes);
  std::copy_n(host.begin(), bytes, name.host);
  name.host_bytes = static_cast<uint8_t>(bytes);
  return name;
}

std::string Describe(const control::ProcessName& process) {
  if (process.process_id == 0) return "a process that did not say its name";
  const size_t bytes = std::min<size_t>(process.host_bytes, control::ProcessName::kMaxHostBytes);
  return fmt::format("process {} on host {}", process.process_id,
                     WithoutUnprintable({process.host, bytes}));
}

}  // namespace gossamer
