// put, get, ttl and expire: one key at a time.
#include <fmt/core.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>

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

// The time of a key that is to live so many seconds, in decimal, which may have a fraction.
Result<Expiry> ReadTtl(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kLongest = 1e11;  // some 3,000 years
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(seconds >= 0.001 && seconds <= kLongest)) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a time to live is a number of seconds from 0.001 on, such as 60 "
                                 "or 0.5, and not '{}'",
                                 text));
  }
  return Expiry::After(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
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
  Result<Expiry> expiry = Expiry::Never();
  if (!context.options.ttl.empty()) expiry = ReadTtl(context.options.ttl);
  if (!expiry) return FailOnUsage(context, "--ttl: " + Sentence(expiry.error()));
  const Status status = context.session->Put(key.value(), value.value(), expiry.value());
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
  const Result<ExpiringValue> found = context.session->GetWithExpiry(key.value());
  if (!found) return FailOnKey(context, key.value(), found.error());
  const std::string& value = found.value().value;
  if (file == "-") {
    context.out << value;
  } else if (!file.empty()) {
    const Status written = WriteFile(file, value);
    if (!written) return Fail(context, written.error());
  } else if (context.options.json) {
    Json object;
    AddBytes(object, "key", key.value());
    AddBytes(object, "value", value);
    if (!found.value().expiry.is_never()) object["expires_at"] = found.value().expiry.at_ms();
    if (found.value().expiry.is_composite()) object["composite"] = true;
    WriteJson(context.out, object);
  } else {
    context.out << (context.options.escaped ? Escaped(value) : value) << '\n';
  }
  return kExitSuccess;
}

int RunTtl(const Context& context) {
  const Result<std::string> key = ReadArgument(context.arguments[0], context.options.escaped);
  if (!key) return FailOnUsage(context, Sentence(key.error()));
  const Result<std::optional<std::chrono::milliseconds>> left =
      context.session->TimeToLive(key.value());
  if (!left) return FailOnKey(context, key.value(), left.error());
  std::optional<double> seconds;
  if (left.value()) seconds = static_cast<double>(left.value()->count()) / 1000;
  if (context.options.json) {
    Json object;
    AddBytes(object, "key", key.value());
    object["ttl_seconds"] = seconds ? Json(*seconds) : Json(nullptr);
    WriteJson(context.out, object);
  } else {
    context.out << (seconds ? fmt::format("{:.3f}", *seconds) : "never") << '\n';
  }
  return kExitSuccess;
}

int RunExpire(const Context& context) {
  const Result<std::string> key = ReadArgument(context.arguments[0], context.options.escaped);
  if (!key) return FailOnUsage(context, Sentence(key.error()));
  Result<Expiry> expiry = Expiry::Never();
  if (context.arguments[1] != "never") expiry = ReadTtl(context.arguments[1]);
  if (!expiry) return FailOnUsage(context, Sentence(expiry.error()) + ", or `never`");
  const Status status = context.session->Touch(key.value(), expiry.value());
  if (!status) return FailOnKey(context, key.value(), status.error());
  SayDone(context, key.value(), "touched");
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
          "With --ttl=SECONDS the key expires: from then on it is absent. Without, it never does, "
          "also if\nit did before.\n"
          "A key or value that begins with '-' goes behind '--': gossamer put -- -1 minus\n",
      .min_arguments = 1,
      .max_arguments = 2,
      .flags = {"escaped", "value_file", "ttl"},
      .run = RunPut};
}

Command TtlCommand() {
  return {.name = "ttl",
          .arguments = "KEY",
          .summary = "print how long a key has still to live",
          .details = "Prints seconds, or `never`. Exit status 1 if the key is absent.\n",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = {"escaped"},
          .run = RunTtl};
}

Command ExpireCommand() {
  return {.name = "expire",
          .arguments = "KEY SECONDS",
          .summary = "say when a key expires",
          .details =
              "The key keeps its value, and is absent after so many seconds; `never` in their "
              "place: it\ndoes not expire any more. Exit status 1 if the key is absent.\n",
          .min_arguments = 2,
          .max_arguments = 2,
          .flags = {"escaped"},
          .run = RunExpire};
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
