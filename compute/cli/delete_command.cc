// delete: one key, or all keys of a range.
#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

int DeleteKey(const Context& context) {
  const Result<std::string> key = ReadArgument(context.arguments[0], context.options.escaped);
  if (!key) return FailOnUsage(context, Sentence(key.error()));
  const Status status = context.session->Delete(key.value());
  if (!status) return FailOnKey(context, key.value(), status.error());
  SayDone(context, key.value(), "deleted");
  return kExitSuccess;
}

int DeleteRange(const Context& context) {
  const Result<KeyRange> range = ReadRange(context.options);
  if (!range) return FailOnUsage(context, Sentence(range.error()));
  Progress progress({.verb = "deleting", .unit = "keys"});
  const RangeDeletion done = context.session->DeleteRange(range.value(), [&](uint64_t deleted) {
    progress.Update(deleted);
    return !context.stop.raised();
  });
  progress.Finish();
  const std::string deleted = HumanQuantity(done.deleted, "key");
  if (!done.status) {
    if (context.options.json) {
      WriteJson(context.out,
                {{"error", ErrorJson(done.status.error())}, {"deleted", done.deleted}});
    }
    context.err << "gossamer: " << Sentence(done.status.error()) << '\n'
                << "gossamer: " << deleted << " deleted before that\n";
    return kExitFailure;
  }
  if (context.options.json) {
    WriteJson(context.out, {{"deleted", done.deleted}});
  } else {
    context.out << "deleted " << deleted << '\n';
  }
  if (!context.stop.raised()) return kExitSuccess;
  context.err << "gossamer: stopped; some keys may be left\n";
  return context.stop.exit_code();
}

int RunDelete(const Context& context) {
  const CommandOptions& options = context.options;
  if (!options.empty_bound.empty()) {
    return FailOnUsage(context, "--" + options.empty_bound +
                                    " is empty: leave it out, or give --all to delete every key");
  }
  const bool is_range =
      !options.scan.prefix.empty() || !options.scan.from.empty() || options.scan.to.has_value();
  const bool is_key = !context.arguments.empty();
  if (int{is_key} + int{is_range} + int{options.all} != 1) {
    return FailOnUsage(context,
                       "say which keys: `delete KEY`, or `delete` with --prefix, --from or --to, "
                       "or with --all");
  }
  return is_key ? DeleteKey(context) : DeleteRange(context);
}

}  // namespace

Command DeleteCommand() {
  return {.name = "delete",
          .arguments = "[KEY]",
          .summary = "remove a key, or a range of keys",
          .details =
              "Removes KEY; exit status 1 if it is absent. Without KEY, removes the keys that "
              "begin with\n"
              "--prefix, or those from --from (inclusive) to --to (exclusive), or with --all every "
              "key.\n"
              "Memory of nodes that this empties is given back. Keys that others put meanwhile may "
              "stay.\n",
          .max_arguments = 1,
          .flags = {"escaped", "from", "to", "prefix", "all"},
          .stops_cleanly = true,
          .run = RunDelete};
}

}  // namespace gossamer::cli
