// gossamer: the store from the command line. Only this file reads flags.
#include <fmt/core.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/program/fabric_flags.h"
#include "common/program/flags_main.h"
#include "common/program/open_patiently.h"
#include "common/program/stop.h"
#include "common/text/size_text.h"
#include "compute/cli/command.h"
#include "compute/cli/repl.h"
#include "compute/cli/report.h"
#include "gossamer/store.h"

DEFINE_string(
    bootstrap, "",
    "memcached://HOST:PORT or dir:PATH, where the memory servers are announced; by default "
    "this user's directory on this machine");
DEFINE_string(store, "default", "name of the store");
DEFINE_string(cache_bytes, "256MiB", "bound of the cache of internal nodes");
DEFINE_uint32(wait, 0, "seconds to wait for the store to be there");
DEFINE_uint32(lock_timeout_ms, 10000, "how long to wait for a lock");
DEFINE_uint32(reconnect_ms, 10000,
              "how long operations wait for a memory server that is to come back with its memory "
              "(gossamer-memory --region), before they end as NodeUnreachable");
DEFINE_bool(json, false, "print results as JSON");
DEFINE_bool(escaped, false, "keys and values have \\t \\n \\\\ \\xHH escapes, given and printed");
DEFINE_string(ttl, "",
              "put: seconds until the key expires, such as 60 or 0.5; without, it never does");
DEFINE_string(value_file, "", "put: take the value from this file; - is standard input");
DEFINE_string(output, "", "get: write the value into this file as it is; - is standard output");
DEFINE_string(from, "", "scan, delete: first key");
DEFINE_string(to, "", "scan, delete: key to end before");
DEFINE_string(prefix, "", "scan, delete: only keys that begin with this");
DEFINE_bool(all, false, "delete: every key");
DEFINE_uint64(limit, 0, "scan: at most this many keys; 0: all");
DEFINE_bool(reverse, false, "scan: from the last key to the first");
DEFINE_bool(salvage, false, "dump: step over what cannot be reached, and say what is missing");
DEFINE_bool(dry_run, false, "repair: say what is lost, and change nothing");
DEFINE_bool(lose_data, false, "stop: also where that loses what the server holds");
DEFINE_bool(quick, false, "stat: do not read the tree");
DEFINE_bool(keys_only, false, "scan: leave out the values");
DEFINE_uint32(threads, 1, "load: threads that put");
DEFINE_uint64(from_line, 1, "load: begin at this line of the file");
DEFINE_bool(sorted, false, "load, size: the keys ascend");
DEFINE_double(fill, gossamer::cli::kUsualFill,
              "how full leaves get where keys ascend, above 0 and at most 1; the rest is for keys "
              "that come in between");
DEFINE_bool(raw, false, "load, size: the lines have no escapes: a backslash is a backslash");
DEFINE_string(on_error, "stop", "load: stop at a bad line, or skip it");
DEFINE_uint64(records, 0, "size: how many records the store is to hold");
DEFINE_string(keys, "", "size: a file with the records, or some of them, as load takes it");
DEFINE_string(order, "", "size: how records come: random, ascending, descending, sorted, or file");
DEFINE_uint32(key_bytes, 0, "size: the length of a key");
DEFINE_uint32(value_bytes, 0, "size: the length of a value");
DEFINE_bool(
    consecutive_keys, false,
    "size: consecutive decimal numbers behind a prefix; else keys that differ early, as hashes do");
DEFINE_uint32(max_key_bytes, 250, "size: as of gossamer-memory");
DEFINE_uint32(inline_value_bytes, 16, "size: as of gossamer-memory; by default compared");
DEFINE_uint32(node_bytes, 1024, "size: as of gossamer-memory; by default compared");

namespace gossamer::cli {
namespace {

constexpr uint32_t kMaxThreads = 256;

const ProgramInfo& Program() {
  static const std::string summary = HelpOverview();
  static const ProgramInfo program{"gossamer", summary, __FILE__};
  return program;
}

std::string DescribeFlag(std::string_view flag) {
  std::string text = gflags::GetCommandLineFlagInfoOrDie(std::string(flag).c_str()).description;
  // Drop the commands, as in "scan, delete: first key".
  const size_t commands = text.find(": ");
  const bool is_list = commands != std::string::npos &&
                       text.find_first_not_of("abcdefghijklmnopqrstuvwxyz, ") == commands;
  if (is_list) text.erase(0, commands + 2);
  return text;
}

Result<OpenOptions> OpenOptionsOfFlags() {
  OpenOptions options;
  options.bootstrap = FLAGS_bootstrap;
  options.store = FLAGS_store;
  BOOST_OUTCOME_TRY(fabric, ReadFabricFlags());
  options.fabric = fabric.fabric;
  options.rdma = fabric.rdma;
  options.connection_timeout_ms = fabric.connection_timeout_ms;
  options.lock_timeout_ms = FLAGS_lock_timeout_ms;
  options.reconnect_ms = FLAGS_reconnect_ms;
  options.sessions = FLAGS_threads;
  BOOST_OUTCOME_TRY(cache_bytes, ParseSizeFlag("cache_bytes", FLAGS_cache_bytes));
  options.cache_bytes = cache_bytes;
  return options;
}

bool IsOfOpening(std::string_view flag) {
  constexpr std::array<std::string_view, 6> kNames = {
      "bootstrap", "store", "cache_bytes", "wait", "lock_timeout_ms", "reconnect_ms"};
  return std::ranges::count(kNames, flag) != 0 || std::ranges::count(FabricFlagNames(), flag) != 0;
}

std::optional<uint32_t> IfGiven(const char* flag, uint32_t value) {
  if (gflags::GetCommandLineFlagInfoOrDie(flag).is_default) return std::nullopt;
  return value;
}

SizeOptions SizeOptionsOfFlags() {
  SizeOptions options;
  options.records = FLAGS_records;
  options.keys_file = FLAGS_keys;
  if (FLAGS_raw) options.form = LineForm::kRaw;
  options.order = FLAGS_order;
  options.sorted = FLAGS_sorted;
  options.fill = FLAGS_fill;
  options.key_bytes = IfGiven("key_bytes", FLAGS_key_bytes);
  options.value_bytes = IfGiven("value_bytes", FLAGS_value_bytes);
  options.consecutive_keys = FLAGS_consecutive_keys;
  options.max_key_bytes = FLAGS_max_key_bytes;
  options.inline_value_bytes = IfGiven("inline_value_bytes", FLAGS_inline_value_bytes);
  options.node_bytes = IfGiven("node_bytes", FLAGS_node_bytes);
  return options;
}

Result<CommandOptions> CommandOptionsOfFlags() {
  CommandOptions options;
  options.json = FLAGS_json;
  options.escaped = FLAGS_escaped;
  options.ttl = FLAGS_ttl;
  options.value_file = FLAGS_value_file;
  options.output = FLAGS_output;
  options.scan.from = FLAGS_from;
  if (!FLAGS_to.empty()) options.scan.to = FLAGS_to;
  options.scan.prefix = FLAGS_prefix;
  if (FLAGS_limit > 0) options.scan.limit = FLAGS_limit;
  options.scan.reverse = FLAGS_reverse;
  options.scan.keys_only = FLAGS_keys_only;
  options.salvage = FLAGS_salvage;
  options.all = FLAGS_all;
  for (const char* flag : {"from", "to", "prefix"}) {
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(flag);
    if (!info.is_default && info.current_value.empty()) options.empty_bound = flag;
  }
  options.dry_run = FLAGS_dry_run;
  options.lose_data = FLAGS_lose_data;
  options.quick = FLAGS_quick;
  options.load.threads = FLAGS_threads;
  options.load.from_line = FLAGS_from_line;
  if (FLAGS_raw) options.load.form = LineForm::kRaw;
  options.load.skip_errors = FLAGS_on_error == "skip";
  options.load.sorted = FLAGS_sorted;
  options.load.fill = FLAGS_fill;
  options.size = SizeOptionsOfFlags();
  if (FLAGS_threads < 1 || FLAGS_threads > kMaxThreads) {
    return MakeError(Code::kInvalidArgument, fmt::format("--threads must be 1 to {}", kMaxThreads));
  }
  if (!(FLAGS_fill > 0 && FLAGS_fill <= 1)) {
    return MakeError(Code::kInvalidArgument, "--fill must be above 0 and at most 1");
  }
  if (FLAGS_on_error != "stop" && FLAGS_on_error != "skip") {
    return MakeError(Code::kInvalidArgument, "--on_error is stop or skip, not " + FLAGS_on_error);
  }
  return options;
}

int Help(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    std::cout << HelpOverview() << "`gossamer --help` lists the flags.\n";
    return kExitSuccess;
  }
  const Command* command = CommandByName(words[1]);
  if (command == nullptr) return UsageError(Program(), "there is no command '" + words[1] + "'");
  std::cout << HelpCommand(*command, DescribeFlag);
  return kExitSuccess;
}

// What runs commands, on a store once that is open.
class Shell {
 public:
  Shell(OpenOptions open, Stop& stop) : open_(std::move(open)), stop_(stop) {}

  Status Open() {
    BOOST_OUTCOME_TRY(store, OpenPatiently([&] { return Store::Open(open_); },
                                           std::chrono::seconds(FLAGS_wait), stop_,
                                           [](const Error& why) {
                                             std::cerr << "gossamer: waiting for the store: "
                                                       << Sentence(why) << std::endl;
                                           }));
    BOOST_OUTCOME_TRY(session, store->NewSession());
    store_ = std::move(store);
    session_ = std::move(session);
    return Ok();
  }

  int Run(const Command& command, const std::vector<std::string>& words,
          const CommandOptions& options, bool at_prompt) {
    const std::vector<std::string> arguments(words.begin() + 1, words.end());
    return FinishOutput(Program(), command.run(ContextOf(arguments, options, at_prompt)));
  }

  Context ContextOf(const std::vector<std::string>& arguments, const CommandOptions& options,
                    bool at_prompt) {
    return {store_.get(), session_.get(), open_, options,  arguments,
            std::cout,    std::cerr,      stop_, at_prompt};
  }

  // Runs a line typed at the prompt. Its flags hold for this line only.
  int RunLine(const std::vector<std::string>& words) {
    const gflags::FlagSaver saver;
    const ParsedFlags parsed = ParseFlagWords(Program(), words);
    if (parsed.exit_status) return FinishOutput(Program(), *parsed.exit_status);
    if (parsed.arguments.empty()) return UsageError(Program(), "there are flags, but no command");
    if (parsed.arguments.front() == "help") {
      return FinishOutput(Program(), Help(parsed.arguments));
    }
    for (const std::string& flag : parsed.given) {
      if (IsOfOpening(flag)) {
        return UsageError(Program(), "--" + flag + " is given when gossamer is started");
      }
    }
    const Result<const Command*> command = FindCommand(parsed.arguments, parsed.given);
    if (!command) return UsageError(Program(), command.error().message);
    const Result<CommandOptions> options = CommandOptionsOfFlags();
    if (!options) return UsageError(Program(), options.error().message);
    return Run(*command.value(), parsed.arguments, options.value(), true);
  }

 private:
  const OpenOptions open_;
  Stop& stop_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(Program(), argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  const std::vector<std::string>& words = parsed.arguments;
  const bool prompt = words.empty();
  if (!prompt && words.front() == "help") return Help(words);

  // Find every mistake of the user before opening anything.
  const Command* command = nullptr;
  if (!prompt) {
    const Result<const Command*> found = FindCommand(words, parsed.given);
    if (!found) return UsageError(Program(), found.error().message);
    command = found.value();
  }
  const Result<CommandOptions> options = CommandOptionsOfFlags();
  if (!options) return UsageError(Program(), options.error().message);
  const Result<OpenOptions> open = OpenOptionsOfFlags();
  if (!open) return UsageError(Program(), open.error().message);

  Stop stop;
  Shell shell(open.value(), stop);
  std::optional<StopOnSignals> signals;
  if (!prompt && !command->needs_store) {
    if (command->stops_cleanly) signals.emplace(stop);
    return shell.Run(*command, words, options.value(), false);
  }
  if (const Status opened = shell.Open(); !opened) {
    const bool has_no_root = opened.error().code == Code::kNodeUnreachable;
    const bool is_salvaged =
        has_no_root && !prompt && command->name == "dump" && options.value().salvage;
    if (!is_salvaged)
      return FailToBegin(shell.ContextOf({}, options.value(), prompt), opened.error());
    std::cerr << "gossamer: " << Sentence(opened.error()) << '\n';
  }
  if (prompt || command->stops_cleanly) signals.emplace(stop);
  if (!prompt) return shell.Run(*command, words, options.value(), false);
  const std::unique_ptr<LineSource> lines = StandardInput(stop);
  return RunRepl(*lines, stop, std::cerr,
                 [&](const std::vector<std::string>& line) { return shell.RunLine(line); });
}

}  // namespace
}  // namespace gossamer::cli

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::cli::Program(), argc, argv, gossamer::cli::Main);
}
