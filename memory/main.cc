// gossamer-memory: a memory server as a program.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/admin/host_names.h"
#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/server_probe.h"
#include "common/checked_parameters.h"
#include "common/numa.h"
#include "common/program/fabric_flags.h"
#include "common/program/flags_main.h"
#include "common/program/ready.h"
#include "common/text/size_text.h"
#include "memory/memory_metrics.h"
#include "memory/memory_server.h"
#include "memory/region_file.h"
#include "memory/saved_file.h"
#include "memory/saved_files.h"
#include "memory/server_lives.h"

DEFINE_string(memory, "",
              "DRAM to serve, such as 64MiB or 1GiB; `gossamer size` says how much records take; "
              "not needed with a --region that exists");
DEFINE_string(store, "default", "name of the store to create or to join");
DEFINE_string(
    bootstrap, "",
    "where servers and clients find each other: memcached://HOST:PORT, or dir:PATH on one machine "
    "(default: a directory of this user)");
DEFINE_string(listen, "",
              "verbs: ADDRESS:PORT of an interface with RDMA; shm: path of a Unix socket (default: "
              "a new one in $XDG_RUNTIME_DIR or /tmp)");
DEFINE_uint32(max_key_bytes, 250, "longest key, 1 to 250; all servers of a store agree");
DEFINE_uint32(inline_value_bytes, 16,
              "longest value kept in a node, 0 to 64; all servers of a store agree");
DEFINE_uint32(node_bytes, 1024,
              "size of a tree node: a power of two, 256 to 4096, at most the path MTU; all servers "
              "of a store agree");
DEFINE_string(chunk_bytes, "",
              "unit in which clients get memory, a power of two (default: 1/64 of the memory, "
              "256KiB to 32MiB)");
DEFINE_string(lock_table_bytes, "256KiB", "lock table, 8 bytes a slot, a power of two");
DEFINE_string(
    region, "",
    "path of a file that the memory lives in, such as /dev/shm/NAME, or systemd, which keeps it "
    "for a service with FileDescriptorStoreMax=1: a memory server that is "
    "started with it again goes on with what it holds, in the sizes of the file where flags leave "
    "them out; without, that is gone with the process");
DEFINE_string(save, "",
              "directory where this server saves what it holds when it stops, and when `gossamer "
              "save` asks for it; one that starts without a region loads it from there");
DEFINE_string(load, "",
              "a file that a memory server has saved, to begin with in place of the one that "
              "--save has");
DEFINE_bool(salvage, false,
            "if the saved file to begin with is damaged, begin with what can be read of it");
DEFINE_bool(huge_pages, true,
            "use pages of 1 GB, if they are set aside and make up --memory, or of 2 MB where there "
            "are any");
DEFINE_string(
    numa, "auto",
    "on which NUMA node the memory lies: auto (that of the NIC), the number of a node, "
    "interleave (page by page on all of them), or no; what a node has no room for lies on "
    "others, and the line that says ready tells");
DEFINE_bool(touch, true,
            "have all memory from the machine before the server is ready, so that it is not killed "
            "for lack of memory later; takes a second for each 1 to 4 GiB");
DEFINE_string(
    on_chip_locks, "auto",
    "auto: keep the lock table in the memory of the NIC if it has any, smaller if it does "
    "not fit; require: refuse to start where that is not possible; no: keep it in DRAM");
DEFINE_bool(
    litmus, true,
    "verbs: test at start-up whether the device orders verbs as the store relies on; fall back to "
    "DRAM locks or to one verb at a time where it does not, and end if the server cannot reach "
    "itself");
DEFINE_uint32(lease_ms, gossamer::kDefaultProgramLeaseMs,
              "verbs: a client of which nothing is heard for so long is disconnected, and others "
              "may take its locks; at least 100, 0: never (shm: a client's death is seen at once)");
DEFINE_string(create, "auto",
              "auto: where no store is found, or a lost one, wait some seconds whether the record "
              "of one that lives comes back, then create one; new: create one at once, refuse to "
              "join one that "
              "lives; join: never create one, wait 15 s for one to join");
DEFINE_bool(replace_store, false,
            "create a new store even if server 0 of the recorded one is silent and may still run");
DEFINE_bool(
    forget_dead, false,
    "join a store of which a server other than server 0 is dead, and take that server out of "
    "the record: the keys it held are lost");
DEFINE_string(admin, "",
              "ADDRESS:PORT to serve metrics, health, state and a live page on by HTTP; port 0: a "
              "free one, named in the line that says ready (default: none)");
DEFINE_bool(admin_for_other_machines, false,
            "let --admin be an address that other machines reach, though there is no password: "
            "whoever reaches it sees figures");
DEFINE_string(admin_hosts, "",
              "names of hosts, with commas between them, under which --admin is asked, such as by "
              "Prometheus; addresses, localhost and the name of this machine need none");
DEFINE_int32(ready_fd, -1, "write READY to this file descriptor once clients can connect");

namespace gossamer {
namespace {

constexpr ProgramInfo kProgram{
    "gossamer-memory",
    "Usage: gossamer-memory --memory=SIZE [flags]\n"
    "\n"
    "Serves DRAM to a Gossamer store until SIGTERM or SIGINT. The first server of a store "
    "creates it.\n"
    "What a server holds ends with it, unless --region or --save keeps it. Prints a line once\n"
    "clients can connect, and over verbs another one about the device.\n",
    __FILE__};

// Of this process to itself: the store's record asks for a save.
constexpr int kSaveSignal = SIGUSR1;

// `otherwise` if the flag is left out.
Result<uint64_t> SizeFlag(const char* name, const std::string& text, uint64_t otherwise) {
  if (text.empty()) return otherwise;
  return ParseSizeFlag(name, text, 1);
}

// What flags leave out is as in `left`, the header of the region that there is.
Result<StoreParameters> ParametersFromFlags(const std::optional<RegionHeader>& left) {
  const auto given_or_left = [&left](const char* name, uint32_t flag, auto member) {
    const bool is_given = !gflags::GetCommandLineFlagInfoOrDie(name).is_default;
    return is_given || !left ? flag : uint32_t{left->parameters.*member};
  };
  return CheckedParameters(
      given_or_left("node_bytes", FLAGS_node_bytes, &StoreParameters::node_bytes),
      given_or_left("max_key_bytes", FLAGS_max_key_bytes, &StoreParameters::max_key_bytes),
      given_or_left("inline_value_bytes", FLAGS_inline_value_bytes,
                    &StoreParameters::inline_value_bytes));
}

// What this server is to go on with.
struct Left {
  std::optional<RegionHeader> header;  // of the last life; none if it is to begin anew
  SaveOptions save;
};

// A --load that was left in the flags must not take the store back once more.
Error MustChoose(const std::string& given, const SavedFile& later) {
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("--load={}: {} was saved later. To begin with the later file, leave out --load; "
                  "to go back, move the later one to another directory",
                  given, later.path()));
}

// The file to begin with, which belongs to the store; none if there is none.
Result<std::optional<SavedFile>> FileToLoad(SaveOptions& save, Bootstrap& bootstrap) {
  if (!FLAGS_load.empty()) {
    BOOST_OUTCOME_TRY(file, SavedFile::Open(FLAGS_load));
    if (file.store() != FLAGS_store) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("--load={}: it is of store '{}', and --store says '{}': give "
                                   "another file, or --store={}",
                                   FLAGS_load, file.store(), FLAGS_store, file.store()));
    }
    if (save.files) {
      BOOST_OUTCOME_TRYV(save.files->Take(static_cast<ServerId>(file.header().region.server_id)));
      BOOST_OUTCOME_TRY(later, save.files->FindLaterThan(file));
      if (later) return MustChoose(FLAGS_load, *later);
    }
    return std::optional(std::move(file));
  }
  if (!save.files) return std::nullopt;
  const SavedFiles::Taken taken = save.files->TakeAny();
  if (taken == SavedFiles::Taken::kThereAreNone) return std::nullopt;
  BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, FLAGS_store));
  if (taken == SavedFiles::Taken::kYes) return save.files->Choose(seen.record);
  // Beside those that have them, it may join. But it must not begin an empty store in place of what
  // they have.
  const MemberRecord* const root = seen.record ? seen.record->Find(ServerId{0}) : nullptr;
  if (root != nullptr && FabricProbe()(*seen.record, *root).liveness == Liveness::kAlive) {
    return std::nullopt;
  }
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("{}: other processes have all saved files of store '{}' there, and no server 0 "
                  "of the store answers: start this server again once they have ended, or are "
                  "ready; or give another --save",
                  save.files->directory(), FLAGS_store));
}

Result<Left> FindLeft(Bootstrap& bootstrap) {
  Left left;
  if (!FLAGS_save.empty()) {
    BOOST_OUTCOME_TRYV(CheckStoreName(FLAGS_store));
    BOOST_OUTCOME_TRY(files, SavedFiles::Open(FLAGS_save, FLAGS_store));
    left.save.files = std::move(files);
  }
  left.save.salvage = FLAGS_salvage;
  left.save.on_request = [] { ::kill(::getpid(), kSaveSignal); };
  if (FLAGS_create == "new") return left;
  if (!FLAGS_region.empty()) {
    BOOST_OUTCOME_TRY(header, RegionFile::LastHeader(FLAGS_region));
    left.header = header;
  }
  if (left.header && !FLAGS_load.empty()) {
    LOG(WARNING) << "--load=" << FLAGS_load << " is not used, as there is a region: to begin with "
                 << "that file, remove " << FLAGS_region;
  }
  if (left.header) return left;
  BOOST_OUTCOME_TRY(file, FileToLoad(left.save, bootstrap));
  if (file) left.header = file->header().region;
  left.save.to_load = std::move(file);
  return left;
}

Status CheckAdminFlag() {
  if (FLAGS_admin.empty()) return Ok();
  const Status address = CheckAdminAddress(FLAGS_admin, FLAGS_admin_for_other_machines);
  if (address) return Ok();
  return MakeError(Code::kInvalidArgument, "--admin: " + address.error().message);
}

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, kSaveSignal);
  return signals;
}

// The signals are blocked and stay pending until sigwait.
bool IsToStop() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

Result<OnChipLocks> ParseOnChipLocks(std::string_view text) {
  // It was a switch once.
  if (text == "auto" || text == "true") return OnChipLocks::kIfPossible;
  if (text == "require") return OnChipLocks::kRequired;
  if (text == "no" || text == "false") return OnChipLocks::kNever;
  return MakeError(Code::kInvalidArgument,
                   fmt::format("--on_chip_locks={}: give auto, require or no", text));
}

Result<MemoryServerOptions> OptionsFromFlags(const std::optional<RegionHeader>& left) {
  if (FLAGS_memory.empty() && !left) {
    return MakeError(Code::kInvalidArgument,
                     "--memory=SIZE is missing: how much DRAM to serve, such as --memory=1GiB");
  }
  MemoryServerOptions options;
  constexpr uint64_t kDefault = 0;
  BOOST_OUTCOME_TRY(memory_bytes,
                    SizeFlag("memory", FLAGS_memory, left ? left->region_bytes : kDefault));
  BOOST_OUTCOME_TRY(
      chunk_bytes, SizeFlag("chunk_bytes", FLAGS_chunk_bytes, left ? left->chunk_bytes : kDefault));
  BOOST_OUTCOME_TRY(lock_table_bytes,
                    SizeFlag("lock_table_bytes", FLAGS_lock_table_bytes, kDefault));
  BOOST_OUTCOME_TRY(parameters, ParametersFromFlags(left));
  BOOST_OUTCOME_TRY(fabric_flags, ReadFabricFlags());
  BOOST_OUTCOME_TRY(fabric, ParseFabricKind(fabric_flags.fabric));
  BOOST_OUTCOME_TRY(on_chip_locks, ParseOnChipLocks(FLAGS_on_chip_locks));
  BOOST_OUTCOME_TRY(numa, ParseNuma(FLAGS_numa));
  BOOST_OUTCOME_TRY(create, ParseCreateMode(FLAGS_create));
  BOOST_OUTCOME_TRYV(CheckAdminFlag());
  options.memory_bytes = memory_bytes;
  options.chunk_bytes = chunk_bytes;
  options.lock_table_bytes = lock_table_bytes;
  options.parameters = parameters;
  options.fabric = fabric;
  options.join.store = FLAGS_store;
  options.listen = FLAGS_listen;
  options.rdma = fabric_flags.rdma;
  options.connection_timeout_ms = fabric_flags.connection_timeout_ms;
  options.region = FLAGS_region;
  options.huge_pages = FLAGS_huge_pages;
  options.numa = numa;
  options.touch = FLAGS_touch;
  options.join.is_to_stop = IsToStop;
  options.on_chip_locks = on_chip_locks;
  options.litmus = FLAGS_litmus;
  options.lease_ms = FLAGS_lease_ms;
  options.join.replace_store = FLAGS_replace_store;
  options.join.forget_dead = FLAGS_forget_dead;
  options.join.create = create;
  return CompleteOptions(std::move(options));
}

// Nothing without --admin.
Result<std::unique_ptr<ProgramAdmin>> StartAdmin() {
  if (FLAGS_admin.empty()) return std::unique_ptr<ProgramAdmin>();
  return ProgramAdmin::Start({.address = FLAGS_admin,
                              .for_other_machines = FLAGS_admin_for_other_machines,
                              .hosts = SplitAtCommas(FLAGS_admin_hosts)},
                             {"gossamer-memory", "memory server"});
}

// Until a signal to stop, of which it returns the number.
int AwaitStop(ServerLives& lives, ProgramAdmin* admin) {
  const sigset_t signals = Signals();
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != kSaveSignal) return signal;
    if (!lives.HasNewRequest()) continue;
    LOG(INFO) << "saving, as the store's record asks for it";
    if (admin != nullptr) admin->StopServing();
    const Status saved = lives.SaveAndGoOn(IsToStop);
    if (!saved) LOG(ERROR) << "cannot save: " << saved.error().message;
    if (lives.has_ended()) return SIGTERM;  // as the error says
    if (admin != nullptr) admin->Serve(ServedBy(lives.server()));
  }
}

// Returns once nothing is lost by the end of this process.
int Stop(ServerLives& lives, ProgramAdmin* admin) {
  for (;;) {
    const int signal = AwaitStop(lives, admin);
    LOG(INFO) << "stopping on " << (signal == SIGTERM ? "SIGTERM" : "SIGINT");
    NotifyServiceManager("STOPPING=1");
    if (admin != nullptr) admin->StopServing();
    if (lives.has_ended()) return Failure(kProgram, "stopped, as it could not serve again");
    const Status ended = lives.End();
    if (ended) return kExitSuccess;
    if (lives.has_ended()) return Failure(kProgram, "stopped, but " + ended.error().message);
    LOG(ERROR) << ended.error().message
               << "; this server goes on, because what it holds would be lost: mend that and stop "
                  "it again, or end it with SIGKILL to lose what it holds";
    NotifyServiceManager("READY=1");
    if (admin != nullptr) admin->Serve(ServedBy(lives.server()));
  }
}

int Serve(const MemoryServerOptions& options, SaveOptions save) {
  // Before the server has its memory and its store, which takes a while, and which a wrong --admin
  // must not begin.
  const auto started = StartAdmin();
  if (!started) return Failure(kProgram, started.error().message);
  ProgramAdmin* const admin = started.value().get();
  const auto begun =
      ServerLives::Begin(options, std::move(save), [] { ::kill(::getpid(), SIGTERM); });
  if (!begun) return Failure(kProgram, begun.error().message);
  ServerLives& lives = *begun.value();
  const MemoryServer& server = lives.server();
  if (admin != nullptr) admin->Serve(ServedBy(server));
  std::string line = "gossamer-memory ready: " + server.Description() +
                     (admin != nullptr ? " admin " + admin->address() : "");
  const std::string device = FactsText(server.Device());
  if (!device.empty()) line += "\ngossamer-memory uses: " + device;
  const Status told = AnnounceReady(line, FLAGS_ready_fd);
  if (!told) {
    if (admin != nullptr) admin->StopServing();
    return Failure(kProgram, told.error().message);
  }
  return Stop(lives, admin);
}

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (const std::optional<int> refused = RefuseArguments(kProgram, parsed)) return *refused;
  // Block before any thread starts: all threads inherit the mask, and only sigwait receives the
  // signals.
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A log that cannot be written (closed pipe, ulimit -f) must not end the server.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // A terminal that is closed, or a request to read files again, should not cost what the server
  // keeps.
  std::signal(SIGHUP, SIG_IGN);

  const Status can_tell = CheckReadyFd(FLAGS_ready_fd);
  if (!can_tell) return UsageError(kProgram, can_tell.error().message);
  const auto bootstrap = OpenBootstrap(FLAGS_bootstrap);
  if (!bootstrap) {
    return bootstrap.error().code == Code::kInvalidArgument
               ? UsageError(kProgram, bootstrap.error().message)
               : Failure(kProgram, bootstrap.error().message);
  }
  auto left = FindLeft(*bootstrap.value());
  if (!left) return Failure(kProgram, left.error().message);
  auto options = OptionsFromFlags(left.value().header);
  if (!options) return UsageError(kProgram, options.error().message);
  options.value().bootstrap = bootstrap.value().get();
  return Serve(options.value(), std::move(left).value().save);
}

}  // namespace
}  // namespace gossamer

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::kProgram, argc, argv, gossamer::Main);
}
