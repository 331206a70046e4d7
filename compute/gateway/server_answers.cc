#include "compute/gateway/server_answers.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/version.h"
#include "compute/gateway/command_table.h"
#include "compute/gateway/glob.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

uint64_t ResidentBytes() {
  uint64_t total = 0;
  uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

class Info {
 public:
  explicit Info(const std::vector<std::string_view>& arguments) : arguments_(arguments) {}

  // Begins a section of this name, in small letters. Returns whether it is asked for.
  bool Begin(std::string_view name, std::string_view title) {
    const auto is_this = [name](std::string_view one) {
      return IsWord(one, name) || IsWord(one, "all") || IsWord(one, "everything") ||
             IsWord(one, "default");
    };
    if (arguments_.size() > 1 && std::none_of(arguments_.begin() + 1, arguments_.end(), is_this)) {
      return false;
    }
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
    if (calls == 0) continue;
    const double microseconds = figures.latency_ns.Mean() * static_cast<double>(calls) / 1e3;
    info.Add(fmt::format("cmdstat_{}", Commands()[i].name),
             fmt::format(
                 "calls={},usec={:.0f},usec_per_call={:.2f},rejected_calls=0,failed_calls={}",
                 calls, microseconds, microseconds / static_cast<double>(calls), figures.errors));
  }
}

void WriteCommand(const Command& command, ReplyWriter& reply) {
  reply.Array(10);
  reply.Bulk(command.name);
  reply.Integer(command.arity);
  reply.Set(1);
  reply.Simple(command.is_write ? "write" : "readonly");
  reply.Integer(command.first_key);
  reply.Integer(command.last_key);
  reply.Integer(command.key_step);
  reply.Set(1);
  reply.Simple(command.is_write ? "@write" : "@read");
  // Tips, key specifications and subcommands.
  for (int i = 0; i < 3; ++i) reply.Array(0);
}

}  // namespace

std::string InfoText(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                     uint64_t clients, std::chrono::seconds uptime, const WorkerMetrics& metrics) {
  Info info(arguments);
  const WorkerFigures total = metrics.Total();
  if (info.Begin("server", "Server")) {
    info.Add("server_name", "gossamer");
    info.Add("redis_version", "7.0.0");  // whose protocol this is
    info.Add("gossamer_version", BuildVersion());
    info.Add("redis_mode", "standalone");
    info.Add("process_id", getpid());
    info.Add("uptime_in_seconds", uptime.count());
    info.Add("io_threads_active", metrics.workers());
  }
  if (info.Begin("clients", "Clients")) {
    info.Add("connected_clients", clients);
    info.Add("maxclients", options.max_clients);
    info.Add("blocked_clients", 0);
  }
  if (info.Begin("memory", "Memory")) {
    const uint64_t resident = ResidentBytes();
    info.Add("used_memory", resident);
    info.Add("used_memory_rss", resident);
    info.Add("maxmemory", 0);
    info.Add("maxmemory_policy", "noeviction");
  }
  if (info.Begin("stats", "Stats")) {
    uint64_t commands = 0;
    uint64_t errors = 0;
    for (const CommandFigures& one : total.commands) {
      commands += one.latency_ns.count();
      errors += one.errors;
    }
    info.Add("total_connections_received", total.clients.accepted);
    info.Add("total_commands_processed", commands);
    info.Add("total_net_input_bytes", total.clients.bytes_received);
    info.Add("total_net_output_bytes", total.clients.bytes_sent);
    info.Add("total_error_replies", errors);
    info.Add("acl_access_denied_auth", total.clients.failed_logins);
  }
  if (info.Begin("replication", "Replication")) {
    info.Add("role", "master");
    info.Add("connected_slaves", 0);
  }
  if (info.Begin("cpu", "CPU")) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    info.Add("used_cpu_sys", fmt::format("{:.6f}", Seconds(usage.ru_stime)));
    info.Add("used_cpu_user", fmt::format("{:.6f}", Seconds(usage.ru_utime)));
  }
  if (info.Begin("commandstats", "Commandstats")) AddCommands(total, info);
  // How many keys there are, DBSIZE counts: it reads them all.
  if (info.Begin("keyspace", "Keyspace")) {
  }
  return info.Take();
}

void AnswerConfig(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                  ReplyWriter& reply) {
  if (!IsWord(arguments[1], "get") || arguments.size() < 3) {
    reply.Error("ERR this gateway is configured by its flags: CONFIG has GET only");
    return;
  }
  const std::array<std::pair<std::string_view, std::string>, 10> settings = {{
      {"appendonly", "no"},
      {"databases", "1"},
      {"maxclients", std::to_string(options.max_clients)},
      {"maxmemory", "0"},
      {"maxmemory-policy", "noeviction"},
      {"proto-max-bulk-len", std::to_string(kMaxValueBytes)},
      {"save", ""},
      {"slowlog-log-slower-than", std::to_string(options.slow_log.slower_than_us)},
      {"slowlog-max-len", std::to_string(options.slow_log.entries)},
      {"timeout", "0"},
  }};
  const auto is_asked_for = [&](const auto& setting) {
    return std::any_of(arguments.begin() + 2, arguments.end(), [&](std::string_view pattern) {
      return IsWord(pattern, setting.first) || MatchesGlob(pattern, setting.first);
    });
  };
  reply.Map(static_cast<size_t>(std::ranges::count_if(settings, is_asked_for)));
  for (const auto& setting : settings) {
    if (!is_asked_for(setting)) continue;
    reply.Bulk(setting.first);
    reply.Bulk(setting.second);
  }
}

void AnswerCommand(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  const std::string_view which = arguments.size() > 1 ? arguments[1] : std::string_view();
  if (arguments.size() == 2 && IsWord(which, "count")) {
    reply.Integer(static_cast<int64_t>(Commands().size()));
  } else if (arguments.size() == 2 && IsWord(which, "list")) {
    reply.Array(Commands().size());
    for (const Command& one : Commands()) reply.Bulk(one.name);
  } else if (arguments.size() > 1 && IsWord(which, "docs")) {
    reply.Map(0);
  } else if (arguments.size() > 2 && IsWord(which, "info")) {
    reply.Array(arguments.size() - 2);
    for (auto name = arguments.begin() + 2; name != arguments.end(); ++name) {
      if (const Command* const command = FindCommand(*name)) {
        WriteCommand(*command, reply);
      } else {
        reply.NullArray();
      }
    }
  } else if (arguments.size() == 1 || (arguments.size() == 2 && IsWord(which, "info"))) {
    reply.Array(Commands().size());
    for (const Command& one : Commands()) WriteCommand(one, reply);
  } else {
    reply.Error("ERR COMMAND has COUNT, LIST, DOCS and INFO here");
  }
}

}  // namespace gossamer::gateway
