// repair: makes a store whole again after memory servers were lost and forgotten.
#include <fmt/core.h>

#include <string>

#include "common/program/flags_main.h"
#include "common/text/escape.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

// The others are in the JSON.
constexpr size_t kMostRanges = 10;

Json RepairJson(const Context& context, const RepairReport& report) {
  Json ranges = Json::array();
  for (const KeyRange& range : report.ranges) {
    Json one = Json::object();
    AddBytes(one, "from", range.from);
    if (range.to) AddBytes(one, "to", *range.to);
    ranges.push_back(std::move(one));
  }
  return {{"store", context.open.store},
          {"dry_run", context.options.dry_run},
          {"lost_servers", report.lost_servers},
          {"lost_leaves", report.lost_leaves},
          {"lost_internal_nodes", report.lost_internal_nodes},
          {"lost_keys_estimated", report.lost_keys},
          {"lost_values", report.lost_values},
          {"lost_bytes", report.lost_bytes},
          {"keys", report.keys},
          {"ranges", ranges}};
}

std::string ServersOf(const RepairReport& report) {
  std::string text = report.lost_servers.size() == 1 ? "memory server " : "memory servers ";
  for (size_t i = 0; i < report.lost_servers.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(report.lost_servers[i]);
  }
  return text;
}

void WriteRepairText(const Context& context, const RepairReport& report) {
  std::ostream& out = context.out;
  out << "store " << context.open.store << ": ";
  if (report.lost_leaves + report.lost_internal_nodes + report.lost_values == 0) {
    out << "nothing is lost; " << HumanQuantity(report.keys, "key") << '\n';
    return;
  }
  out << ServersOf(report) << (report.lost_servers.size() == 1 ? " is" : " are") << " gone\n"
      << "  lost with " << HumanQuantity(report.lost_leaves, "leaf", "leaves") << ": about "
      << HumanQuantity(report.lost_keys, "key") << ", in "
      << HumanQuantity(report.ranges.size(), "range") << " of keys\n"
      << "  lost with value blocks: " << HumanQuantity(report.lost_values, "key") << '\n'
      << "  lost in all: " << HumanBytes(report.lost_bytes) << '\n'
      << "  left: " << HumanQuantity(report.keys, "key") << '\n';
  if (report.lost_internal_nodes != 0) {
    out << "  lost internal nodes: " << HumanCount(report.lost_internal_nodes)
        << (context.options.dry_run ? ", in whose ranges more leaves may be left" : "") << '\n';
  }
  for (size_t i = 0; i < report.ranges.size() && i < kMostRanges; ++i) {
    const KeyRange& range = report.ranges[i];
    out << "  lost: keys from " << Quoted(range.from)
        << (range.to ? " up to " + Quoted(*range.to) : " on") << '\n';
  }
  if (report.ranges.size() > kMostRanges) {
    out << "  and " << HumanQuantity(report.ranges.size() - kMostRanges, "more range")
        << ": --json lists all\n";
  }
  out << (context.options.dry_run
              ? "Nothing was changed. `gossamer repair` makes these ranges empty.\n"
              : "The ranges are empty now, and can be written again.\n");
}

int RunRepair(const Context& context) {
  Progress progress({.verb = "repairing", .unit = "nodes"});
  const Result<RepairReport> report =
      context.store->Repair(context.options.dry_run, [&](uint64_t nodes) {
        progress.Update(nodes);
        return !context.stop.raised();
      });
  progress.Finish();
  if (!report) return Fail(context, report.error());
  if (report.value().was_stopped) {
    context.err << "gossamer: stopped; `gossamer repair` goes on\n";
    return context.stop.exit_code();
  }
  if (context.options.json) {
    WriteJson(context.out, RepairJson(context, report.value()));
  } else {
    WriteRepairText(context, report.value());
  }
  return kExitSuccess;
}

}  // namespace

Command RepairCommand() {
  return {
      .name = "repair",
      .arguments = "",
      .summary = "mend a store that has lost a memory server",
      .details =
          "For a store of which a memory server other than server 0 is gone for good, and was\n"
          "taken out of the record (gossamer-memory --forget_dead). What it held is lost: the\n"
          "ranges of keys of its leaves become empty, and keys whose values it held are deleted.\n"
          "Others may work meanwhile. With --dry_run, says what is lost and changes nothing;\n"
          "`gossamer dump --salvage` writes what is left to a file.\n",
      .flags = {"dry_run"},
      .stops_cleanly = true,
      .run = RunRepair};
}

}  // namespace gossamer::cli
