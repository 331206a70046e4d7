// gossamer-compute: a compute server as a program, for clients of the Redis protocol.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <malloc.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/admin/host_names.h"
#include "common/admin/program_admin.h"
#include "common/bootstrap/bootstrap.h"
#include "common/process.h"
#include "common/program/fabric_flags.h"
#include "common/program/flags_main.h"
#include "common/program/open_patiently.h"
#include "common/program/ready.h"
#include "common/program/stop.h"
#include "common/random_id.h"
#include "common/text/size_text.h"
#include "common/text/text_file.h"
#include "common/unique_fd.h"
#include "compute/gateway/auto_sweeper.h"
#include "compute/gateway/connection/listener.h"
#include "compute/gateway/eviction/evicting_store.h"
#include "compute/gateway/gateway.h"
#include "compute/gateway/large_sweeper.h"
#include "compute/gateway/peers/peer_links.h"
#include "compute/metrics/store_watch.h"
#include "gossamer/store.h"

DEFINE_string(
    bootstrap, "",
    "where servers and clients find each other: memcached://HOST:PORT, or dir:PATH on one "
    "machine (default: a directory of this user)");
DEFINE_string(store, "default", "name of the store");
DEFINE_uint32(reconnect_ms, 10000,
              "how long operations wait for a memory server that is to come back with its memory "
              "(gossamer-memory --region), before they end as NodeUnreachable");
DEFINE_string(cache_bytes, "256MiB", "bound of the cache of internal nodes");
DEFINE_uint32(threads, 1, "worker threads, each with clients of its own");
DEFINE_bool(pin, false,
            "each worker thread on a processor of its own, those of the NIC's NUMA node first");
DEFINE_string(redis, "127.0.0.1:7400",
              "where Redis clients connect: ADDRESS:PORT or unix:PATH, several with commas between "
              "them; port 0: a free one, named in the line that says ready");
DEFINE_string(redis_socket_mode, "",
              "who may connect to unix:PATH of --redis, as chmod takes it, such as 0770 for the "
              "group of this user (default: as the umask has it, usually this user alone)");
DEFINE_string(
    requirepass_file, "",
    "file whose first line is the password of the user `default`; without passwords, only "
    "addresses of the loopback interface and paths are served");
DEFINE_string(
    requirepass, "",
    "password of the user `default`; other users of this machine see it in the list of processes: "
    "--requirepass_file is better");
DEFINE_string(users_file, "",
              "file with a user of clients in each line: NAME PASSWORD, or NAME sha256:HEX");
DEFINE_string(tls, "",
              "where Redis clients connect by TLS: ADDRESS:PORT, several with commas between them, "
              "beside --redis, or alone with --redis= (default: nowhere)");
DEFINE_string(tls_cert_file, "",
              "the certificate of --tls in PEM form, then those of its authorities");
DEFINE_string(
    tls_key_file, "",
    "the private key of the certificate, in PEM form; on SIGHUP these files are read again");
DEFINE_string(
    tls_ca_file, "",
    "authorities in PEM form: clients of --tls must show a certificate that one of them has "
    "signed (default: clients need no certificate)");
DEFINE_uint32(max_clients, 10'000, "connections at a time; further ones are refused");
DEFINE_string(max_query_bytes, "64MiB", "longest request, with those behind it that have arrived");
DEFINE_string(client_memory, "512MiB",
              "bound of what is held for clients together: requests that are not finished or not "
              "answered, and answers that are made or not taken; at least 8 times "
              "--max_query_bytes. Clients that hold some of it and do not go on are disconnected "
              "when it is short");
DEFINE_int32(slowlog_slower_than_us, 10'000,
             "SLOWLOG has requests that took so many microseconds; -1: none");
DEFINE_uint32(slowlog_entries, 128, "entries that SLOWLOG keeps");
DEFINE_string(
    peer, "",
    "ADDRESS:PORT or unix:PATH of --redis at which the other compute servers of the store "
    "reach this one, to bring messages of channels; none: they do not, and this one "
    "brings them none (default: the first of --redis)");
DEFINE_string(
    admin, "",
    "ADDRESS:PORT to serve metrics, health, state and a live page on by HTTP; port 0: a free one "
    "(default: none)");
DEFINE_bool(admin_for_other_machines, false,
            "let --admin be an address that other machines reach, though there is no password: "
            "whoever reaches it sees figures, and keys that are used much");
DEFINE_string(admin_hosts, "",
              "names of hosts, with commas between them, under which --admin is asked, such as by "
              "Prometheus; addresses, localhost and the name of this machine need none");
DEFINE_uint32(
    sweep_after_s, 60,
    "give back the memory of compute servers that ended without doing so, after about so many "
    "seconds, by reading the whole tree; of several compute servers one does it; 0: never");
DEFINE_string(
    evict, "none",
    "what becomes of keys when the store's memory is full: none: they stay, and writes are "
    "refused; ttl: of those that expire, the soonest go; lru: those go that are used "
    "least and longest ago");
DEFINE_string(max_memory, "0",
              "with --evict: memory of the whole store beyond which keys go; give all compute "
              "servers of a store the same (default: that of its memory servers, less a tenth)");
DEFINE_uint32(wait, 0, "seconds to wait for the store to be there");
DEFINE_int32(ready_fd, -1, "write READY to this file descriptor once clients can connect");

namespace gossamer::gateway {
namespace {

constexpr ProgramInfo kProgram{
    "gossamer-compute",
    "Usage: gossamer-compute [--redis=ADDRESS:PORT] [flags]\n"
    "\n"
    "Serves a Gossamer store to clients of the Redis protocol until SIGTERM or SIGINT. Prints a\n"
    "line once clients can connect, and over verbs another one about the device.\n",
    __FILE__};

// Of --peer: no messages from other compute servers, and none to them.
constexpr std::string_view kNoPeers = "none";
// How often it looks whether its store is gone.
constexpr int kStoreLookMs = 500;
// Between two looks at large hashes.
constexpr std::chrono::seconds kLargeSweepInterval{10};

// A store that is served, and what looks after it.
struct AttendedStore {
  std::unique_ptr<Store> store;
  std::unique_ptr<EvictingStore> evicting = {};  // null without --evict
  std::unique_ptr<AutoSweeper> sweeper = {};     // null without --sweep_after_s
  std::unique_ptr<LargeSweeper> large_sweeper = {};
  std::unique_ptr<StoreWatch> watch = {};

  // What clients are served.
  Store& served() const { return evicting == nullptr ? *store : *evicting; }
};

// What lives as long as the gateway, beside the stores that it serves one after the other. Each may
// be null.
struct Companions {
  ProgramAdmin* admin;
  EvictionFigures* eviction;
  const PeerLinks* peers;
};

// SIGHUP as a descriptor, in place of the end of the process. Requires (unchecked): called before
// other threads start, which then leave the signal alone, too.
UniqueFd TakeHangups() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Error WrongFlag(const char* name, const std::string& sentence) {
  return MakeError(Code::kInvalidArgument, "--" + std::string(name) + ": " + sentence);
}

Result<std::optional<uint32_t>> SocketModeFromFlag(const std::vector<std::string>& listen) {
  constexpr uint32_t kAll = 0777;
  const std::string& text = FLAGS_redis_socket_mode;
  if (text.empty()) return std::optional<uint32_t>();
  uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > kAll) {
    return WrongFlag("redis_socket_mode", "give octal digits up to 0777, such as 0770");
  }
  if (std::ranges::none_of(listen, IsPath)) {
    return WrongFlag("redis_socket_mode", "give --redis=unix:PATH, too, or leave it out");
  }
  return std::optional(mode);
}

Result<Users> UsersFromFlags() {
  Users users;
  const bool has_password = !gflags::GetCommandLineFlagInfoOrDie("requirepass").is_default;
  if (has_password && FLAGS_requirepass.empty()) {
    return WrongFlag("requirepass", "the password is empty: give one, or leave the flag out");
  }
  if (has_password && !FLAGS_requirepass_file.empty()) {
    return WrongFlag("requirepass", "leave it out, as --requirepass_file has the password");
  }
  std::string password = FLAGS_requirepass;
  if (!FLAGS_requirepass_file.empty()) {
    Result<std::string> first_line = ReadPassword(FLAGS_requirepass_file);
    if (!first_line) return WrongFlag("requirepass_file", first_line.error().message);
    password = std::move(first_line.value());
  }
  if (!password.empty()) {
    const Status added = users.Add(std::string(kDefaultUser), password);
    if (!added) {
      return WrongFlag(has_password ? "requirepass" : "requirepass_file", added.error().message);
    }
  }
  if (FLAGS_users_file.empty()) return users;
  const Status added = users.AddFile(FLAGS_users_file);
  if (!added) return WrongFlag("users_file", added.error().message);
  return users;
}

// The certificate, if `options` have addresses of TLS.
Status AddCertificate(GatewayOptions& options) {
  if (options.listen_tls.empty()) {
    for (const auto& [name, value] : {std::pair("tls_cert_file", &FLAGS_tls_cert_file),
                                      std::pair("tls_key_file", &FLAGS_tls_key_file),
                                      std::pair("tls_ca_file", &FLAGS_tls_ca_file)}) {
      if (!value->empty()) return WrongFlag(name, "give --tls=ADDRESS:PORT, too, or leave it out");
    }
    return Ok();
  }
  if (FLAGS_tls_cert_file.empty() || FLAGS_tls_key_file.empty()) {
    return WrongFlag("tls", "give --tls_cert_file and --tls_key_file, too");
  }
  BOOST_OUTCOME_TRY(server, TlsServer::Load({.certificate = FLAGS_tls_cert_file,
                                             .key = FLAGS_tls_key_file,
                                             .ca = FLAGS_tls_ca_file}));
  options.tls = std::move(server);
  return Ok();
}

// null without --evict.
Result<std::shared_ptr<EvictionFigures>> EvictionFromFlags() {
  constexpr uint64_t kLeast = uint64_t{1} << 20;
  const Result<EvictionPolicy> policy = ParseEvictionPolicy(FLAGS_evict);
  if (!policy) return WrongFlag("evict", policy.error().message);
  BOOST_OUTCOME_TRY(max_memory, ParseSizeFlag("max_memory", FLAGS_max_memory));
  if (policy.value() == EvictionPolicy::kNone) {
    if (max_memory != 0) return WrongFlag("max_memory", "give --evict, too, or leave it out");
    return std::shared_ptr<EvictionFigures>();
  }
  if (max_memory != 0 && max_memory < kLeast) {
    return WrongFlag("max_memory", "give 1 MiB or more");
  }
  return std::make_shared<EvictionFigures>(EvictionOptions{policy.value(), max_memory});
}

Result<GatewayOptions> OptionsFromFlags() {
  GatewayOptions options;
  options.listen = SplitAtCommas(FLAGS_redis);
  if (options.listen.empty() && FLAGS_tls.empty()) {
    return WrongFlag("redis", "give an address, such as 127.0.0.1:7400");
  }
  options.listen_tls = SplitAtCommas(FLAGS_tls);
  BOOST_OUTCOME_TRY(socket_mode, SocketModeFromFlag(options.listen));
  options.socket_mode = socket_mode;
  if (!FLAGS_admin.empty()) {
    const Status address = CheckAdminAddress(FLAGS_admin, FLAGS_admin_for_other_machines);
    if (!address) return WrongFlag("admin", address.error().message);
  }
  if (!FLAGS_peer.empty() && FLAGS_peer != kNoPeers) {
    const Status address = CheckPeerAddress(FLAGS_peer);
    if (!address) return WrongFlag("peer", address.error().message);
  }
  BOOST_OUTCOME_TRY(users, UsersFromFlags());
  options.users = std::move(users);
  BOOST_OUTCOME_TRYV(CheckAddresses(options));
  BOOST_OUTCOME_TRYV(AddCertificate(options));
  BOOST_OUTCOME_TRY(max_query_bytes, ParseSizeFlag("max_query_bytes", FLAGS_max_query_bytes));
  BOOST_OUTCOME_TRY(client_memory, ParseSizeFlag("client_memory", FLAGS_client_memory));
  options.threads = FLAGS_threads;
  options.pin = FLAGS_pin;
  options.max_clients = FLAGS_max_clients;
  options.max_query_bytes = max_query_bytes;
  options.client_memory_bytes = client_memory;
  options.slow_log = {FLAGS_slowlog_slower_than_us, FLAGS_slowlog_entries};
  BOOST_OUTCOME_TRY(eviction, EvictionFromFlags());
  options.eviction = std::move(eviction);
  BOOST_OUTCOME_TRYV(CheckNumbers(options));
  return options;
}

Result<OpenOptions> OpenOptionsFromFlags() {
  OpenOptions options;
  options.bootstrap = FLAGS_bootstrap;
  options.store = FLAGS_store;
  BOOST_OUTCOME_TRY(fabric, ReadFabricFlags());
  options.fabric = fabric.fabric;
  options.rdma = fabric.rdma;
  options.connection_timeout_ms = fabric.connection_timeout_ms;
  options.reconnect_ms = FLAGS_reconnect_ms;
  const bool evicts = FLAGS_evict != "none";
  options.sessions = FLAGS_threads + 1 + (evicts ? 1 : 0);  // and the LargeSweeper's
  options.makes_room = evicts;
  BOOST_OUTCOME_TRY(cache_bytes, ParseSizeFlag("cache_bytes", FLAGS_cache_bytes, 1));
  options.cache_bytes = cache_bytes;
  return options;
}

// A store to serve. `eviction`: null without --evict.
Result<AttendedStore> ToServe(std::unique_ptr<Store> store, EvictionFigures* eviction) {
  AttendedStore attended{std::move(store)};
  if (eviction != nullptr) {
    BOOST_OUTCOME_TRY(evicting, EvictingStore::Open(*attended.store, *eviction));
    attended.evicting = std::move(evicting);
  }
  return attended;
}

// Starts what looks after the store.
Status Attend(AttendedStore& attended) {
  if (FLAGS_sweep_after_s != 0) {
    BOOST_OUTCOME_TRY(
        sweeper, AutoSweeper::Start(*attended.store, std::chrono::seconds(FLAGS_sweep_after_s)));
    attended.sweeper = std::move(sweeper);
  }
  BOOST_OUTCOME_TRY(large_sweeper, LargeSweeper::Start(*attended.store, kLargeSweepInterval));
  attended.large_sweeper = std::move(large_sweeper);
  BOOST_OUTCOME_TRY(watch,
                    StoreWatch::Start(*attended.store, "this compute server opens that one"));
  attended.watch = std::move(watch);
  return Ok();
}

// The links to the other compute servers of the store; null if there are to be none.
Result<std::unique_ptr<PeerLinks>> LinkPeers(const OpenOptions& open, Gateway& gateway) {
  if (FLAGS_peer == kNoPeers) return std::unique_ptr<PeerLinks>();
  std::string address = FLAGS_peer.empty() ? PeerAddressOf(gateway.addresses()) : FLAGS_peer;
  const Status is_right = address.empty() ? Ok() : CheckPeerAddress(address);
  if (!is_right || address.empty()) {
    LOG(WARNING) << "no messages of channels come from other compute servers: there is no address "
                    "of --redis at which they reach this one (give it --peer)";
    address.clear();
  }
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(open.bootstrap));
  return PeerLinks::Start(std::move(bootstrap), open.store,
                          {.id = RandomId(),
                           .host = HostName(),
                           .address = std::move(address),
                           .token = gateway.peer_token(),
                           .beat = 0},
                          gateway.peer_queue());
}

// What --admin shows of these. They outlive it.
AdminContent ServedBy(const AttendedStore& attended, const Gateway& gateway,
                      const Companions& beside) {
  const Store& store = *attended.store;
  StoreWatch& watch = *attended.watch;
  const AutoSweeper* const sweeper = attended.sweeper.get();
  const LargeSweeper& large_sweeper = *attended.large_sweeper;
  return {.families =
              [&store, &gateway, sweeper, &large_sweeper, &beside] {
                Families families;
                AddDeviceOf(store, families);
                gateway.metrics()->AddTo(families);
                gateway.memory().AddTo(families);
                gateway.channels().AddTo(families);
                if (beside.peers != nullptr) beside.peers->AddTo(families);
                if (beside.eviction != nullptr) beside.eviction->AddTo(families);
                if (sweeper != nullptr) sweeper->AddTo(families);
                large_sweeper.AddTo(families);
                return families.Take();
              },
          .state =
              [&store, metrics = gateway.metrics(), &watch, sweeper, &beside] {
                nlohmann::ordered_json state = watch.State();
                state.update(metrics->State());
                state["hot_leaves"] = HotLeavesState(store);
                if (beside.peers != nullptr) state["peers"] = beside.peers->State();
                if (beside.eviction != nullptr) state["eviction"] = beside.eviction->State();
                if (sweeper != nullptr) state["sweeps"] = sweeper->State();
                return state;
              },
          .readiness = [&watch] { return watch.Readiness(); }};
}

// Nothing without --admin.
Result<std::unique_ptr<ProgramAdmin>> StartAdmin() {
  if (FLAGS_admin.empty()) return std::unique_ptr<ProgramAdmin>();
  return ProgramAdmin::Start({.address = FLAGS_admin,
                              .for_other_machines = FLAGS_admin_for_other_machines,
                              .hosts = SplitAtCommas(FLAGS_admin_hosts)},
                             {"gossamer-compute", "compute server"});
}

// "redis 127.0.0.1:7400, tls 127.0.0.1:7443"
std::string AddressesOf(const Gateway& gateway) {
  std::string text;
  if (!gateway.addresses().empty()) text = "redis " + gateway.addresses();
  if (!gateway.tls_addresses().empty()) {
    text += (text.empty() ? "tls " : ", tls ") + gateway.tls_addresses();
  }
  return text;
}

// `tls`: null if there is no --tls.
void AnswerHangup(TlsServer* tls) {
  if (tls == nullptr) {
    LOG(INFO) << "nothing is read again on SIGHUP, as there is no --tls with a certificate";
    return;
  }
  const Status reloaded = tls->Reload();
  if (reloaded) {
    LOG(INFO) << "read the certificate again on SIGHUP: connections to come see it";
  } else {
    LOG(ERROR) << "the certificate stays as it was: " << reloaded.error().message;
  }
}

void LogStop(const Stop& stop) {
  LOG(INFO) << "stopping on " << (stop.signal() == SIGTERM ? "SIGTERM" : "SIGINT");
}

// Serves the store that has the name now in place of `attended`, which is gone. Tries again with
// the next call if that store cannot be used yet. Errors: what a next try does not mend, such as
// another fabric.
Status ServeNextStore(const OpenOptions& open, Gateway& gateway, const Companions& beside,
                      AttendedStore& attended) {
  const auto may_come = [](const Error& error) {
    return error.code == Code::kNotFound || error.code == Code::kNodeUnreachable ||
           error.code == Code::kFenced || error.code == Code::kContended;
  };
  Result<std::unique_ptr<Store>> store = Store::Open(open);
  if (!store && may_come(store.error())) return Ok();
  if (!store) return store.error();
  Result<AttendedStore> to_serve = ToServe(std::move(store.value()), beside.eviction);
  if (!to_serve) return may_come(to_serve.error()) ? Ok() : Status(to_serve.error());
  AttendedStore& next = to_serve.value();
  BOOST_OUTCOME_TRYV(Attend(next));
  const Status used = gateway.Use(next.served());
  if (!used) return may_come(used.error()) ? Ok() : used;
  if (beside.admin != nullptr) beside.admin->Serve(ServedBy(next, gateway, beside));
  std::swap(attended, next);
  LOG(WARNING) << "store '" << open.store
               << "' is another one now: it was created anew, or has gone back to what was saved. "
                  "Clients are served that one";
  return Ok();
}

int Serve(const GatewayOptions& options, const OpenOptions& open) {
  Stop stop;
  const StopOnSignals stop_on_signals(stop);
  const UniqueFd hangups = TakeHangups();
  // Before it waits for its store. It looks again when it listens.
  const Status are_free = Gateway::CheckPorts(options);
  if (!are_free) return Failure(kProgram, are_free.error().message);
  // Likewise, and before clients can connect, which a wrong --admin must not let them do.
  const auto started = StartAdmin();
  if (!started) return Failure(kProgram, started.error().message);
  ProgramAdmin* const admin = started.value().get();
  auto store = OpenPatiently(
      [&] { return Store::Open(open); }, std::chrono::seconds(FLAGS_wait), stop,
      [](const Error& why) { LOG(INFO) << "waiting for the store: " << why.message; });
  if (stop.raised()) {
    LogStop(stop);
    return kExitSuccess;
  }
  if (!store) {
    return store.error().code == Code::kInvalidArgument
               ? UsageError(kProgram, store.error().message)
               : Failure(kProgram, store.error().message);
  }
  EvictionFigures* const eviction = options.eviction.get();
  Result<AttendedStore> to_serve = ToServe(std::move(store.value()), eviction);
  if (!to_serve) return Failure(kProgram, to_serve.error().message);
  AttendedStore& attended = to_serve.value();
  const auto gateway = Gateway::Start(options, attended.served());
  if (!gateway) return Failure(kProgram, gateway.error().message);
  const Status is_attended = Attend(attended);
  if (!is_attended) return Failure(kProgram, is_attended.error().message);
  const auto linked = LinkPeers(open, *gateway.value());
  if (!linked) return Failure(kProgram, linked.error().message);
  const Companions beside{admin, eviction, linked.value().get()};
  if (admin != nullptr) admin->Serve(ServedBy(attended, *gateway.value(), beside));
  std::string line = "gossamer-compute ready: store " + open.store + ", " +
                     AddressesOf(*gateway.value()) +
                     (admin != nullptr ? ", admin " + admin->address() : "");
  const std::string device = FactsText(attended.store->Device());
  if (!device.empty()) line += "\ngossamer-compute uses: " + device;
  const Status told = AnnounceReady(line, FLAGS_ready_fd);
  if (!told) {
    if (admin != nullptr) admin->StopServing();
    return Failure(kProgram, told.error().message);
  }
  Status goes_on = Ok();
  while (!stop.raised() && goes_on) {
    std::array<pollfd, 2> signals{{{stop.fd(), POLLIN, 0}, {hangups.get(), POLLIN, 0}}};
    poll(signals.data(), signals.size(), kStoreLookMs);
    signalfd_siginfo one;
    if (read(hangups.get(), &one, sizeof one) > 0) AnswerHangup(options.tls.get());
    if (attended.watch->IsGone() && !stop.raised()) {
      goes_on = ServeNextStore(open, *gateway.value(), beside, attended);
    }
  }
  if (goes_on) LogStop(stop);
  NotifyServiceManager("STOPPING=1");
  if (admin != nullptr) admin->StopServing();
  if (!goes_on) return Failure(kProgram, goes_on.error().message);
  return kExitSuccess;
}

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (const std::optional<int> refused = RefuseArguments(kProgram, parsed)) return *refused;
  // Long answers and values get mappings of their own, which go back to the system with them. By
  // default, the C library raises this bound at the first of them, and its arenas keep all memory
  // that was ever used at once.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  ExplainOutOfMemory(
      "gossamer-compute: out of memory: this process may have no more. Raise its limit (ulimit -v, "
      "or that of its container or service), or give less --client_memory or --cache_bytes\n");
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const Status can_tell = CheckReadyFd(FLAGS_ready_fd);
  if (!can_tell) return UsageError(kProgram, can_tell.error().message);
  const auto options = OptionsFromFlags();
  if (!options) return UsageError(kProgram, options.error().message);
  const auto open = OpenOptionsFromFlags();
  if (!open) return UsageError(kProgram, open.error().message);
  return Serve(options.value(), open.value());
}

}  // namespace
}  // namespace gossamer::gateway

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::gateway::kProgram, argc, argv, gossamer::gateway::Main);
}
