// stat: the store's parameters, its memory servers, and what their memory is used for.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "common/text/text_table.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

// From so much on, a memory server is nearly full.
constexpr double kNearlyFull = 90;

std::string Hex(uint64_t number) { return fmt::format("{:016x}", number); }

double PercentOf(uint64_t bytes, const ServerStat& server) {
  if (server.heap_bytes == 0) return 0;
  return 100.0 * static_cast<double>(bytes) / static_cast<double>(server.heap_bytes);
}

double PercentUsed(const ServerStat& server) {
  return PercentOf(server.heap_bytes - std::min(server.free_bytes, server.heap_bytes), server);
}

// What to do about the memory of a server; empty if nothing. `use`: nullptr if it was not measured.
std::string Advice(const ServerStat& server, const MemoryUse* use) {
  std::string advice;
  if (use != nullptr && use->lost_bytes != 0) {
    advice +=
        fmt::format("server {} has lost {} to clients that died: `gossamer sweep` gives it back\n",
                    server.server_id, HumanBytes(use->lost_bytes));
  }
  if (PercentUsed(server) < kNearlyFull) return advice;
  if (use != nullptr && PercentUsed(server) - PercentOf(use->kept_bytes, server) < kNearlyFull) {
    advice += fmt::format(
        "server {} is nearly full, but clients only keep {} of it: they give that back within a "
        "few seconds once a write is refused for lack of memory\n",
        server.server_id, HumanBytes(use->kept_bytes));
  } else {
    advice += fmt::format(
        "server {} is nearly full: delete keys, or start another memory server for this store\n",
        server.server_id);
  }
  return advice;
}

std::vector<std::string> Headings(bool is_measured) {
  if (is_measured) {
    return {"server",  "address", "memory", "live",    "free", "kept",
            "waiting", "lost",    "used",   "clients", "locks"};
  }
  return {"server",  "address",         "memory", "nodes",   "values", "free",
          "waiting", "of past clients", "used",   "clients", "locks"};
}

std::vector<std::string> Row(const ServerStat& server, const MemoryUse* use) {
  std::vector<std::string> row = {std::to_string(server.server_id), server.address};
  if (!server.unreachable.empty()) {
    row.insert(row.end(), {"out of reach", "", "", "", "", "", "", "", ""});
    return row;
  }
  row.push_back(HumanBytes(server.heap_bytes));
  if (use != nullptr) {
    for (const uint64_t bytes :
         {use->live_bytes, use->free_bytes, use->kept_bytes, use->waiting_bytes, use->lost_bytes}) {
      row.push_back(HumanBytes(bytes));
    }
  } else {
    for (const uint64_t bytes : {server.node_extent_bytes, server.block_extent_bytes,
                                 server.free_bytes, server.waiting_bytes, server.orphaned_bytes}) {
      row.push_back(HumanBytes(bytes));
    }
  }
  row.insert(
      row.end(),
      {FixedDecimals(PercentUsed(server), 1) + " %", std::to_string(server.compute_servers),
       HumanBytes(server.lock_table_bytes) + (server.locks_on_chip ? " on the NIC" : " in DRAM")});
  return row;
}

const MemoryUse* Find(const std::optional<StoreUse>& use, const ServerStat& server) {
  if (!use) return nullptr;
  const auto found = use->servers.find(server.server_id);
  return found == use->servers.end() ? nullptr : &found->second;
}

// ", about 1,990,000 keys (estimated; `gossamer check` counts them)"
std::string Keys(const StoreUse& use) {
  if (!use.keys_are_estimated) return ", " + HumanQuantity(use.keys, "key");
  // No more digits than are likely to be right.
  uint64_t unit = 1;
  while (use.keys / unit >= 1000) unit *= 10;
  return ", about " + HumanQuantity((use.keys + unit / 2) / unit * unit, "key") +
         " (estimated; `gossamer check` counts them)";
}

void WriteText(const Context& context, const StoreStat& stat, const std::optional<StoreUse>& use) {
  std::ostream& out = context.out;
  const StoreParameters& parameters = stat.parameters;
  out << "store " << stat.store << " (id " << Hex(stat.store_id) << ") on fabric " << stat.fabric
      << ", " << HumanQuantity(stat.levels, "level") << (use ? Keys(*use) : "") << '\n'
      << "nodes of " << parameters.node_bytes << " B; keys up to " << parameters.max_key_bytes
      << " B; values up to " << parameters.inline_value_bytes << " B in the leaves, up to "
      << ExactBytes(kMaxValueBytes) << " in blocks\n\n";
  std::vector<std::vector<std::string>> rows = {Headings(use.has_value())};
  std::string sentences;
  for (const ServerStat& server : stat.servers) {
    const MemoryUse* memory = Find(use, server);
    rows.push_back(Row(server, memory));
    if (!server.unreachable.empty()) {
      sentences += server.unreachable + '\n';
    } else {
      sentences += Advice(server, memory);
      if (!server.lock_table_why.empty()) {
        sentences += fmt::format("server {}: locks are {}, as {}\n", server.server_id,
                                 server.locks_on_chip ? "fewer" : "in DRAM", server.lock_table_why);
      }
    }
  }
  out << TextTable(rows, {1, 10});
  if (!sentences.empty()) out << '\n' << sentences;
}

Json ServerJson(const ServerStat& server, const MemoryUse* use) {
  Json json = {{"server_id", server.server_id}, {"address", server.address}};
  if (!server.unreachable.empty()) {
    json["unreachable"] = server.unreachable;
    return json;
  }
  json["heap_bytes"] = server.heap_bytes;
  json["free_bytes"] = use == nullptr ? server.free_bytes : use->free_bytes;
  json["waiting_bytes"] = use == nullptr ? server.waiting_bytes : use->waiting_bytes;
  if (use != nullptr) {
    json["live_bytes"] = use->live_bytes;
    json["kept_bytes"] = use->kept_bytes;
    json["lost_bytes"] = use->lost_bytes;
  }
  json["node_extent_bytes"] = server.node_extent_bytes;
  json["block_extent_bytes"] = server.block_extent_bytes;
  json["orphaned_bytes"] = server.orphaned_bytes;
  json["compute_servers"] = server.compute_servers;
  json["locks_on_chip"] = server.locks_on_chip;
  json["lock_table_bytes"] = server.lock_table_bytes;
  json["lock_table_why"] = server.lock_table_why;
  return json;
}

Json StatJson(const StoreStat& stat, const std::optional<StoreUse>& use) {
  Json servers = Json::array();
  for (const ServerStat& server : stat.servers) {
    servers.push_back(ServerJson(server, Find(use, server)));
  }
  Json json = {{"store", stat.store},
               {"store_id", Hex(stat.store_id)},
               {"fabric", stat.fabric},
               {"levels", stat.levels}};
  if (use) {
    json["keys"] = use->keys;
    json["keys_are_estimated"] = use->keys_are_estimated;
  }
  json["parameters"] = {{"node_bytes", stat.parameters.node_bytes},
                        {"max_key_bytes", stat.parameters.max_key_bytes},
                        {"inline_value_bytes", stat.parameters.inline_value_bytes}};
  json["servers"] = std::move(servers);
  return json;
}

int RunStat(const Context& context) {
  const Result<StoreStat> stat = context.store->Stat();
  if (!stat) return Fail(context, stat.error());
  std::optional<StoreUse> use;
  const bool are_reachable = std::ranges::all_of(
      stat.value().servers, [](const ServerStat& server) { return server.unreachable.empty(); });
  if (!context.options.quick && are_reachable) {
    Progress progress({.verb = "reading", .unit = "nodes"});
    Result<StoreUse> measured =
        context.store->MeasureMemory([&](uint64_t nodes) { progress.Update(nodes); });
    progress.Finish();
    if (!measured) return Fail(context, measured.error());
    use = std::move(measured.value());
  }
  if (context.options.json) {
    WriteJson(context.out, StatJson(stat.value(), use));
  } else {
    WriteText(context, stat.value(), use);
  }
  return kExitSuccess;
}

}  // namespace

Command StatCommand() {
  return {
      .name = "stat",
      .arguments = "",
      .summary = "show the memory servers, their memory, and how many keys there are",
      .details =
          R"(live: nodes and values of the tree. kept: at hand for the next writes of clients. waiting:
freed, until no client can use it any more. lost: left by dead clients; `sweep` gives it back.
Reads the inner nodes of the tree, and its leaves if values are in blocks: then keys are counted,
else their number is estimated from a sample of 400 leaves. With --quick, reads nothing, and shows
what was handed out for nodes and for values, and what clients hold that have closed or died,
live data included (of past clients).
If a memory server is out of reach, as with --quick.
)",
      .flags = {"quick"},
      .run = RunStat};
}

}  // namespace gossamer::cli
