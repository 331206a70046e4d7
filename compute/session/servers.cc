#include "compute/session/servers.h"

#include <fmt/core.h>

#include "common/fabric/compute_port.h"

namespace gossamer {
namespace {

constexpr std::string_view kOthersAreServed =
    "; what other servers hold is served: `gossamer dump --salvage` writes what is left";

}  // namespace

Error CannotBeReached(ServerId server, std::string_view address, std::string_view why) {
  const bool has_root = server == ServerId{0};
  const bool is_another = why.find(kStartedAnew) != std::string_view::npos;
  std::string text = fmt::format("memory server {} at {}", ToInteger(server), address);
  if (is_another) {
    text += has_root ? ": " + std::string(kStartedAnew)
                     : " has been started anew, and what it held is gone" +
                           std::string(kOthersAreServed);
    return MakeError(Code::kNodeUnreachable, std::move(text));
  }
  text += " cannot be reached (" + std::string(why) + ")";
  text += has_root ? "; operations go on once it answers. It holds the root, without which nothing "
                     "of the store is found: if it is gone for good, load the data into a new store"
                   : "; what other servers hold is served, and the rest once it answers. If it is "
                     "gone for good, `gossamer dump --salvage` writes what is left";
  return MakeError(Code::kNodeUnreachable, std::move(text));
}

Error CorruptNode(RemotePtr pointer, std::string_view what) {
  return MakeError(Code::kCorruption, fmt::format("{}: server {} offset {} generation {}", what,
                                                  ToInteger(pointer.server()), pointer.offset(),
                                                  pointer.generation()));
}

Error HasLeft(ServerId server) {
  return MakeError(
      Code::kNodeUnreachable,
      fmt::format("memory server {} has left the store, and what it held is gone{}, and "
                  "`gossamer repair` makes the ranges of lost keys empty",
                  ToInteger(server), kOthersAreServed));
}

}  // namespace gossamer
