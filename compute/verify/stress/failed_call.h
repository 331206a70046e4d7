// Calls of clients that ended with an error: logged where they happened, judged by the parent.
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

// As it stands in the log: 512 bytes, the same in each process of a run.
struct FailedCall {
  static constexpr size_t kMostText = 484;

  int64_t start = 0;  // of the clock that all processes of a machine share, in nanoseconds
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

// The log of one client. Thread-safety: all of it.
class FailureLog {
 public:
  static Result<FailureLog> Open(const std::string& path);
  FailureLog(FailureLog&& other) noexcept;
  FailureLog& operator=(FailureLog&&) = delete;
  ~FailureLog();

  // Stays even if the process is killed at once.
  Status Append(const FailedCall& failed);

 private:
  explicit FailureLog(int file) : file_(file) {}

  int file_;
};

// Adds what the log holds. Nothing if there is none.
Status ReadFailures(const std::string& path, std::vector<FailedCall>& failures);

}  // namespace gossamer::stress
