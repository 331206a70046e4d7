#include "compute/verify/stress/failed_call.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/text/human.h"

namespace gossamer::stress {

std::string_view CallName(Call call) {
  switch (call) {
    case Call::kOpen: return "open";
    case Call::kNewSession: return "new session";
    case Call::kStat: return "stat";
    case Call::kGet: return "get";
    case Call::kScan: return "scan";
    case Call::kWrite: return "write";
  }
  return "call";
}

std::optional<uint32_t> FailedCall::server() const {
  constexpr std::string_view kName = "memory server ";
  const std::string_view all = message();
  for (size_t at = all.find(kName); at != std::string_view::npos; at = all.find(kName, at + 1)) {
    const char* digits = all.data() + at + kName.size();
    uint32_t server = 0;
    if (std::from_chars(digits, all.data() + all.size(), server).ec == std::errc()) return server;
  }
  return std::nullopt;
}

FailedCall MakeFailedCall(Call call, uint32_t client, int64_t start, int64_t end,
                          const Error& error) {
  FailedCall failed;
  failed.start = start;
  failed.end = end;
  failed.client = client;
  failed.code = error.code;
  failed.call = call;
  failed.text_bytes = static_cast<uint16_t>(std::min(error.message.size(), FailedCall::kMostText));
  std::memcpy(failed.text, error.message.data(), failed.text_bytes);
  return failed;
}

std::string ToString(const FailedCall& failed) {
  return fmt::format("{} of client {}, after {}: {}: {}", CallName(failed.call), failed.client,
                     HumanDuration(static_cast<double>(failed.end - failed.start) * 1e-9),
                     CodeName(failed.code), failed.message());
}

Result<FailureLog> FailureLog::Open(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return MakeError(Code::kInvalidArgument, "cannot write " + path);
  return FailureLog(file);
}

FailureLog::FailureLog(FailureLog&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FailureLog::~FailureLog() {
  if (file_ >= 0) close(file_);
}

// One write(2) to a file opened for appending: records stay whole, in any order of threads.
Status FailureLog::Append(const FailedCall& failed) {
  if (write(file_, &failed, sizeof failed) == sizeof failed) return Ok();
  return MakeError(Code::kNoResources, "no room for the log of errors");
}

Status ReadFailures(const std::string& path, std::vector<FailedCall>& failures) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Ok();
  FailedCall failed;
  while (file.read(reinterpret_cast<char*>(&failed), sizeof failed)) failures.push_back(failed);
  if (file.gcount() == 0) return Ok();
  return MakeError(Code::kCorruption, path + " ends within an error");
}

}  // namespace gossamer::stress
