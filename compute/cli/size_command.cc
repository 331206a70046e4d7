// size: its output. size.h describes what it does. Needs no running store.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/embedded_memory.h"
#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "common/text/text_table.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"
#include "compute/cli/size.h"

namespace gossamer::cli {
namespace {

std::string MemoryFlag(uint64_t bytes) {
  std::string text = ExactBytes(bytes);
  std::erase(text, ' ');
  return text;
}

std::string ServerCommand(const SizeChoice& choice) {
  return fmt::format(
      "gossamer-memory --memory={} --max_key_bytes={} --inline_value_bytes={} --node_bytes={}",
      MemoryFlag(choice.memory_bytes), choice.parameters.max_key_bytes,
      choice.parameters.inline_value_bytes, choice.parameters.node_bytes);
}

std::string_view OrderName(Arrival arrival) { return kArrivalNames[static_cast<size_t>(arrival)]; }

std::string Order(const Sizing& sizing, double fill) {
  switch (sizing.arrival) {
    case Arrival::kSorted: return fmt::format("loaded in order, fill {}", fill);
    case Arrival::kFile: return "put in the order of the file";
    default: return fmt::format("put in {} order", OrderName(sizing.arrival));
  }
}

std::string Title(const Sizing& sizing, const SizeOptions& options) {
  const std::string records = HumanQuantity(sizing.records, "record");
  const std::string order = Order(sizing, options.fill);
  if (!options.keys_file.empty()) {
    return fmt::format("{}: keys as in {}, on average {:.1f} B, values of {:.1f} B, {}", records,
                       options.keys_file, sizing.key_bytes, sizing.value_bytes, order);
  }
  return fmt::format("{}: {} keys of {} B, values of {} B, {}", records,
                     options.consecutive_keys ? "consecutive" : "random", sizing.key_bytes,
                     sizing.value_bytes, order);
}

std::string RoundTrips(double round_trips) {
  // As few digits as tell it from a whole number.
  const std::string text = FixedDecimals(round_trips, 2);
  return fmt::format("{} RT", text.ends_with(".00") ? text.substr(0, text.size() - 3) : text);
}

std::vector<std::string> Row(const SizeChoice& choice) {
  return {choice.is_inline ? "in leaves" : "in blocks",
          ExactBytes(choice.parameters.node_bytes),
          FixedDecimals(choice.record.memory(), 1),
          FixedDecimals(choice.record.leaves, 1),
          FixedDecimals(choice.record.blocks, 1),
          FixedDecimals(choice.record.internal_nodes, 1),
          HumanBytes(choice.servers * choice.memory_bytes),
          RoundTrips(choice.get_round_trips),
          fmt::format("{} RT", choice.put_round_trips)};
}

void WriteText(std::ostream& out, const Sizing& sizing, const SizeOptions& options) {
  const bool is_comparison = sizing.choices.size() > 1;
  TextRows rows = {
      {"values", "node", "bytes a record", "leaves", "blocks", "internal", "memory", "get", "put"}};
  for (const SizeChoice& choice : sizing.choices) rows.push_back(Row(choice));
  if (is_comparison) rows[1 + sizing.recommended].emplace_back("recommended");
  const SizeChoice& best = sizing.choices[sizing.recommended];
  out << Title(sizing, options) << "\nmeasured on "
      << HumanQuantity(sizing.measured_records, "record") << (is_comparison ? " a row" : "")
      << "; memory with a quarter of it free; RT: round trips\n\n"
      << TextTable(rows, {0, 9}) << '\n';
  if (!sizing.refused.empty()) out << "Not in leaves: " << sizing.refused << "\n\n";
  if (is_comparison) {
    out << "Recommended: the fewest round trips of a get within 1.5 times the least memory;\n"
           "of these nodes of 1 KiB, unless others save a tenth.\n\n";
  }
  if (best.servers > 1) {
    out << best.servers << " memory servers, as one has at most " << HumanBytes(kMostMemoryBytes)
        << ". For each:\n";
  }
  out << ServerCommand(best) << "\n\nThe records take " << HumanBytes(best.used_bytes) << ".";
  if (best.client_cache_bytes != 0) {
    out << " A client caches up to " << HumanBytes(best.client_cache_bytes)
        << " of internal nodes (--cache_bytes).";
  }
  out << '\n';
}

Json ChoiceJson(const SizeChoice& choice) {
  return {{"node_bytes", choice.parameters.node_bytes},
          {"max_key_bytes", choice.parameters.max_key_bytes},
          {"inline_value_bytes", choice.parameters.inline_value_bytes},
          {"values_in_leaves", choice.is_inline},
          {"bytes_per_record", choice.record.memory()},
          {"leaf_bytes_per_record", choice.record.leaves},
          {"block_bytes_per_record", choice.record.blocks},
          {"internal_bytes_per_record", choice.record.internal_nodes},
          {"used_bytes", choice.used_bytes},
          {"servers", choice.servers},
          {"memory_bytes", choice.memory_bytes},
          {"client_cache_bytes", choice.client_cache_bytes},
          {"get_round_trips", choice.get_round_trips},
          {"put_round_trips", choice.put_round_trips}};
}

Json SizingJson(const Sizing& sizing, const SizeOptions& options) {
  Json choices = Json::array();
  for (const SizeChoice& choice : sizing.choices) choices.push_back(ChoiceJson(choice));
  Json object = {{"records", sizing.records},
                 {"key_bytes", sizing.key_bytes},
                 {"value_bytes", sizing.value_bytes},
                 {"consecutive_keys", options.consecutive_keys},
                 {"order", OrderName(sizing.arrival)},
                 {"measured_records", sizing.measured_records},
                 {"headroom", kHeadroom},
                 {"choices", choices},
                 {"recommended", sizing.recommended},
                 {"command", ServerCommand(sizing.choices[sizing.recommended])}};
  if (!options.keys_file.empty()) object["keys"] = options.keys_file;
  if (sizing.arrival == Arrival::kSorted) object["sorted_fill"] = options.fill;
  if (!sizing.refused.empty()) object["not_in_leaves"] = sizing.refused;
  return object;
}

int RunSize(const Context& context) {
  const SizeOptions& options = context.options.size;
  const Result<Sizing> sizing = Size(options);
  if (!sizing) return FailToBegin(context, sizing.error());
  if (context.options.json) {
    WriteJson(context.out, SizingJson(sizing.value(), options));
  } else {
    WriteText(context.out, sizing.value(), options);
  }
  return kExitSuccess;
}

}  // namespace

Command SizeCommand() {
  return {
      .name = "size",
      .arguments = "",
      .summary = "how much memory records need, and which parameters",
      .details =
          "  gossamer size --records=1000000 --key_bytes=16 --value_bytes=100\n"
          "  gossamer size --keys=FILE --value_bytes=100 --order=ascending\n"
          "\n"
          "Needs no running store. Puts a sample of the records into a store inside this process,\n"
          "counts what it takes, and multiplies: within about 2 s and 200 MiB. Values up to 64 B\n"
          "can be in the leaves (--inline_value_bytes): a get then takes one round trip. Others\n"
          "are in blocks, and it takes two. --inline_value_bytes and --node_bytes are compared if\n"
          "they are not given. A quarter of the memory stays free, for leaves that deletes make\n"
          "emptier and for chunks that clients keep.\n"
          "--keys=FILE has the records, or some of them, in the lines that `load` takes (--raw as\n"
          "there). The values are as long as there, or as --value_bytes says. --records=N: there\n"
          "will be so many.\n"
          "--order: how records come: random (the default), ascending or descending keys, sorted\n"
          "(load --sorted, leaves as full as --fill says), or file: as the lines of the file do.\n"
          "docs/sizing.md says more.\n",
      .flags = {"records", "keys", "raw", "order", "key_bytes", "value_bytes", "consecutive_keys",
                "sorted", "fill", "max_key_bytes", "inline_value_bytes", "node_bytes"},
      .needs_store = false,
      .run = RunSize};
}

}  // namespace gossamer::cli
