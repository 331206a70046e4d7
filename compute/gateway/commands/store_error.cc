#include "compute/gateway/commands/store_error.h"

#include <string_view>

namespace gossamer::gateway {
namespace {

std::string_view CodeWord(Code code) {
  switch (code) {
    case Code::kExhausted: return "OOM";
    case Code::kContended:
    case Code::kFenced: return "TRYAGAIN";
    case Code::kNodeUnreachable: return "UNREACHABLE";
    case Code::kCorruption: return "CORRUPT";
    case Code::kMaybeApplied: return "MAYBEAPPLIED";
    default: return "ERR";
  }
}

}  // namespace

std::string ErrorLine(const Error& error) {
  std::string line(CodeWord(error.code));
  line += ' ';
  line += error.message.empty() ? std::string(CodeName(error.code)) : error.message;
  return line;
}

}  // namespace gossamer::gateway
