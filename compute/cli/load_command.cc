// load: its output. load.h describes what it does.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

constexpr uint64_t kSkippedShown = 10;

double Rate(const LoadReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.loaded) / report.seconds : 0;
}

Json LoadErrorJson(const LoadError& error) {
  Json object = ErrorJson(error.error);
  if (error.line != 0) object["line"] = error.line;
  return object;
}

Json ReportJson(const LoadReport& report) {
  Json object = {{"lines", report.lines},
                 {"loaded", report.loaded},
                 {"skipped", report.skipped},
                 {"bytes", report.bytes},
                 {"seconds", report.seconds},
                 {"lines_per_second", Rate(report)},
                 {"complete", report.complete()},
                 {"stopped", report.stopped},
                 {"last_line_unterminated", report.last_line_unterminated}};
  if (report.breakdown_is_exact()) {
    object["inserted"] = report.inserted;
    object["overwritten"] = report.overwritten;
  }
  if (report.resume_line) object["resume_line"] = *report.resume_line;
  if (report.error) object["error"] = LoadErrorJson(*report.error);
  return object;
}

std::string Summary(const LoadReport& report) {
  std::string text = "loaded " + HumanQuantity(report.loaded, "line") + " in " +
                     HumanDuration(report.seconds) + " (" + HumanRate(Rate(report), "lines") + ")";
  if (report.breakdown_is_exact()) {
    text += ": " + HumanCount(report.inserted) + " inserted, " + HumanCount(report.overwritten) +
            " overwritten";
  }
  if (report.skipped > 0) text += ", " + HumanCount(report.skipped) + " skipped";
  return text;
}

std::string Where(const std::string& file, uint64_t line) {
  return line == 0 ? file : fmt::format("{} line {}", file, line);
}

// Says why the load ended early, what is stored, and how to go on.
void SayWhereToGoOn(const Context& context, const std::string& file, const LoadReport& report) {
  if (report.error) {
    context.err << "gossamer: " << Where(file, report.error->line) << ": "
                << Sentence(report.error->error) << '\n';
  } else {
    context.err << "gossamer: stopped by a signal\n";
  }
  context.err << "gossamer: " << HumanQuantity(report.loaded, "line") << " of " << file
              << (report.loaded == 1 ? " was" : " were") << " loaded";
  if (report.resume_line) {
    context.err << (report.resumes_behind_bad_line ? "; to go on behind the bad line"
                                                   : "; to go on")
                << ": gossamer load "
                << (context.options.load.form == LineForm::kRaw ? "--raw " : "")
                << "--from_line=" << *report.resume_line << ' ' << context.arguments[0];
  }
  if (report.stored_ahead) context.err << " (may put some lines again)";
  if (report.resumes_behind_bad_line) {
    context.err << " (--on_error=skip passes over every bad line)";
  }
  context.err << '\n';
}

int RunLoad(const Context& context) {
  if (context.arguments[0] == "-" && context.commands_on_stdin) {
    context.err << "gossamer: standard input has the commands: name a file\n";
    return kExitUsage;
  }
  const Result<InputFile> file = InputFile::Open(context.arguments[0]);
  if (!file) return Fail(context, file.error());
  const std::string& name = file.value().name();

  uint64_t skipped = 0;
  const auto on_skipped = [&](const LoadError& error) {
    if (++skipped > kSkippedShown) return;
    context.err << "gossamer: " << Where(name, error.line) << " skipped: " << Sentence(error.error)
                << '\n';
  };
  const LoadReport report =
      Load(*context.store, file.value(), context.options.load, context.stop, on_skipped);

  if (skipped > kSkippedShown) {
    context.err << "gossamer: " << HumanQuantity(skipped - kSkippedShown, "more line")
                << " skipped\n";
  }
  if (report.last_line_unterminated && report.complete()) {
    context.err << "gossamer: note: " << name
                << " does not end in a newline; its last line was loaded as it stands\n";
  }
  if (context.options.json) {
    WriteJson(context.out, ReportJson(report));
  } else {
    context.out << Summary(report) << '\n';
  }
  context.out.flush();
  if (!report.complete()) SayWhereToGoOn(context, name, report);
  if (report.stopped) return context.stop.exit_code();
  return report.error || report.skipped > 0 ? kExitFailure : kExitSuccess;
}

}  // namespace

Command LoadCommand() {
  return {
      .name = "load",
      .arguments = "FILE",
      .summary = "put the lines of a file (- is standard input)",
      .details =
          R"(Lines are key<TAB>value; a lone key has an empty value, and so an empty line is the empty
key. \t \n \\ \xHH are escapes, every other byte (a carriage return too) stands for itself.
key\@1800000000000<TAB>value: the key expires then, in milliseconds since 1970, as dump writes it.
--raw: there are no escapes and no times, and a backslash stands for itself, as in lists of file
names.
The later line of a key wins. A bad line ends the load (--on_error=stop: the lines before it
are stored, exit status 1) or is reported and passed over (--on_error=skip, exit status 1 at
the end). Ctrl-C finishes what is in flight and exits with 130. Whatever ends a load, it says
how many lines are stored and from which line to go on, which is the one behind a bad line:
--from_line=N.
Whole leaves are built where keys ascend (LC_ALL=C sort), much quicker than by puts. They get as
full as --fill says: 1 if no keys will come in between.
--sorted: all keys ascend. A line whose key is less than the one before ends the load; the lines
before it are stored.
)",
      .min_arguments = 1,
      .max_arguments = 1,
      .flags = {"threads", "from_line", "on_error", "raw", "sorted", "fill"},
      .stops_cleanly = true,
      .run = RunLoad};
}

}  // namespace gossamer::cli
