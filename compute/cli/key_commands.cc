// put and get: one key at a time.
#include <fmt/core.h>

#include <cerrno>

#include "common/program/flags_main.h"
#include "common/program/output_file.h"
#include "common/program/standard_streams.h"
#include "common/text/escape.h"
#include "common/text/human.h"
#include "compute/cli/command.h"
#include "compute/cli/line_reader.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

// A file's content. Of a file longer than any value, reads just enough for it to be refused.
Result<std::string> ReadWhole(const std::string& name) {
  BOOST_OUTCOME_TRY(file, InputFile::Open(name));
  std::string bytes;
  while (bytes.size() <= kMaxValueBytes) {
    constexpr size_t kBlockBytes = 64 << 10;
    const size_t used = bytes.size();
    bytes.resize(used + kBlockBytes);
    const ssize_t got = ReadSome(file.fd(), bytes.data() + used, kBlockBytes);
    bytes.resize(used + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return bytes;
    if (got < 0) {
      return MakeError(Code::kInvalidArgument,
                       "cannot read " + file.name() + ": " + WhyFailed(errno));
    }
  }
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("{} is longer than {} B ({}), which is the longest value a store takes",
                  file.name(), kMaxValueBytes, ExactBytes(kMaxValueBytes)));
}

int RunPut(const Context& context) {
  const std::string& file = context.options.value_file;
  const bool from_file = !file.empty();
  if (from_file == (context.arguments.size() == 2)) {
    return FailOnUsage(context, from_file ? "the value comes from --value_file: write no VALUE"
                                          : "write a value: gossamer put KEY VALUE");
  }
  if (file == "-" && context.commands_on_stdin) {
    return FailOnUsage(context, "standard input has the commands: name a file");
  }
  const Result<std::string> key = ReadArgument(context.arguments[0], context.options.escaped);
  if (!key) return FailOnUsage(context, Sentence(key.error()));
  Result<std::string> value =
      from_file ? ReadWhole(file) : ReadArgument(context.arguments[1], context.options.escaped);
  if (!value) {
    return from_file ? Fail(context, value.error()) : FailOnUsage(context, Sentence(value.error()));
  }
  const Status status = context.session->Put(key.value(), value.value());
  if (!status) return FailOnKey(context, key.value(), status.error());
  SayDone(context, key.value(), "stored");
  return kExitSuccess;
}

int RunGet(const Context& context) {
  const std::string& file = context.options.output;
  if (!file.empty() && context.options.json) {
    return FailOnUsage(context, "--output writes the value as it is: leave out --json");
  }
  const Result<std::string> key = ReadArgument(context.arguments[0], context.options.escaped);
  if (!key) return FailOnUsage(context, Sentence(key.error()));
  const Result<std::string> value = context.session->Get(key.value());
  if (!value) return FailOnKey(context, key.value(), value.error());
  if (file == "-") {
    context.out << value.value();
  } else if (!file.empty()) {
    const Status written = WriteFile(file, value.value());
    if (!written) return Fail(context, written.error());
  } else if (context.options.json) {
    Json object;
    AddBytes(object, "key", key.value());
    AddBytes(object, "value", value.value());
    WriteJson(context.out, object);
  } else {
    context.out << (context.options.escaped ? Escaped(value.value()) : value.value()) << '\n';
  }
  return kExitSuccess;
}

}  // namespace

Command PutCommand() {
  return {
      .name = "put",
      .arguments = "KEY VALUE",
      .summary = "insert or overwrite a key",
      .details =
          "Keys and values are taken as the bytes they are; with --escaped, \\t \\n \\\\ and "
          "\\xHH\n"
          "stand for bytes that a shell cannot pass. With --value_file=FILE (or - for standard\n"
          "input) the value is the whole content of a file, and VALUE is left out.\n"
          "A key or value that begins with '-' goes behind '--': gossamer put -- -1 minus\n",
      .min_arguments = 1,
      .max_arguments = 2,
      .flags = {"escaped", "value_file"},
      .run = RunPut};
}

Command GetCommand() {
  return {.name = "get",
          .arguments = "KEY",
          .summary = "print the value of a key",
          .details =
              "Prints the value as it is, followed by a newline; with --escaped, on one line "
              "whatever\n"
              "it holds. --output=FILE writes its bytes into a file and nothing else; --output=- "
              "prints them\n"
              "without the newline. Exit status 1 if the key is absent: the file stays as it is.\n",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = {"escaped", "output"},
          .run = RunGet};
}

}  // namespace gossamer::cli
