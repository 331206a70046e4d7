#include "compute/gateway/commands/server_answers.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <utility>

#include "common/admin/process_metrics.h"
#include "common/version.h"
#include "compute/gateway/commands/command_docs.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

class Info {
 public:
  explicit Info(const std::vector<std::string_view>& arguments) : arguments_(arguments) {}

  enum class When : uint8_t { kByDefault, kIfNamed };  // kIfNamed: or all are asked for
  // Begins a section of this name, in small letters. Returns whether it is asked for.
  bool Begin(std::string_view name, std::string_view title, When when = When::kByDefault) {
    const auto is_this = [=](std::string_view one) {
      return IsWord(one, name) || IsWord(one, "all") || IsWord(one, "everything") ||
             (IsWord(one, "default") && when == When::kByDefault);
    };
    const bool is_asked_for = arguments_.size() == 1
                                  ? when == When::kByDefault
                                  : std::any_of(arguments_.begin() + 1, arguments_.end(), is_this);
    if (!is_asked_for) return false;
    text_ += fmt::format("{}# {}\r\n", text_.empty() ? "" : "\r\n", title);
    return true;
  }
  template <typename Value>
  void Add(std::string_view name, const Value& value) {
    fmt::format_to(std::back_inserter(text_), "{}:{}\r\n", name, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  const std::vector<std::string_view>& arguments_;
  std::string text_;
};

void AddCommands(const WorkerFigures& total, Info& info) {
  for (size_t i = 0; i < total.commands.size(); ++i) {
    const CommandFigures& figures = total.commands[i];
    const uint64_t calls = figures.latency_ns.count();
    if (calls + figures.rejected == 0) continue;
    const double mean = calls == 0 ? 0 : figures.latency_ns.Mean() / 1e3;
    info.Add(fmt::format("cmdstat_{}", Commands()[i].name),
             fmt::format(
                 "calls={},usec={:.0f},usec_per_call={:.2f},rejected_calls={},failed_calls={}",
                 calls, mean * static_cast<double>(calls), mean, figures.rejected, figures.errors));
  }
}

void AddStats(const WorkerFigures& total, const GatewayFigures& figures,
              const EvictionFigures* eviction, Info& info) {
  uint64_t commands = 0;
  uint64_t errors = total.clients.unknown_requests;
  for (const CommandFigures& one : total.commands) {
    commands += one.latency_ns.count();
    errors += one.errors + one.rejected;
  }
  info.Add("total_connections_received", total.clients.accepted);
  info.Add("total_commands_processed", commands);
  info.Add("instantaneous_ops_per_sec", std::llround(total.commands_per_second));
  info.Add("rejected_connections", total.clients.rejected);
  info.Add("total_net_input_bytes", total.clients.bytes_received);
  info.Add("total_net_output_bytes", total.clients.bytes_sent);
  info.Add("expired_keys", figures.expired_keys);
  info.Add("evicted_keys", eviction == nullptr ? 0 : eviction->evicted_keys.load());
  info.Add("keyspace_hits", total.clients.keys_found);
  info.Add("keyspace_misses", total.clients.keys_absent);
  info.Add("client_query_buffer_limit_disconnections", total.clients.slow_senders);
  info.Add("client_output_buffer_limit_disconnections", total.clients.slow_readers);
  info.Add("pubsub_channels", figures.channels);
  info.Add("pubsub_patterns", figures.patterns);
  info.Add("pubsubshard_channels", figures.shard_channels);
  info.Add("total_error_replies", errors);
  info.Add("acl_access_denied_auth", total.clients.failed_logins);
}

// Of one COMMAND INFO: a description is much longer than a name.
constexpr size_t kMostNames = 1024;

bool IsOfKeys(const Command& command) {
  return command.kind != CommandKind::kAnswer && command.kind != CommandKind::kState;
}

bool IsOfChannels(const Command& command) {
  switch (command.id) {
    case CommandId::kPublish:
    case CommandId::kPubSub:
    case CommandId::kSubscribe:
    case CommandId::kUnsubscribe: return true;
    default: return false;
  }
}

// Of the others, as Redis sorts them.
bool IsOfConnection(const Command& command) {
  if (IsOfChannels(command)) return false;
  switch (command.id) {
    case CommandId::kAcl:
    case CommandId::kConfig:
    case CommandId::kInfo:
    case CommandId::kSlowlog: return false;
    default: return true;
  }
}

void WriteCommand(const Command& command, ReplyWriter& reply) {
  reply.Array(10);
  reply.Bulk(command.name);
  reply.Integer(command.arity);
  const bool is_of_keys = IsOfKeys(command);
  const bool is_of_channels = IsOfChannels(command);
  reply.Set(is_of_keys || is_of_channels ? 1 : 0);
  if (is_of_keys) reply.Simple(command.is_write ? "write" : "readonly");
  if (is_of_channels) reply.Simple("pubsub");
  reply.Integer(command.first_key);
  reply.Integer(command.last_key);
  reply.Integer(command.key_step);
  reply.Set(1);
  if (is_of_keys) {
    reply.Simple(command.is_write ? "@write" : "@read");
  } else if (is_of_channels) {
    reply.Simple("@pubsub");
  } else {
    reply.Simple(IsOfConnection(command) ? "@connection" : "@slow");
  }
  // Tips, key specifications and subcommands.
  for (int i = 0; i < 3; ++i) reply.Array(0);
}

// COMMAND LIST [FILTERBY PATTERN pattern | FILTERBY MODULE name]
void ListCommands(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  const bool is_filtered = arguments.size() == 5 && IsWord(arguments[2], "filterby");
  const bool has_pattern = is_filtered && IsWord(arguments[3], "pattern");
  const bool has_module = is_filtered && IsWord(arguments[3], "module");
  if (arguments.size() != 2 && !has_pattern && !has_module) {
    return reply.Error(kSyntaxError);
  }
  if (has_pattern && arguments[4].size() > kMostPatternBytes) {
    return reply.Error(kPatternTooLong);
  }
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    const bool is_wanted = !has_pattern || MatchesGlob(arguments[4], name);
    if (is_wanted && !has_module) names.push_back(name);  // no module has brought any
  };
  for (const Command& one : Commands()) add(one.name);
  for (const Subcommand& one : Subcommands()) add(one.name);
  reply.Array(names.size());
  for (const std::string_view name : names) reply.Bulk(name);
}

}  // namespace

std::string GatewayIdentity::RandomRunId() {
  std::random_device random;
  std::string digits;
  while (digits.size() < 40) digits += fmt::format("{:08x}", random());
  return digits;
}

std::string InfoText(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                     const GatewayIdentity& identity, const GatewayFigures& figures,
                     const WorkerMetrics& metrics) {
  Info info(arguments);
  const WorkerFigures total = metrics.Total();
  if (info.Begin("server", "Server")) {
    info.Add("server_name", "gossamer");
    info.Add("redis_version", "7.0.0");      // whose protocol this is
    info.Add("redis_git_sha1", "00000000");  // Redis's own word for: not known
    info.Add("redis_git_dirty", 0);
    info.Add("gossamer_version", BuildVersion());
    info.Add("redis_mode", "standalone");
    info.Add("process_id", getpid());
    info.Add("run_id", identity.run_id);
    info.Add("tcp_port", identity.port);
    const auto uptime = std::chrono::steady_clock::now() - identity.started;
    info.Add("uptime_in_seconds", std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
    info.Add("uptime_in_days", std::chrono::duration_cast<std::chrono::days>(uptime).count());
    info.Add("io_threads_active", metrics.workers());
  }
  if (info.Begin("clients", "Clients")) {
    info.Add("connected_clients", figures.clients);
    info.Add("maxclients", options.max_clients);
    info.Add("blocked_clients", 0);
  }
  if (info.Begin("memory", "Memory")) {
    const uint64_t resident = ResidentBytes();
    info.Add("used_memory", resident);
    info.Add("used_memory_rss", resident);
    const EvictionFigures* const eviction = options.eviction.get();
    info.Add("maxmemory", eviction == nullptr ? 0 : eviction->limit_bytes.load());
    info.Add("maxmemory_policy", MaxMemoryPolicyOf(options));
    info.Add("mem_clients_normal", figures.client_bytes);
    info.Add("maxmemory_clients", options.client_memory_bytes);
    info.Add("lazyfree_pending_objects", 0);
  }
  if (info.Begin("persistence", "Persistence")) {
    info.Add("loading", 0);
  }
  if (info.Begin("stats", "Stats")) {
    AddStats(total, figures, options.eviction.get(), info);
  }
  if (info.Begin("replication", "Replication")) {
    info.Add("role", "master");
    info.Add("connected_slaves", 0);
    info.Add("master_repl_offset", 0);
  }
  if (info.Begin("cpu", "CPU")) {
    const ProcessorTime time = OwnProcessorTime();
    info.Add("used_cpu_sys", fmt::format("{:.6f}", time.system_seconds));
    info.Add("used_cpu_user", fmt::format("{:.6f}", time.user_seconds));
  }
  if (info.Begin("commandstats", "Commandstats", Info::When::kIfNamed)) AddCommands(total, info);
  // To count the keys takes a walk through the store, as DBSIZE does it.
  if (info.Begin("keyspace", "Keyspace") && figures.keys > 0) {
    info.Add("db0", fmt::format("keys={},expires=0,avg_ttl=0", figures.keys));
  }
  return info.Take();
}

void AnswerCommand(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  const auto is = [&](std::string_view name) {
    return arguments.size() > 1 && IsWord(arguments[1], name);
  };
  if (is("count")) {
    reply.Integer(static_cast<int64_t>(Commands().size()));
  } else if (is("list")) {
    ListCommands(arguments, reply);
  } else if (is("docs")) {
    AnswerCommandDocs(arguments, reply);
  } else if (is("info") && arguments.size() - 2 > kMostNames) {
    reply.Error("ERR COMMAND INFO takes at most " + std::to_string(kMostNames) + " names here");
  } else if (is("info") && arguments.size() > 2) {
    reply.Array(arguments.size() - 2);
    for (auto name = arguments.begin() + 2; name != arguments.end(); ++name) {
      if (const Command* const command = FindCommand(*name)) {
        WriteCommand(*command, reply);
      } else {
        reply.Null();
      }
    }
  } else {
    reply.Array(Commands().size());
    for (const Command& one : Commands()) WriteCommand(one, reply);
  }
}

}  // namespace gossamer::gateway
