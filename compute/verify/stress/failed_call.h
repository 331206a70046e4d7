// Failed calls of clients: logged where they happened, judged by the parent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/status.h"

namespace gossamer::stress {

enum class Call : uint8_t { kOpen, kNewSession, kStat, kGet, kScan, kWrite };

std::string_view CallName(Call call);

// A log record: 512 bytes, the same in every process of a run.
struct FailedCall {
  static constexpr size_t kMostText = 484;

  int64_t start = 0;  // in nanoseconds of the clock that all processes of the machine share
  int64_t end = 0;
  uint32_t client = 0;
  Code code = Code::kNotFound;
  Call call = Call::kGet;
  uint16_t text_bytes = 0;
  char text[kMostText] = {};

  std::string_view message() const { return {text, text_bytes}; }
  // The memory server that the message names.
  std::optional<uint32_t> server() const;
};
static_assert(sizeof(FailedCall) == 512 && std::is_trivially_copyable_v<FailedCall>);

FailedCall MakeFailedCall(Call call, uint32_t client, int64_t start, int64_t end,
                          const Error& error);
// "scan of client 3, 12.1 ms: NodeUnreachable: ..."
std::string ToString(const FailedCall& failed);

// The log of one client.
// Thread-safety: all methods.
class FailureLog {
 public:
  static Result<FailureLog> Open(const std::string& path);
  FailureLog(FailureLog&& other) noexcept;
  FailureLog& operator=(FailureLog&&) = delete;
  ~FailureLog();

  // The record survives even if the process is killed at once.
  Status Append(const FailedCall& failed);

 private:
  explicit FailureLog(int file) : file_(file) {}

  int file_;
};

// Adds the records of the log, if it exists.
Status ReadFailures(const std::string& path, std::vector<FailedCall>& failures);

}  // namespace gossamer::stress
