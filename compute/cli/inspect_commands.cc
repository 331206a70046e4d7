// check and stat: the state of the tree and its memory servers.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "common/text/text_table.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

std::string Hex(uint64_t number) { return fmt::format("{:016x}", number); }

void WriteRow(std::ostream& out, std::string_view name, std::string_view value,
              std::string_view remark = {}) {
  std::string line = "  " + std::string(name);
  line.append(22 - std::min<size_t>(line.size(), 22), ' ');
  line.append(16 - std::min<size_t>(ShownWidth(value), 16), ' ');
  line += value;
  if (!remark.empty()) line += "   " + std::string(remark);
  out << line << '\n';
}

std::string PlainProblems(const CheckReport& report) {
  if (report.problem_count == 0) return "no problem found";
  std::string problems = HumanQuantity(report.problem_count, "problem") + " found";
  if (report.locks_held == 0) return problems;
  // A writing client holds locks and changes the tree during the walk: neither need be damage.
  const std::string locks = HumanQuantity(report.locks_held, "lock") + " held";
  return (report.problem_count == report.locks_held
              ? "no problem found but " + locks + " by clients that live"
              : problems + ", but somebody may be writing (" + locks + ")") +
         ": check again while nobody writes";
}

void WriteCheckText(const Context& context, const CheckReport& report) {
  std::ostream& out = context.out;
  out << "store " << context.store_name << ": " << PlainProblems(report) << "\n\n";
  WriteRow(out, "keys", HumanCount(report.keys),
           HumanBytes(report.key_bytes) +
               (report.keys == 0 ? ""
                                 : ", " +
                                       FixedDecimals(static_cast<double>(report.key_bytes) /
                                                         static_cast<double>(report.keys),
                                                     1) +
                                       " B each"));
  WriteRow(out, "levels", HumanCount(report.levels));
  WriteRow(out, "leaves", HumanCount(report.leaves),
           report.keys == 0 ? ""
                            : FixedDecimals(report.keys_per_leaf(), 1) + " keys each, " +
                                  FixedDecimals(report.leaf_bytes_per_key, 1) + " B a key");
  WriteRow(out, "internal nodes", HumanCount(report.internal_nodes));
  WriteRow(out, "keys in overflow", HumanCount(report.overflow_keys),
           report.keys == 0 ? ""
                            : FixedDecimals(100.0 * static_cast<double>(report.overflow_keys) /
                                                static_cast<double>(report.keys),
                                            1) +
                                  " %");
  WriteRow(out, "values in leaves", HumanBytes(report.inline_value_bytes));
  WriteRow(out, "values in blocks", HumanBytes(report.block_value_bytes),
           report.blocks == 0 ? "" : HumanQuantity(report.blocks, "block"));
  for (const auto& [server, nodes] : report.nodes_per_server) {
    WriteRow(out, fmt::format("nodes on server {}", server), HumanCount(nodes));
  }
  WriteRow(out, "locks held", HumanCount(report.locks_held));
  if (report.locks_of_the_dead != 0) {
    WriteRow(out, "locks of the dead", HumanCount(report.locks_of_the_dead), "released now");
  }
  WriteRow(out, "missing downlinks", HumanCount(report.missing_downlinks),
           report.missing_downlinks == 0 ? "" : "reached by their siblings: slower, not wrong");
  if (report.problem_count == 0) return;
  out << "\nproblems:\n";
  for (const std::string& problem : report.problems) out << "  " << problem << '\n';
  if (report.problem_count > report.problems.size()) {
    out << "  and " << HumanCount(report.problem_count - report.problems.size()) << " more\n";
  }
}

Json CheckJson(const Context& context, const CheckReport& report) {
  Json nodes_per_server = Json::array();
  for (const auto& [server, nodes] : report.nodes_per_server) {
    nodes_per_server.push_back({{"server_id", server}, {"nodes", nodes}});
  }
  return {{"store", context.store_name},
          {"ok", report.problem_count == 0},
          {"keys", report.keys},
          {"leaves", report.leaves},
          {"internal_nodes", report.internal_nodes},
          {"levels", report.levels},
          {"blocks", report.blocks},
          {"key_bytes", report.key_bytes},
          {"inline_value_bytes", report.inline_value_bytes},
          {"block_value_bytes", report.block_value_bytes},
          {"overflow_keys", report.overflow_keys},
          {"keys_per_leaf", report.keys_per_leaf()},
          {"leaf_bytes_per_key", report.leaf_bytes_per_key},
          {"missing_downlinks", report.missing_downlinks},
          {"locks_held", report.locks_held},
          {"locks_of_the_dead", report.locks_of_the_dead},
          {"nodes_per_server", nodes_per_server},
          {"problem_count", report.problem_count},
          {"problems", report.problems}};
}

void WriteStatText(const Context& context, const StoreStat& stat) {
  std::ostream& out = context.out;
  const StoreParameters& parameters = stat.parameters;
  out << "store " << stat.store << " (id " << Hex(stat.store_id) << ") on fabric " << stat.fabric
      << ", " << HumanQuantity(stat.levels, "level") << '\n'
      << "nodes of " << parameters.node_bytes << " B; keys up to " << parameters.max_key_bytes
      << " B; values up to " << parameters.inline_value_bytes << " B in the leaves, up to "
      << ExactBytes(kMaxValueBytes) << " in blocks\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"server", "address", "memory", "nodes", "values", "free", "used", "clients", "locks"}};
  std::string sentences;
  for (const ServerStat& server : stat.servers) {
    if (!server.unreachable.empty()) {
      rows.push_back({std::to_string(server.server_id), server.address, "out of reach", "", "", "",
                      "", "", ""});
      sentences += '\n' + server.unreachable + '\n';
      continue;
    }
    const double used = server.heap_bytes == 0
                            ? 0
                            : 100.0 - 100.0 * static_cast<double>(server.free_bytes) /
                                          static_cast<double>(server.heap_bytes);
    rows.push_back({std::to_string(server.server_id), server.address, HumanBytes(server.heap_bytes),
                    HumanBytes(server.node_extent_bytes), HumanBytes(server.block_extent_bytes),
                    HumanBytes(server.free_bytes), FixedDecimals(used, 1) + " %",
                    std::to_string(server.compute_servers),
                    server.locks_on_chip ? "on the NIC" : "in DRAM"});
  }
  out << TextTable(rows, {1, 8}) << sentences;
}

Json StatJson(const StoreStat& stat) {
  Json servers = Json::array();
  for (const ServerStat& server : stat.servers) {
    if (!server.unreachable.empty()) {
      servers.push_back({{"server_id", server.server_id},
                         {"address", server.address},
                         {"unreachable", server.unreachable}});
      continue;
    }
    servers.push_back({{"server_id", server.server_id},
                       {"address", server.address},
                       {"heap_bytes", server.heap_bytes},
                       {"free_bytes", server.free_bytes},
                       {"node_extent_bytes", server.node_extent_bytes},
                       {"block_extent_bytes", server.block_extent_bytes},
                       {"compute_servers", server.compute_servers},
                       {"locks_on_chip", server.locks_on_chip}});
  }
  return {{"store", stat.store},
          {"store_id", Hex(stat.store_id)},
          {"fabric", stat.fabric},
          {"levels", stat.levels},
          {"parameters",
           {{"node_bytes", stat.parameters.node_bytes},
            {"max_key_bytes", stat.parameters.max_key_bytes},
            {"inline_value_bytes", stat.parameters.inline_value_bytes}}},
          {"servers", servers}};
}

int RunCheck(const Context& context) {
  Progress progress(
      {.verb = "checking", .unit = "leaves", .enabled = context.options.show_progress});
  const Result<CheckReport> report =
      context.store.Check([&](uint64_t leaves) { progress.Update(leaves); });
  progress.Finish();
  if (!report) return Fail(context, report.error());
  if (context.options.json) {
    WriteJson(context.out, CheckJson(context, report.value()));
  } else {
    WriteCheckText(context, report.value());
  }
  return report.value().problem_count == 0 ? kExitSuccess : kExitFailure;
}

int RunStat(const Context& context) {
  const Result<StoreStat> stat = context.store.Stat();
  if (!stat) return Fail(context, stat.error());
  if (context.options.json) {
    WriteJson(context.out, StatJson(stat.value()));
  } else {
    WriteStatText(context, stat.value());
  }
  return kExitSuccess;
}

}  // namespace

Command CheckCommand() {
  return {.name = "check",
          .arguments = "",
          .summary = "walk the whole tree and verify every invariant",
          .details =
              "Meaningful while nobody writes: writers hold locks, which it counts as problems.\n"
              "Exit status 1 if there is a problem.\n",
          .run = RunCheck};
}

Command StatCommand() {
  return {.name = "stat",
          .arguments = "",
          .summary = "show the store's parameters and its memory servers",
          .details = "",
          .run = RunStat};
}

}  // namespace gossamer::cli
