#include "compute/gateway/option_checks.h"

#include <sched.h>

#include <set>
#include <string>
#include <string_view>

#include "common/text/human.h"
#include "compute/gateway/connection/listener.h"

namespace gossamer::gateway {
namespace {

constexpr uint32_t kMostThreads = 256;
// Room for a login with the longest name and password, and for a short value.
constexpr uint64_t kLeastQueryBytes = 1024;
// A quarter of the memory for clients is for the one request that grows while memory is short, and
// for its copy as it grows.
constexpr uint64_t kQueriesInMemory = 8;

Error Wrong(std::string_view flag, const std::string& sentence) {
  return MakeError(Code::kInvalidArgument, std::string(flag) + ": " + sentence);
}

// How many processors this process may use; 0: unknown.
size_t CountProcessors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  return static_cast<size_t>(CPU_COUNT(&allowed));
}

Status CheckAddress(std::string_view flag, const std::string& where, bool has_users) {
  const Status listenable = CheckListenable(where);
  if (!listenable) return Wrong(flag, listenable.error().message);
  if (has_users || IsLocal(where)) return Ok();
  return Wrong(flag, where +
                         " may be reached from other machines: set a password (--requirepass_file "
                         "or --users_file), or give an address of the loopback interface");
}

}  // namespace

Status CheckAddresses(const GatewayOptions& options) {
  std::set<std::string> seen;
  const auto check = [&](std::string_view flag, const std::string& where) -> Status {
    BOOST_OUTCOME_TRYV(CheckAddress(flag, where, !options.users.empty()));
    // Each port 0 is another free one.
    if (seen.insert(where).second || where.ends_with(":0")) return Ok();
    return Wrong(flag, where + " is given twice");
  };
  for (const std::string& where : options.listen) {
    BOOST_OUTCOME_TRYV(check("--redis", where));
  }
  for (const std::string& where : options.listen_tls) {
    if (IsPath(where)) return Wrong("--tls", "a path is served without TLS: give it to --redis");
    BOOST_OUTCOME_TRYV(check("--tls", where));
  }
  return Ok();
}

Status CheckNumbers(const GatewayOptions& options) {
  if (options.threads == 0 || options.threads > kMostThreads) {
    return Wrong("--threads", "give 1 to " + std::to_string(kMostThreads));
  }
  const size_t processors = CountProcessors();
  if (options.pin && processors != 0 && options.threads > processors) {
    return Wrong("--pin", "this process may use " + std::to_string(processors) +
                              " processors: give no more --threads, or leave it out");
  }
  if (options.max_clients == 0) return Wrong("--max_clients", "give 1 or more");
  if (options.max_query_bytes < kLeastQueryBytes) {
    return Wrong("--max_query_bytes", "give " + ExactBytes(kLeastQueryBytes) + " or more");
  }
  if (options.client_memory_bytes / kQueriesInMemory < options.max_query_bytes) {
    return Wrong("--client_memory", "give " +
                                        ExactBytes(kQueriesInMemory * options.max_query_bytes) +
                                        " or more: eight times --max_query_bytes");
  }
  if (options.slow_log.slower_than_us < -1) {
    return Wrong("--slowlog_slower_than_us", "give microseconds, or -1: then SLOWLOG has nothing");
  }
  return Ok();
}

}  // namespace gossamer::gateway
