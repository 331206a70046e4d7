// Status codes, errors and results: how every fallible function of Gossamer reports.
//
// `Result<T>` holds a T or an `Error`. Codes are sorted by what the caller can do about them, not
// by origin; the message carries the numbers. No exceptions cross the data path. An error is logged
// once, where its cause is known. An `Error` without a message allocates nothing, so that NotFound
// costs a get no more than a hit does.
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/terminate.hpp>
#include <boost/outcome/try.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gossamer {

enum class Code : uint8_t {
  kNotFound,         // The key (or the named thing) does not exist.
  kAlreadyExists,    // Insert of an existing key.
  kInvalidArgument,  // The caller's mistake; nothing was done.
  kExhausted,  // No memory left on any memory server; nothing was done. Add memory, or delete.
  kContended,  // A lock stayed taken for longer than the bound; nothing was done. Try again.
  kNodeUnreachable,  // A memory server (or the bootstrap) cannot be reached. Nothing was written.
  kFenced,           // This compute server lost its lease. Nothing was written. Try again.
  kCorruption,       // Remote bytes fail their checks for good. The message has the pointer.
  kMaybeApplied,     // A write whose acknowledgement was lost: read to find out.
  kUnsupported,      // This machine or build cannot do it; the message says what is missing.
  kNoResources,  // A machine lacks memory of its own, descriptors or queue pairs; nothing was done.
};
// Codes are below this.
inline constexpr size_t kCodes = static_cast<size_t>(Code::kNoResources) + 1;

constexpr std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kNotFound: return "NotFound";
    case Code::kAlreadyExists: return "AlreadyExists";
    case Code::kInvalidArgument: return "InvalidArgument";
    case Code::kExhausted: return "Exhausted";
    case Code::kContended: return "Contended";
    case Code::kNodeUnreachable: return "NodeUnreachable";
    case Code::kFenced: return "Fenced";
    case Code::kCorruption: return "Corruption";
    case Code::kMaybeApplied: return "MaybeApplied";
    case Code::kUnsupported: return "Unsupported";
    case Code::kNoResources: return "NoResources";
  }
  return "Unknown";
}

struct [[nodiscard]] Error {
  Code code;
  std::string message;

  // "Exhausted: 2 servers, 0 of 64 chunks free"; only the code name if there is no message.
  std::string ToString() const {
    std::string text(CodeName(code));
    if (!message.empty()) {
      text += ": ";
      text += message;
    }
    return text;
  }
};

namespace outcome = boost::outcome_v2;

// Taking the value of a failed result (or the error of a successful one) ends the program.
template <typename T>
using Result = outcome::basic_result<T, Error, outcome::policy::terminate>;
using Status = Result<void>;

inline outcome::success_type<void> Ok() { return outcome::success(); }

inline Error MakeError(Code code, std::string message = {}) { return {code, std::move(message)}; }

}  // namespace gossamer
