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
#include "compute/cli/load_line.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

constexpr size_t kFlushBytes = 64 << 10;
constexpr uint64_t kProgressKeys = 256;

// Collects lines and writes them in blocks.
class LineWriter {
 public:
  enum class What : uint8_t {
    kKeys,
    kValues,   // with their keys
    kRecords,  // the same, and the times when keys expire: a dump
  };

  LineWriter(const Context& context, What what)
      : context_(context),
        what_(what),
        progress_({.verb = "dumping", .unit = "keys", .enabled = what == What::kRecords}) {}

  // Whether the output accepts more, and nobody has asked to stop.
  bool goes_on() const { return context_.out.good() && !context_.stop.raised(); }

  void Add(const KeyValueView& pair) {
    if (context_.options.json) {
      Json object;
      AddBytes(object, "key", pair.key);
      if (what_ != What::kKeys) AddBytes(object, "value", pair.value);
      if (!pair.expiry.is_never()) object["expires_at"] = pair.expiry.at_ms();
      if (pair.expiry.is_composite()) object["composite"] = true;
      text_ += object.dump();
    } else {
      AppendEscaped(pair.key, text_);
      if (what_ == What::kRecords) AppendExpiry(pair.expiry, text_);
      if (what_ != What::kKeys) {
        text_ += '\t';
        AppendEscaped(pair.value, text_);
      }
    }
    text_ += '\n';
    if (text_.size() >= kFlushBytes) Flush();
    if (++keys_ % kProgressKeys == 0) progress_.Update(keys_);
  }

  // Writes the rest. Returns the exit status, and says why it is no success: the output accepts no
  // more, or `is_stopped`, before all was read.
  int Finish(bool is_stopped) {
    Flush();
    progress_.Finish();
    if (!context_.out.good()) {
      context_.err << "gossamer: " << FlushOutput(context_.out).error().message << '\n';
      return kExitFailure;
    }
    if (!is_stopped) return kExitSuccess;
    context_.err << "gossamer: stopped after " << HumanQuantity(keys_, "key") << '\n';
    return context_.stop.exit_code();
  }

  uint64_t keys() const { return keys_; }
  uint64_t bytes() const { return bytes_; }
  double elapsed_seconds() const { return progress_.elapsed_seconds(); }

 private:
  void Flush() {
    context_.out.write(text_.data(), static_cast<std::streamsize>(text_.size())).flush();
    bytes_ += text_.size();
    text_.clear();
  }

  const Context& context_;
  const What what_;
  Progress progress_;
  std::string text_;
  uint64_t keys_ = 0;
  uint64_t bytes_ = 0;
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

// Returns the exit status.
int WriteAll(const Context& context, ScanCursor& cursor, LineWriter& writer) {
  bool more = true;
  while (writer.goes_on() && (more = cursor.Next())) {
    writer.Add({cursor.key(), cursor.value(), cursor.expiry()});
  }
  const int exit_status = writer.Finish(more);
  if (exit_status != kExitSuccess || cursor.status()) return exit_status;
  const int failed = Fail(context, cursor.status().error());
  context.err << "gossamer: " << HumanQuantity(writer.keys(), "key") << " printed before that\n";
  return failed;
}

// `dump --salvage` of a store of which the root cannot be read.
int DumpWithoutRoot(const Context& context) {
  std::ostream& err = context.err;
  err << "gossamer: the root cannot be read: looking for leaves in the memory of all servers\n";
  LineWriter writer(context, LineWriter::What::kRecords);
  const Result<SalvageReport> found = Store::Salvage(context.open, [&](const KeyValueView& pair) {
    writer.Add(pair);
    return writer.goes_on();
  });
  const int exit_status = writer.Finish(found && context.stop.raised());
  if (!found) return Fail(context, found.error());
  if (exit_status != kExitSuccess) return exit_status;
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

int RunScan(const Context& context) {
  Result<KeyRange> keys = ReadRange(context.options);
  if (!keys) return FailOnUsage(context, Sentence(keys.error()));
  ScanOptions range = context.options.scan;
  range.from = std::move(keys.value().from);
  range.to = std::move(keys.value().to);
  range.prefix = std::move(keys.value().prefix);
  LineWriter writer(context, range.keys_only ? LineWriter::What::kKeys : LineWriter::What::kValues);
  return WriteAll(context, *context.session->Scan(range), writer);
}

int RunDump(const Context& context) {
  if (context.store == nullptr) return DumpWithoutRoot(context);
  ScanOptions everything;
  everything.salvage = context.options.salvage;
  const std::unique_ptr<ScanCursor> cursor = context.session->Scan(everything);
  LineWriter writer(context, LineWriter::What::kRecords);
  const int exit_status = WriteAll(context, *cursor, writer);
  const std::span<const MissingKeys> missing = cursor->missing();
  if (exit_status == kExitSuccess && IsEverything(missing)) {
    context.err << "gossamer: " << Sentence(missing.front().why) << '\n';
    return DumpWithoutRoot(context);
  }
  if (context.out.good() && !missing.empty()) SayMissing(context, missing);
  if (exit_status != kExitSuccess) return exit_status;
  context.err << "gossamer: dumped " << HumanQuantity(writer.keys(), "key") << ", "
              << HumanBytes(writer.bytes()) << ", in " << HumanDuration(writer.elapsed_seconds())
              << (missing.empty() ? "\n" : "; what is missing is said above\n");
  return missing.empty() ? kExitSuccess : kExitFailure;
}

}  // namespace

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
          "With --json, an object a line. Of a key that expires, \\@ and the time, in milliseconds "
          "since 1970,\n"
          "follow the key: key\\@1800000000000<TAB>value; in JSON, expires_at. Hashes and sets of "
          "Redis clients\n"
          "have :composite behind that: key\\@:composite<TAB>value; in JSON, composite.\n"
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
