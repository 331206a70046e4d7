// Fuzzes what commands make of their arguments. The input is lines of words, as typed into telnet:
//   glob PATTERN TEXT...   compares with a matcher that tries everything
//   integer TEXT...
//   range VALUE FIRST LAST as GETRANGE has them
//   any command            SCAN, KEYS, GOSSAMER.SCAN and the like are parsed; changes of values and
//                          times run on one key, which every line finds as the line before left it
#include <glog/logging.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/fuzz_bytes.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/request_parser.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/worker/walk.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

using Words = std::vector<std::string_view>;
using Value = std::optional<std::string>;
using State = ValueChange::State;
using Characters = std::bitset<256>;

}  // namespace

// The store's time.
constexpr uint64_t kNowMs = 1'700'000'000'000;

namespace {

unsigned Number(char c) { return static_cast<unsigned char>(c); }

// What the brackets at `pattern[at]` stand for; `at` is then behind them.
Characters Class(std::string_view pattern, size_t& at) {
  Characters set;
  ++at;
  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      set.set(Number(pattern[at + 1]));
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const unsigned first = Number(pattern[at]);
      const unsigned last = Number(pattern[at + 2]);
      for (unsigned c = std::min(first, last); c <= std::max(first, last); ++c) set.set(c);
      at += 3;
    } else {
      set.set(Number(pattern[at++]));
    }
  }
  ++at;
  return is_negated ? ~set : set;
}

// A pattern's pieces; nullopt stands for `*`.
std::vector<std::optional<Characters>> Pieces(std::string_view pattern) {
  std::vector<std::optional<Characters>> pieces;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '*') {
      pieces.emplace_back();
      ++at;
    } else if (pattern[at] == '?') {
      pieces.emplace_back(Characters().set());
      ++at;
    } else if (pattern[at] == '[') {
      pieces.emplace_back(Class(pattern, at));
    } else {
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      pieces.emplace_back(Characters().set(Number(pattern[at++])));
    }
  }
  return pieces;
}

// Finds for each piece all the places that the pieces before it may end at.
bool MatchesSlowly(std::string_view pattern, std::string_view text) {
  std::vector<bool> may_end(text.size() + 1, false);
  may_end[0] = true;
  for (const auto& piece : Pieces(pattern)) {
    std::vector<bool> next(text.size() + 1, false);
    for (size_t at = 0; at <= text.size(); ++at) {
      if (piece) {
        next[at] = at > 0 && may_end[at - 1] && piece->test(Number(text[at - 1]));
      } else {
        next[at] = may_end[at] || (at > 0 && next[at - 1]);
      }
    }
    may_end = std::move(next);
  }
  return may_end[text.size()];
}

void TryGlob(const Words& words) {
  for (size_t i = 2; i < words.size(); ++i) {
    const bool matches = MatchesGlob(words[1], words[i]);
    CHECK_EQ(matches, MatchesSlowly(words[1], words[i])) << words[1] << " " << words[i];
    CHECK(!matches || words[i].starts_with(LiteralPrefix(words[1]))) << words[1] << " " << words[i];
  }
}

void TryInteger(std::string_view word) {
  const std::string text(word);
  errno = 0;
  const long long number = std::strtoll(text.c_str(), nullptr, 10);
  const bool is_one = errno == 0 && std::to_string(number) == text;
  const std::optional<int64_t> parsed = ParseInteger(word);
  CHECK_EQ(parsed.has_value(), is_one) << word;
  CHECK(!parsed || *parsed == number) << word;
}

void TryRange(std::string_view value, std::string_view first_word, std::string_view last_word) {
  const std::optional<int64_t> first = ParseInteger(first_word);
  const std::optional<int64_t> last = ParseInteger(last_word);
  if (!first || !last) return;
  // Redis asks this of the numbers as they were given.
  const bool is_backwards = *first < 0 && *last < 0 && *first > *last;
  const auto size = static_cast<int64_t>(value.size());
  const int64_t from = std::max<int64_t>(0, *first < 0 ? size + *first : *first);
  const int64_t to = std::max<int64_t>(0, *last < 0 ? size + *last : *last);
  std::string expected;
  for (int64_t at = 0; at < size; ++at) {
    if (!is_backwards && from <= at && at <= to) expected += value[static_cast<size_t>(at)];
  }
  CHECK_EQ(RangeOf(value, *first, *last), expected);
}

// One reply, whole, and nothing behind it.
void CheckReply(std::string_view reply) {
  CHECK(reply.size() > 2 && reply.ends_with("\r\n")) << reply;
  const size_t end = reply.find("\r\n");
  if (reply[0] != '$' || reply == "$-1\r\n") {
    CHECK_EQ(end + 2, reply.size()) << reply;
    return;
  }
  const std::optional<int64_t> size = ParseInteger(reply.substr(1, end - 1));
  CHECK(size && *size >= 0 && reply.size() == end + 2 + static_cast<size_t>(*size) + 2) << reply;
}

// What SETRANGE and INCRBY make of a value, said again in the simplest way. Commands of other
// kinds: nothing.
void CheckResult(CommandId id, const Words& words, const Value& before, const Value& after,
                 bool has_written) {
  const std::string old = before.value_or("");
  if (id == CommandId::kSetRange && has_written) {
    const auto offset = static_cast<size_t>(*ParseInteger(words[2]));
    std::string head = old.substr(0, offset);
    head.resize(offset, '\0');
    const size_t end = offset + words[3].size();
    CHECK_EQ(*after, head + std::string(words[3]) + (end < old.size() ? old.substr(end) : ""));
  } else if (id == CommandId::kIncrBy || id == CommandId::kDecrBy) {
    const std::optional<int64_t> number = before ? ParseInteger(old) : 0;
    CHECK(number || !has_written) << old << " is no integer";
    if (!number) return;
    const __int128 by = *ParseInteger(words[2]);
    const __int128 sum = id == CommandId::kIncrBy ? *number + by : *number - by;
    const bool fits = sum == static_cast<int64_t>(sum);
    CHECK_EQ(has_written, fits);
    if (fits) CHECK_EQ(*after, std::to_string(static_cast<int64_t>(sum)));
  } else if (id == CommandId::kAppend && has_written) {
    CHECK_EQ(*after, old + std::string(words[2]));
  }
}

void TryChange(const Command& command, const Words& words, State& state) {
  using Effect = ValueChange::Effect;
  ValueChange change;
  const std::string refusal = change.Parse(command, words, false);
  CHECK(refusal.empty() || refusal.starts_with("ERR ")) << refusal;
  if (!refusal.empty()) return;
  const State before = state;
  const Effect effect = change.Apply(state);
  const bool has_written = effect == Effect::kWritten;
  std::string reply;
  ReplyWriter writer(reply, false);
  change.Answer(writer);
  CheckReply(reply);
  CHECK(has_written || state.value == before.value)
      << command.name << " changed a value and denies it";
  CHECK(effect != Effect::kNone || state.expiry == before.expiry)
      << command.name << " changed a time and denies it";
  CHECK(!state.value || state.value->size() <= kMaxValueBytes);
  CheckResult(command.id, words, before.value, state.value, has_written);

  // A store may try again: what came of another value does not matter.
  State other{"1x", Expiry::At(kNowMs + 1), kNowMs};
  change.Apply(other);
  State again = before;
  std::string second_reply;
  ReplyWriter second_writer(second_reply, false);
  CHECK(change.Apply(again) == effect) << command.name;
  change.Answer(second_writer);
  CHECK(again.value == state.value && again.expiry == state.expiry && second_reply == reply)
      << command.name;
}

void TryWalk(const Command& command, const Words& words, const ScanPositions& positions) {
  const Result<Walk> walk = Walk::Parse(command, words, positions, [] { return false; });
  if (walk) return;
  CHECK(walk.error().code == Code::kInvalidArgument);
  CHECK(walk.error().message.starts_with("ERR ")) << walk.error().message;
}

void Try(const Words& words, const ScanPositions& positions, State& state) {
  if (words.empty()) return;
  if (words[0] == "glob" && words.size() > 2) return TryGlob(words);
  if (words[0] == "range" && words.size() == 4) return TryRange(words[1], words[2], words[3]);
  if (words[0] == "integer") {
    for (const std::string_view word : words) TryInteger(word);
    return;
  }
  const Command* const command = FindCommand(words[0]);
  if (command == nullptr) return;
  const auto size = static_cast<int>(words.size());
  if (command->arity >= 0 ? size != command->arity : size < -command->arity) return;
  if (command->kind == CommandKind::kWalk) TryWalk(*command, words, positions);
  const bool is_of_subcommands = HasSubcommands(*command);
  if (is_of_subcommands && words.size() < 3) return;
  if (command->kind == CommandKind::kChange || command->kind == CommandKind::kLook) {
    TryChange(*command, words, state);
  }
}

}  // namespace
}  // namespace gossamer::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gossamer::gateway;
  std::string_view text = gossamer::TextOf(data, size);
  ScanPositions positions;
  positions.Add(1, "key");
  ValueChange::State state{.value = {}, .expiry = {}, .now_ms = kNowMs};
  RequestParser parser;
  while (parser.Next(text) == RequestParser::Outcome::kRequest) {
    Try(parser.arguments(), positions, state);
    text.remove_prefix(parser.consumed());
  }
  return 0;
}
