#include "compute/gateway/gateway.h"

#include <glog/logging.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/admin/listen_address.h"
#include "common/admin/process_metrics.h"
#include "common/numa.h"
#include "common/start_thread.h"
#include "common/text/human.h"

namespace gossamer::gateway {
namespace {

constexpr uint32_t kMostThreads = 256;
// Room for a login with the longest name and password, and for a short value.
constexpr uint64_t kLeastQueryBytes = 1024;
// A quarter of the memory for clients is for the one request that grows while memory is short, and
// for its copy as it grows.
constexpr uint64_t kQueriesInMemory = 8;

// Descriptors beside those of clients: so many are wanted, as they cost nothing where the hard
// limit allows them.
constexpr rlim_t kWanted = 1024;
// And so many are kept free of clients where it does not.
constexpr rlim_t kKept = 32;
static_assert(kKept < kWanted);

// Where a gateway is to listen.
struct Place {
  const std::string& where;
  bool is_tls;
  std::string_view flag() const { return is_tls ? "--tls" : "--redis"; }
};

std::vector<Place> PlacesOf(const GatewayOptions& options) {
  std::vector<Place> places;
  for (const std::string& where : options.listen) places.push_back({where, false});
  for (const std::string& where : options.listen_tls) places.push_back({where, true});
  return places;
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  return names;
}

// What this process may use; nullopt: unknown.
std::optional<cpu_set_t> AllowedProcessors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  return allowed;
}

// The thread then runs on one processor: number `number` of the processors that this process may
// use, those of NUMA node `node` first. A failure changes nothing.
void PinThisThread(size_t number, int node) {
  const std::optional<cpu_set_t> allowed = AllowedProcessors();
  if (!allowed) return;
  const std::vector<int> processors = ProcessorsFrom(node, *allowed);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(processors[number % processors.size()]), &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

// The NUMA node of the RDMA device by which the store is reached, or kUnknownNode.
int NumaNodeOf(const DeviceStat& device) {
  for (const auto& [name, value] : device.facts) {
    if (name == "numa_node" && value != "none") return std::stoi(value);
  }
  return kUnknownNode;
}

// Of open files of this process (`ulimit -n`).
rlimit FileLimits() {
  rlimit limits{};
  getrlimit(RLIMIT_NOFILE, &limits);
  return limits;
}

// Raises the soft limit to what so many clients need beside all else, up to the hard limit. Never
// lowers it.
void RaiseDescriptorLimit(uint64_t clients) {
  rlimit limits = FileLimits();
  const rlim_t wanted = std::min<rlim_t>(clients + kWanted, limits.rlim_max);
  if (wanted <= limits.rlim_cur) return;
  limits.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limits);
}

Error Wrong(std::string_view flag, const std::string& sentence) {
  return MakeError(Code::kInvalidArgument, std::string(flag) + ": " + sentence);
}

Status CheckPlace(const Place& place, bool has_users) {
  const std::string& where = place.where;
  if (place.is_tls && IsPath(where)) {
    return Wrong("--tls", "a path is served without TLS: give it to --redis");
  }
  const Result<bool> is_local = IsLocal(where);
  if (!is_local) return Wrong(place.flag(), is_local.error().message);
  if (has_users || is_local.value()) return Ok();
  return Wrong(place.flag(),
               where +
                   " may be reached from other machines: set a password (--requirepass_file "
                   "or --users_file), or give an address of the loopback interface");
}

}  // namespace

Status CheckAddresses(const GatewayOptions& options) {
  std::set<std::string> seen;
  for (const Place& place : PlacesOf(options)) {
    BOOST_OUTCOME_TRYV(CheckPlace(place, !options.users.empty()));
    // Each port 0 is another free one.
    if (seen.insert(place.where).second || place.where.ends_with(":0")) continue;
    return Wrong(place.flag(), place.where + " is given twice");
  }
  return Ok();
}

Status CheckNumbers(const GatewayOptions& options) {
  if (options.threads == 0 || options.threads > kMostThreads) {
    return Wrong("--threads", "give 1 to " + std::to_string(kMostThreads));
  }
  const std::optional<cpu_set_t> allowed = AllowedProcessors();
  const size_t processors = allowed ? static_cast<size_t>(CPU_COUNT(&*allowed)) : 0;
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

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      metrics_(std::make_shared<WorkerMetrics>(CommandNames())),
      shared_(options_) {}

Result<std::unique_ptr<Gateway>> Gateway::Start(GatewayOptions options, Store& store) {
  BOOST_OUTCOME_TRYV(CheckAddresses(options));
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(options)));
  BOOST_OUTCOME_TRYV(gateway->Open(store));
  return gateway;
}

Status Gateway::Open(Store& store) {
  RaiseDescriptorLimit(options_.max_clients);
  listeners_.resize(options_.threads);
  for (const Place& place : PlacesOf(options_)) {
    BOOST_OUTCOME_TRYV(OpenListener(place.where, place.is_tls));
  }
  for (size_t number = 0; number < options_.threads; ++number) {
    workers_.push_back(
        std::make_unique<Worker>(number, shared_, store, std::move(listeners_[number]), *metrics_));
    BOOST_OUTCOME_TRYV(workers_.back()->Open());
  }
  BOOST_OUTCOME_TRYV(FitMaxClients());
  const int node = NumaNodeOf(store.Device());
  for (size_t number = 0; number < options_.threads; ++number) {
    BOOST_OUTCOME_TRY(thread, StartThread("serve clients", [this, number, node] {
                        if (options_.pin) PinThisThread(number, node);
                        workers_[number]->Run();
                      }));
    threads_.push_back(std::move(thread));
  }
  return Ok();
}

Status Gateway::CheckPorts(const GatewayOptions& options) {
  for (const Place& place : PlacesOf(options)) {
    BOOST_OUTCOME_TRYV(CheckFree(place.where, place.flag()));
  }
  return Ok();
}

Gateway::~Gateway() {
  for (const auto& worker : workers_) worker->Stop();
  for (std::thread& thread : threads_) thread.join();
  for (const std::string& path : paths_) unlink(path.c_str());
}

Status Gateway::Use(Store& store) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t number = 0; number < workers_.size(); ++number) {
    BOOST_OUTCOME_TRY(session, store.NewSession());
    sessions.push_back(std::move(session));
  }
  std::vector<std::future<void>> are_used;
  for (size_t number = 0; number < workers_.size(); ++number) {
    are_used.push_back(workers_[number]->Use(store, std::move(sessions[number])));
  }
  for (const std::future<void>& is_used : are_used) is_used.wait();
  return Ok();
}

Status Gateway::OpenListener(const std::string& where, bool is_tls) {
  const std::string_view flag = Place{where, is_tls}.flag();
  const bool is_path = IsPath(where);
  std::string address = where;
  // With SO_REUSEPORT the kernel lets a second process of this user listen there, too.
  if (!is_path && options_.threads > 1 && ParseListenAddress(where).value().port != 0) {
    BOOST_OUTCOME_TRYV(CheckFree(where, flag));
  }
  for (std::vector<Listener>& own : listeners_) {
    if (is_path && &own != &listeners_.front()) {
      own.push_back(listeners_.front().back());  // all workers share it
      continue;
    }
    BOOST_OUTCOME_TRY(
        socket, Listen(address, options_.threads > 1 && !is_path, flag, options_.socket_mode));
    address = AddressOf(address, socket);  // the same port for the others
    own.push_back({std::make_shared<UniqueFd>(std::move(socket)), is_tls});
  }
  if (is_path) paths_.push_back(where.substr(kUnix.size()));
  std::string& addresses = is_tls ? tls_addresses_ : addresses_;
  if (!is_path && shared_.identity.port == 0) {
    shared_.identity.port = ParseListenAddress(address).value().port;
  }
  addresses += (addresses.empty() ? "" : ",") + address;
  return Ok();
}

Status Gateway::FitMaxClients() {
  // Within the soft limit, beside what is open now and what may still be opened: connections to
  // memory servers that join, those of the admin endpoint, and one that is only told that there are
  // too many.
  const uint64_t most = FileLimits().rlim_cur;
  const uint64_t room = most - std::min(OpenDescriptors() + kKept, most);
  const std::string limit = "`ulimit -n` is " + std::to_string(most);
  if (room == 0) {
    return MakeError(Code::kUnsupported, limit + ", which leaves none for clients: raise it");
  }
  if (room >= options_.max_clients) return Ok();
  LOG(WARNING) << "--max_clients is " << room << " in place of " << options_.max_clients
               << ", because " << limit << ": raise its hard limit";
  options_.max_clients = static_cast<uint32_t>(room);
  return Ok();
}

}  // namespace gossamer::gateway
