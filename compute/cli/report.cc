#include "compute/cli/report.h"

#include <fmt/core.h>

#include <utility>

#include "common/fill_alarm.h"
#include "common/program/flags_main.h"
#include "common/text/escape.h"
#include "common/text/utf8.h"

namespace gossamer::cli {

void AddBytes(Json& object, const std::string& name, std::string_view bytes) {
  if (IsUtf8(bytes)) {
    object[name] = bytes;
  } else {
    object[name] = Escaped(bytes);
    object[name + "_encoding"] = "escaped";
  }
}

Json ErrorJson(const Error& error) {
  return {{"code", CodeName(error.code)}, {"message", Sentence(error)}};
}

std::string Sentence(const Error& error) {
  // A message may quote what another program said: it must not spoil the terminal or the JSON.
  if (!error.message.empty()) return IsUtf8(error.message) ? error.message : Escaped(error.message);
  switch (error.code) {
    case Code::kNotFound: return "the key is absent";
    case Code::kAlreadyExists: return "the key exists already";
    case Code::kInvalidArgument: return "the store does not take this key or value";
    case Code::kExhausted: return std::string("the memory servers are full: ") + kFullRemedy;
    case Code::kContended: return "a lock stayed taken for too long; try again";
    case Code::kNodeUnreachable: return "a memory server cannot be reached";
    case Code::kFenced: return "the memory servers took this client for dead; start again";
    case Code::kCorruption: return "remote memory fails its checks";
    case Code::kMaybeApplied:
      return "the connection broke during the write; read the key to find out whether it was "
             "stored";
    case Code::kUnsupported: return "this machine or build cannot do it";
    case Code::kNoResources: return "a machine lacks memory of its own, descriptors or queue pairs";
  }
  return std::string(CodeName(error.code));
}

int Fail(const Context& context, const Error& error) {
  context.out.flush();
  if (context.options.json) WriteJson(context.out, {{"error", ErrorJson(error)}});
  context.err << "gossamer: " << Sentence(error) << '\n' << std::flush;
  return kExitFailure;
}

int FailToBegin(const Context& context, const Error& error) {
  const int failed = Fail(context, error);
  return error.code == Code::kInvalidArgument ? kExitUsage : failed;
}

int FailOnKey(const Context& context, std::string_view key, const Error& error) {
  if (error.code != Code::kNotFound) return Fail(context, error);
  return Fail(context, MakeError(Code::kNotFound, "the key " + Quoted(key) + " is absent"));
}

int FailOnUsage(const Context& context, const std::string& sentence) {
  context.err << "gossamer: " << sentence << '\n';
  return kExitUsage;
}

void SayDone(const Context& context, std::string_view key, const char* what) {
  if (!context.options.json) {
    if (context.commands_on_stdin) context.out << what << '\n';
    return;
  }
  Json object;
  AddBytes(object, "key", key);
  object["status"] = what;
  WriteJson(context.out, object);
}

void WriteJson(std::ostream& out, const Json& object) {
  const std::string text = object.dump();
  out.write(text.data(), static_cast<std::streamsize>(text.size())).put('\n');
}

Result<std::string> ReadArgument(const std::string& text, bool escaped) {
  if (!escaped) return text;
  std::string bytes;
  if (const auto error = AppendUnescaped(text, bytes)) {
    return MakeError(Code::kInvalidArgument, fmt::format("{}, byte {}: {}", Quoted(text),
                                                         error->offset + 1, error->message));
  }
  return bytes;
}

Result<KeyRange> ReadRange(const CommandOptions& options) {
  KeyRange range;
  BOOST_OUTCOME_TRY(from, ReadArgument(options.scan.from, options.escaped));
  BOOST_OUTCOME_TRY(prefix, ReadArgument(options.scan.prefix, options.escaped));
  range.from = std::move(from);
  range.prefix = std::move(prefix);
  if (options.scan.to) {
    BOOST_OUTCOME_TRY(to, ReadArgument(*options.scan.to, options.escaped));
    range.to = std::move(to);
  }
  return range;
}

}  // namespace gossamer::cli
