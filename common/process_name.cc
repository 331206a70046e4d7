#include "common/process_name.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "common/process.h"

namespace gossamer {

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
  std::string host(process.host, bytes);
  std::ranges::replace_if(host, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return fmt::format("process {} on host {}", process.process_id, host);
}

}  // namespace gossamer
