// check and sweep: the state of the tree and its memory.
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

void WriteRow(std::ostream& out, std::string_view name, std::string_view value,
              std::string_view remark = {}) {
  out << fmt::format("  {:<20}{:>16}{}{}\n", name, value, remark.empty() ? "" : "   ", remark);
}

// "4.2", of a `number` above 0.
std::string Each(uint64_t total, uint64_t number) {
  return FixedDecimals(static_cast<double>(total) / static_cast<double>(number), 1);
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
  out << "store " << context.open.store << ": " << PlainProblems(report) << "\n\n";
  WriteRow(out, "keys", HumanCount(report.keys),
           HumanBytes(report.key_bytes) +
               (report.keys == 0 ? "" : ", " + Each(report.key_bytes, report.keys) + " B each"));
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
  for (const auto& [server, memory] : report.memory) {
    WriteRow(
        out, fmt::format("memory of server {}", server), HumanBytes(memory.heap_bytes),
        fmt::format("live {}, free {}, kept {}, waiting {}, lost {}", HumanBytes(memory.live_bytes),
                    HumanBytes(memory.free_bytes), HumanBytes(memory.kept_bytes),
                    HumanBytes(memory.waiting_bytes), HumanBytes(memory.lost_bytes)));
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
  Json memory = Json::array();
  for (const auto& [server, use] : report.memory) {
    memory.push_back({{"server_id", server},
                      {"heap_bytes", use.heap_bytes},
                      {"live_bytes", use.live_bytes},
                      {"free_bytes", use.free_bytes},
                      {"kept_bytes", use.kept_bytes},
                      {"waiting_bytes", use.waiting_bytes},
                      {"lost_bytes", use.lost_bytes}});
  }
  return {{"store", context.open.store},
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
          {"memory", memory},
          {"problem_count", report.problem_count},
          {"problems", report.problems}};
}

int RunCheck(const Context& context) {
  Progress progress({.verb = "checking", .unit = "leaves"});
  const Result<CheckReport> report =
      context.store->Check([&](uint64_t leaves) { progress.Update(leaves); });
  progress.Finish();
  if (!report) return Fail(context, report.error());
  if (context.options.json) {
    WriteJson(context.out, CheckJson(context, report.value()));
  } else {
    WriteCheckText(context, report.value());
  }
  return report.value().problem_count == 0 ? kExitSuccess : kExitFailure;
}

std::string_view NameOf(SweepProgress::Step step) {
  switch (step) {
    case SweepProgress::Step::kList: return "listing memory";
    case SweepProgress::Step::kFirstEpoch:
    case SweepProgress::Step::kSecondEpoch: return "waiting for operations to end";
    case SweepProgress::Step::kTree: return "reading the tree";
    case SweepProgress::Step::kGiveBack: return "giving memory back";
  }
  return "";
}

int RunSweep(const Context& context) {
  Progress progress({.verb = "sweeping", .unit = "nodes"});
  const Result<SweepReport> report = context.store->Sweep([&](const SweepProgress& at) {
    progress.Update(at.nodes, std::string(NameOf(at.step)) +
                                  (at.waits_for.empty() ? "" : " of " + at.waits_for));
    return true;
  });
  progress.Finish();
  if (!report) return Fail(context, report.error());
  Json servers = Json::array();
  for (const auto& [server, memory] : report.value().servers) {
    servers.push_back({{"server_id", server},
                       {"swept_bytes", memory.swept_bytes},
                       {"left_bytes", memory.left_bytes}});
    if (context.options.json) continue;
    context.out << fmt::format("server {}: {} given back", server, HumanBytes(memory.swept_bytes));
    if (memory.left_bytes != 0) {
      context.out << fmt::format(
          "; {} left, of clients that are gone from it, but not from other servers",
          HumanBytes(memory.left_bytes));
    }
    context.out << '\n';
  }
  if (context.options.json) {
    WriteJson(context.out, {{"store", context.open.store}, {"servers", servers}});
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

Command SweepCommand() {
  return {
      .name = "sweep",
      .arguments = "",
      .summary = "give back memory that dead clients left behind",
      .details =
          "Others may work meanwhile. Reads the whole tree once, a node at a time. `check` tells\n"
          "how much is lost. All memory servers must be reachable.\n",
      .run = RunSweep};
}

}  // namespace gossamer::cli
