// store_stress: many clients on few keys, and a check that what they saw is linearizable.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "common/program/fabric_flags.h"
#include "common/program/flags_main.h"
#include "common/testing/built_paths.h"
#include "common/text/size_text.h"
#include "compute/verify/stress/client.h"
#include "compute/verify/stress/run.h"

DEFINE_bool(local, false, "one process: a store within it, and clients that are groups of threads");
DEFINE_uint32(servers, 2, "memory servers, each a process");
DEFINE_uint32(clients, 4, "client processes");
DEFINE_uint32(threads, 2, "threads of each client");
DEFINE_uint32(coroutines, 8, "operations in flight of each thread");
DEFINE_uint64(operations, 3'000'000, "of all clients together");
DEFINE_uint32(hot_keys, 10'000, "keys that clients write; one stable key comes with every three");
DEFINE_uint32(long_percent, 10,
              "values of 17 to 2000 bytes among a hundred; the rest are of 8 to 16");
DEFINE_uint64(seed, 0, "of all random choices; 0: a new one, which is printed");
DEFINE_string(bootstrap, "dir", "dir or memcached, made for the run; or where servers may meet");
DEFINE_string(listen, "", "verbs: address of the memory servers (default: $SOFT_ROCE_ADDRESS)");
DEFINE_uint32(port, 7471, "verbs: port of the first memory server; the next has the next");
DEFINE_string(memory, "512MiB", "DRAM of each memory server");
DEFINE_string(memory_program, gossamer::BuiltFile("bin/gossamer-memory"), "the memory server");
DEFINE_uint32(node_bytes, 1024, "size of a tree node; 256 makes many splits");
DEFINE_uint32(max_key_bytes, 20,
              "8: all keys of 8 bytes; more: of 4 to so many; above 32: with long common prefixes");
DEFINE_uint32(inline_value_bytes, 16, "longest value kept in a node");
DEFINE_string(cache_bytes, "64MiB", "cache of internal nodes of each client");
DEFINE_uint32(lock_timeout_ms, 60'000, "after which an operation says that a lock stayed taken");
DEFINE_uint32(max_seconds, 240, "a run that takes longer is ended, and has failed");
DEFINE_uint32(pause_ms, 0, "stop random clients at random moments for up to so long; 0: do not");
DEFINE_uint32(
    kills, 0,
    "kill (SIGKILL) random clients at random moments, so often in all, and start others in "
    "their place; the run then ends with the last of them, not by --operations");
DEFINE_uint32(kill_ms, 400, "with --kills and --restarts: longest time from one fault to the next");
DEFINE_uint32(
    restarts, 0,
    "end (SIGKILL or SIGTERM) memory servers and start others at their addresses, so often "
    "in all; clients go on with what is left of their store, and then open the next one");
DEFINE_uint32(returns, 0,
              "kill (SIGKILL) memory servers whose memory is in files, so often in all, and start "
              "them again: "
              "they go on with it, and clients notice nothing but a pause");
DEFINE_uint32(reconnect_ms, 10'000, "with --returns: how long clients wait for such a server");
DEFINE_uint32(absence_ms, 200, "with --returns: longest time from the kill to the next start");
DEFINE_string(region_directory, "/dev/shm", "with --returns: where the files are");
DEFINE_uint32(flushes, 0,
              "with --bootstrap=memcached: flush it, or kill it and start it again, so often");
DEFINE_uint32(stops, 0, "stop random memory servers (SIGSTOP) for a while, so often");
DEFINE_uint32(stop_ms, 3000, "with --stops: at most so long");
DEFINE_bool(reopen, false, "clients close sessions and stores, and open them again");
DEFINE_uint32(loss_ms, 0,
              "shm: each client loses a connection to a memory server, again and again: longest "
              "time from one to the next; 0: none");
DEFINE_uint32(witness_ms, 3000, "with --restarts: how long they go on");
DEFINE_string(
    chunk_bytes, "",
    "unit in which clients get memory (default: as the memory server thinks); each client "
    "that is killed leaves some");
DEFINE_string(lease_ms, "", "of the memory servers (default: theirs)");
DEFINE_int32(client, -1, "for the program itself: this process is that client");
DEFINE_string(client_bootstrap, "", "for the program itself: where a client finds the store");
DEFINE_string(client_directory, "", "for the program itself: where a client leaves its history");

namespace gossamer::stress {
namespace {

constexpr ProgramInfo kProgram{
    "store_stress",
    "Usage: store_stress [flags]\n"
    "\n"
    "Starts memory servers and client processes that put, insert, update, delete, get and scan "
    "the\n"
    "same keys, logs what every operation saw and when, and checks that one map could have done "
    "all\n"
    "of it; then checks the tree. With faults (--kills and others) each error must be explained "
    "by one.\n"
    "Exit status 0 if nothing is wrong, else 1.\n",
    __FILE__};

Status CheckFaults(const StressOptions& options) {
  const bool has_faults = options.is_campaign() || options.reopen;
  if (has_faults && (FLAGS_local || options.pause_ms != 0)) {
    return MakeError(
        Code::kInvalidArgument,
        "--kills, --restarts, --returns, --flushes, --stops, --reopen and --loss_ms need "
        "processes (not --local), and no --pause_ms");
  }
  if (options.kill_ms == 0 || options.stop_ms == 0 || options.absence_ms == 0) {
    return MakeError(Code::kInvalidArgument,
                     "--kill_ms, --stop_ms and --absence_ms: give at least 1");
  }
  if (options.returns != 0 && options.restarts != 0) {
    return MakeError(Code::kInvalidArgument,
                     "--returns keeps what --restarts loses: give one of them");
  }
  if (options.flushes != 0 && options.bootstrap != "memcached") {
    return MakeError(Code::kInvalidArgument, "--flushes needs --bootstrap=memcached");
  }
  if (options.loss_ms != 0 && options.fabric != "shm") {
    return MakeError(Code::kInvalidArgument, "--loss_ms needs --fabric=shm");
  }
  if (options.restarts > RunBoard::kMaxEras - 3) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--restarts: at most {}", RunBoard::kMaxEras - 3));
  }
  return Ok();
}

Result<StressOptions> OptionsFromFlags() {
  StressOptions options;
  options.servers = FLAGS_servers;
  options.clients = FLAGS_clients;
  options.threads = FLAGS_threads;
  options.coroutines = FLAGS_coroutines;
  BOOST_OUTCOME_TRY(fabric, ReadFabricFlags());
  options.fabric = fabric.fabric;
  options.rdma = fabric.rdma;
  options.connection_timeout_ms = fabric.connection_timeout_ms;
  options.bootstrap = FLAGS_bootstrap;
  options.listen = FLAGS_listen;
  options.port = static_cast<uint16_t>(FLAGS_port);
  options.memory = FLAGS_memory;
  options.memory_program = FLAGS_memory_program;
  options.parameters = {FLAGS_node_bytes, static_cast<uint16_t>(FLAGS_max_key_bytes),
                        static_cast<uint16_t>(FLAGS_inline_value_bytes)};
  BOOST_OUTCOME_TRY(cache_bytes, ParseSizeFlag("cache_bytes", FLAGS_cache_bytes));
  options.cache_bytes = cache_bytes;
  options.lock_timeout_ms = FLAGS_lock_timeout_ms;
  options.reconnect_ms = FLAGS_reconnect_ms;
  options.operations = FLAGS_operations;
  options.hot_keys = FLAGS_hot_keys;
  options.long_percent = FLAGS_long_percent;
  options.max_seconds = FLAGS_max_seconds;
  options.pause_ms = FLAGS_pause_ms;
  options.kills = FLAGS_kills;
  options.kill_ms = FLAGS_kill_ms;
  options.restarts = FLAGS_restarts;
  options.witness_ms = FLAGS_witness_ms;
  options.returns = FLAGS_returns;
  options.absence_ms = FLAGS_absence_ms;
  options.region_directory = FLAGS_region_directory;
  options.flushes = FLAGS_flushes;
  options.stops = FLAGS_stops;
  options.stop_ms = FLAGS_stop_ms;
  options.reopen = FLAGS_reopen;
  options.loss_ms = FLAGS_loss_ms;
  options.chunk_bytes = FLAGS_chunk_bytes;
  options.lease_ms = FLAGS_lease_ms;
  options.seed = FLAGS_seed;
  const char* address = std::getenv("SOFT_ROCE_ADDRESS");
  if (options.fabric == "verbs" && options.listen.empty() && address != nullptr) {
    options.listen = address;
  }
  if (options.clients == 0 || options.threads == 0 || options.coroutines == 0 ||
      options.hot_keys < options.coroutines) {
    return MakeError(Code::kInvalidArgument,
                     "--clients, --threads and --coroutines are at least 1, --hot_keys at least as "
                     "many as --coroutines");
  }
  if (options.lives() > RunBoard::kMaxClients || options.threads > ClientReport::kMaxThreads ||
      uint64_t{options.lives()} * options.threads >= kPreloader ||
      options.hot_keys > kMaxKeys / 2) {
    return MakeError(Code::kInvalidArgument,
                     "at most 2048 clients, replacements included, 64 threads of each, 4094 of "
                     "all of them, and 524288 hot keys");
  }
  BOOST_OUTCOME_TRYV(CheckFaults(options));
  if (FLAGS_max_key_bytes < 8 || FLAGS_max_key_bytes > kMaxKeyBytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--max_key_bytes: give 8 to {}", kMaxKeyBytes));
  }
  return options;
}

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (FLAGS_seed == 0) FLAGS_seed = std::random_device{}();
  const Result<StressOptions> options = OptionsFromFlags();
  if (!options) return UsageError(kProgram, options.error().message);
  if (FLAGS_client >= 0) {
    const Status run = RunClient(options.value(), static_cast<uint32_t>(FLAGS_client),
                                 FLAGS_client_bootstrap, FLAGS_client_directory);
    return run ? kExitSuccess : Failure(kProgram, run.error().ToString());
  }
  if (FLAGS_local) return RunLocal(options.value()) ? kExitSuccess : kExitFailure;
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  for (int i = 1; i < argc; ++i) command.emplace_back(argv[i]);
  command.push_back(fmt::format("--seed={}", FLAGS_seed));
  return RunCluster(options.value(), command) ? kExitSuccess : kExitFailure;
}

}  // namespace
}  // namespace gossamer::stress

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::stress::kProgram, argc, argv, gossamer::stress::Main);
}
