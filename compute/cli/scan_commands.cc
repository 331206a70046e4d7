// scan and dump: keys and values in order, as lines for load or as JSON.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/program/flags_main.h"
#include "common/program/standard_streams.h"
#include "common/text/escape.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

constexpr size_t kFlushBytes = 64 << 10;
constexpr uint64_t kProgressKeys = 256;

// Collects lines and writes them in blocks.
class LineWriter {
 public:
  LineWriter(std::ostream& out, bool json, bool keys_only)
      : out_(out), json_(json), keys_only_(keys_only) {}

  // Returns whether the output still accepts data.
  bool Add(std::string_view key, std::string_view value) {
    if (json_) {
      Json object;
      AddBytes(object, "key", key);
      if (!keys_only_) AddBytes(object, "value", value);
      text_ += object.dump();
    } else {
      AppendEscaped(key, text_);
      if (!keys_only_) {
        text_ += '\t';
        AppendEscaped(value, text_);
      }
    }
    text_ += '\n';
    return text_.size() < kFlushBytes || Flush();
  }

  bool Flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size())).flush();
    bytes_ += text_.size();
    text_.clear();
    return out_.good();
  }

  uint64_t bytes() const { return bytes_; }

 private:
  std::ostream& out_;
  const bool json_;
  const bool keys_only_;
  std::string text_;
  uint64_t bytes_ = 0;
};

struct Outcome {
  int exit_status = kExitSuccess;
  bool is_salvaged = false;  // everything reachable was written, and something was unreachable
  uint64_t keys = 0;
  uint64_t bytes = 0;
};

std::string Described(const MissingKeys& keys) {
  if (keys.to == keys.from + '\0') return "the key " + Quoted(keys.from);
  return "keys from " + Quoted(keys.from) + (keys.to ? " up to " + Quoted(*keys.to) : " on");
}

// Prints the first ranges to stderr, and for each reason how many there are. With `json` also
// prints an object for each range, one a line, to stdout.
void SayMissing(const Context& context, std::span<const MissingKeys> missing) {
  constexpr size_t kMostNamed = 10;
  std::map<std::string, uint64_t> reasons;
  for (size_t i = 0; i < missing.size(); ++i) {
    const MissingKeys& keys = missing[i];
    ++reasons[Sentence(keys.why)];
    if (i < kMostNamed) context.err << "gossamer: missing: " << Described(keys) << '\n';
    if (!context.options.json) continue;
    Json range;
    AddBytes(range, "from", keys.from);
    if (keys.to) AddBytes(range, "to", *keys.to);
    range["error"] = ErrorJson(keys.why);
    WriteJson(context.out, {{"missing", range}});
  }
  if (missing.size() > kMostNamed) {
    context.err << "gossamer: and " << HumanCount(missing.size() - kMostNamed)
                << " more: --json lists all\n";
  }
  for (const auto& [reason, count] : reasons) {
    context.err << "gossamer: " << HumanQuantity(count, "range") << " of keys missing: " << reason
                << '\n';
  }
}

// Whether nothing could be read, not even the root.
bool IsEverything(std::span<const MissingKeys> missing) {
  return missing.size() == 1 && missing.front().from.empty() && !missing.front().to;
}

Outcome WriteRange(const Context& context, const ScanOptions& range, Progress& progress) {
  const std::unique_ptr<ScanCursor> cursor = context.session.Scan(range);
  LineWriter writer(context.out, context.options.json, range.keys_only);
  Outcome outcome;
  bool writable = true;
  bool more = true;
  while (writable && !context.stop.raised() && (more = cursor->Next())) {
    writable = writer.Add(cursor->key(), cursor->value());
    if (++outcome.keys % kProgressKeys == 0) progress.Update(outcome.keys);
  }
  writable = writer.Flush() && writable;
  outcome.bytes = writer.bytes();
  progress.Finish();
  if (!writable) {
    const Status written = FlushOutput(context.out);
    context.err << "gossamer: " << written.error().message << '\n';
    outcome.exit_status = kExitFailure;
  } else if (!more && !cursor->status()) {
    outcome.exit_status = Fail(context, cursor->status().error());
    context.err << "gossamer: " << HumanQuantity(outcome.keys, "key") << " printed before that\n";
  } else if (more) {
    context.err << "gossamer: stopped after " << HumanQuantity(outcome.keys, "key") << '\n';
    outcome.exit_status = context.stop.exit_code();
  }
  const bool has_nothing = outcome.exit_status == kExitSuccess && IsEverything(cursor->missing());
  if (has_nothing && context.salvage) {
    context.err << "gossamer: " << Sentence(cursor->missing().front().why) << '\n';
    outcome.exit_status =
        DumpWithoutRoot(context.options, context.salvage, context.stop, context.out, context.err);
  } else if (writable && !cursor->missing().empty()) {
    SayMissing(context, cursor->missing());
    outcome.is_salvaged = outcome.exit_status == kExitSuccess;
    if (outcome.is_salvaged) outcome.exit_status = kExitFailure;
  }
  return outcome;
}

int RunScan(const Context& context) {
  Result<KeyRange> keys = ReadRange(context.options);
  if (!keys) return FailOnUsage(context, Sentence(keys.error()));
  ScanOptions range = context.options.scan;
  range.from = std::move(keys.value().from);
  range.to = std::move(keys.value().to);
  range.prefix = std::move(keys.value().prefix);
  Progress silent({.verb = "scanning", .unit = "keys", .enabled = false});
  return WriteRange(context, range, silent).exit_status;
}

int RunDump(const Context& context) {
  Progress progress({.verb = "dumping", .unit = "keys", .enabled = context.options.show_progress});
  ScanOptions everything;
  everything.salvage = context.options.salvage;
  const Outcome outcome = WriteRange(context, everything, progress);
  const bool is_whole = outcome.exit_status == kExitSuccess;
  if ((is_whole || outcome.is_salvaged) && context.options.show_progress) {
    context.err << "gossamer: dumped " << HumanQuantity(outcome.keys, "key") << ", "
                << HumanBytes(outcome.bytes) << ", in " << HumanDuration(progress.elapsed_seconds())
                << (is_whole ? "\n" : "; what is missing is said above\n");
  }
  return outcome.exit_status;
}

}  // namespace

int DumpWithoutRoot(const CommandOptions& options, const Salvage& salvage, const Stop& stop,
                    std::ostream& out, std::ostream& err) {
  err << "gossamer: the root cannot be read: looking for leaves in the memory of all servers\n";
  Progress progress({.verb = "dumping", .unit = "keys", .enabled = options.show_progress});
  LineWriter writer(out, options.json, false);
  uint64_t keys = 0;
  const Result<SalvageReport> found = salvage([&](std::string_view key, std::string_view value) {
    if (++keys % kProgressKeys == 0) progress.Update(keys);
    return writer.Add(key, value) && !stop.raised();
  });
  const bool is_written = writer.Flush();
  progress.Finish();
  if (!found) return Fail(out, err, options.json, found.error());
  if (!is_written) {
    err << "gossamer: " << FlushOutput(out).error().message << '\n';
    return kExitFailure;
  }
  if (stop.raised()) {
    err << "gossamer: stopped after " << HumanQuantity(keys, "key") << '\n';
    return stop.exit_code();
  }
  const SalvageReport& report = found.value();
  for (const auto& [server, why] : report.unreachable) {
    err << "gossamer: memory server " << server << " is lost: " << Sentence(why) << '\n';
  }
  err << "gossamer: dumped " << HumanQuantity(report.keys, "key") << " of "
      << HumanQuantity(report.leaves, "leaf", "leaves") << ", " << HumanBytes(writer.bytes())
      << ". Left out: " << HumanQuantity(report.lost_values, "key") << " whose values are lost, "
      << HumanQuantity(report.old_leaves, "leaf", "leaves") << " that others replaced, "
      << HumanQuantity(report.unknown_leaves, "leaf", "leaves")
      << " of unknown places. Some keys may be deleted ones, or have older values\n";
  return kExitFailure;
}

Command ScanCommand() {
  return {.name = "scan",
          .arguments = "",
          .summary = "list keys and values in order",
          .details =
              "Prints key<TAB>value lines, escaped as `dump` does, of the keys from --from "
              "(inclusive)\n"
              "to --to (exclusive), or of the keys that begin with --prefix.\n"
              "With --json, an object a line.\n",
          .flags = {"escaped", "from", "to", "prefix", "limit", "reverse", "keys_only"},
          .stops_cleanly = true,
          .run = RunScan};
}

Command DumpCommand() {
  return {
      .name = "dump",
      .arguments = "",
      .summary = "print the whole store in the form that load reads",
      .details =
          "Prints key<TAB>value lines in the order of the keys; any bytes survive dump and load.\n"
          "With --json, an object a line.\n"
          "What others write meanwhile is in it or not: it is no snapshot.\n"
          "Where a part of the store cannot be reached, --salvage writes the rest, says what is "
          "missing\n"
          "and why, and exits with 1. If the root cannot be read, it looks for leaves in the "
          "memory "
          "of all\n"
          "servers: some keys may be deleted ones then, or have older values.\n",
      .flags = {"salvage"},
      .stops_cleanly = true,
      .run = RunDump};
}

}  // namespace gossamer::cli
