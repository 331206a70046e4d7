// CONFIG GET and CONFIG SET.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "common/admin/listen_address.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/commands/server_answers.h"
#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/words.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

using Arguments = std::vector<std::string_view>;

constexpr std::string_view kSlowerThan = "slowlog-log-slower-than";
constexpr std::string_view kMostEntries = "slowlog-max-len";
constexpr std::string_view kEvents = "notify-keyspace-events";
constexpr size_t kMostPatterns = 1024;  // of one CONFIG GET

struct Setting {
  std::string_view name;
  std::string value;
};

// The hosts that are listened on, with blanks between them.
std::string Hosts(const GatewayOptions& options) {
  std::string hosts;
  for (const auto* const addresses : {&options.listen, &options.listen_tls}) {
    for (const std::string& one : *addresses) {
      const Result<ListenAddress> address = ParseListenAddress(one);
      if (address) hosts += (hosts.empty() ? "" : " ") + address.value().host;
    }
  }
  return hosts;
}

std::array<Setting, 15> Settings(const GatewayOptions& options, uint16_t port,
                                 const SlowLog& slow_log) {
  const SlowLog::Limits limits = slow_log.limits();
  return {{
      {"appendonly", "no"},
      {"bind", Hosts(options)},
      {"databases", "1"},
      {"maxclients", std::to_string(options.max_clients)},
      {"maxmemory", std::to_string(options.eviction ? options.eviction->limit_bytes.load() : 0)},
      {"maxmemory-policy", std::string(MaxMemoryPolicyOf(options))},
      {kEvents, ""},
      {"port", std::to_string(port)},
      {"proto-max-bulk-len", std::to_string(kMaxValueBytes)},
      {"replica-read-only", "yes"},
      {"save", ""},
      {"slave-read-only", "yes"},
      {kSlowerThan, std::to_string(limits.slower_than_us)},
      {kMostEntries, std::to_string(limits.entries)},
      {"timeout", "0"},
  }};
}

void Get(const Arguments& arguments, const GatewayOptions& options, uint16_t port,
         const SlowLog& slow_log, ReplyWriter& reply) {
  const bool is_short = std::ranges::all_of(
      arguments, [](std::string_view one) { return one.size() <= kMostPatternBytes; });
  if (!is_short) return reply.Error(kPatternTooLong);
  if (arguments.size() - 2 > kMostPatterns) {
    return reply.Error("ERR CONFIG GET takes at most " + std::to_string(kMostPatterns) +
                       " patterns here");
  }
  const auto settings = Settings(options, port, slow_log);
  const auto is_asked_for = [&](const Setting& setting) {
    return std::any_of(arguments.begin() + 2, arguments.end(), [&](std::string_view pattern) {
      return IsWord(pattern, setting.name) || MatchesGlob(pattern, setting.name);
    });
  };
  reply.Map(static_cast<size_t>(std::ranges::count_if(settings, is_asked_for)));
  for (const Setting& setting : settings) {
    if (!is_asked_for(setting)) continue;
    reply.Pair(setting.name, setting.value);
  }
}

std::string Failed(std::string_view name, std::string_view why) {
  return fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}", name, why);
}

// Changes `limits` as the setting says. Returns the text of an error reply, or nothing.
std::string SetOne(std::string_view name, std::string_view value, const GatewayOptions& options,
                   uint16_t port, const SlowLog& slow_log, SlowLog::Limits& limits) {
  const auto settings = Settings(options, port, slow_log);
  const auto setting =
      std::ranges::find_if(settings, [name](const Setting& one) { return IsWord(name, one.name); });
  if (setting == settings.end()) {
    return fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                       name.substr(0, 128));
  }
  if (setting->name == kEvents) {
    return value.empty() ? std::string()
                         : Failed(kEvents, "there are no events of keys in Gossamer");
  }
  const bool is_time = setting->name == kSlowerThan;
  if (!is_time && setting->name != kMostEntries) {
    return Failed(setting->name, "can't set immutable config: flags configure this gateway");
  }
  const std::optional<int64_t> number = ParseInteger(value);
  const int64_t least = is_time ? -1 : 0;
  if (!number) return Failed(setting->name, "argument couldn't be parsed into an integer");
  if (*number < least) {
    return Failed(setting->name, fmt::format("argument must be between {} and {} inclusive", least,
                                             std::numeric_limits<int64_t>::max()));
  }
  if (is_time) {
    limits.slower_than_us = *number;
  } else {
    limits.entries = static_cast<size_t>(*number);
  }
  return {};
}

// All of them, or none.
void Set(const Arguments& arguments, const GatewayOptions& options, uint16_t port,
         SlowLog& slow_log, ReplyWriter& reply) {
  if (arguments.size() % 2 != 0) {
    return reply.Error(WrongNumberOfArguments("config|set"));
  }
  SlowLog::Limits limits = slow_log.limits();
  std::array<bool, 3> has_been_set{};
  for (size_t i = 2; i < arguments.size(); i += 2) {
    std::string error = SetOne(arguments[i], arguments[i + 1], options, port, slow_log, limits);
    bool& is_again = has_been_set[IsWord(arguments[i], kSlowerThan) ? 0
                                  : IsWord(arguments[i], kEvents)   ? 1
                                                                    : 2];
    if (error.empty() && is_again) error = Failed(arguments[i], "duplicate parameter");
    if (!error.empty()) return reply.Error(error);
    is_again = true;
  }
  slow_log.set_limits(limits);
  reply.Ok();
}

}  // namespace

void AnswerConfig(const Arguments& arguments, const GatewayOptions& options, uint16_t port,
                  SlowLog& slow_log, ReplyWriter& reply) {
  if (IsWord(arguments[1], "set")) {
    Set(arguments, options, port, slow_log, reply);
  } else {
    Get(arguments, options, port, slow_log, reply);
  }
}

}  // namespace gossamer::gateway
