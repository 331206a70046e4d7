#include "compute/gateway/commands/argument_notation.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gossamer::gateway {
namespace {

bool IsCapital(char c) { return c >= 'A' && c <= 'Z'; }

std::string LowerCase(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = IsCapital(c) ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  std::vector<Argument> All() {
    std::vector<Argument> arguments;
    if (!rest_.empty()) arguments = Sequence();
    CHECK(rest_.empty()) << "not an argument: \"" << rest_ << "\" in " << text_;
    return arguments;
  }

 private:
  // Arguments with blanks between them, up to the end of the text, of the group or of this choice.
  std::vector<Argument> Sequence() {
    std::vector<Argument> arguments;
    do {
      arguments.push_back(One());
    } while (!rest_.starts_with(" |") && Take(" "));
    return arguments;
  }

  Argument One() {
    Argument argument;
    if (Take("[")) {
      argument = Group("]");
      argument.is_optional = true;
    } else if (Take("<")) {
      argument = Group(">");
    } else {
      argument = Word();
    }
    if (Take("...")) argument.is_multiple = true;
    return argument;
  }

  // What is behind an opening bracket, with the closing one.
  Argument Group(std::string_view end) {
    const std::string_view name = GroupName();
    std::vector<Argument> arguments = Sequence();
    bool is_choice = false;
    while (Take(" | ")) {
      is_choice = true;
      arguments.push_back(One());
    }
    CHECK(Take(end)) << "no " << end << " before \"" << rest_ << "\" in " << text_;
    CHECK_EQ(name.empty(), arguments.size() == 1) << "a name for several: " << text_;
    if (arguments.size() == 1) return std::move(arguments.front());
    Argument group{.name = std::string(name), .type = is_choice ? "oneof" : "block"};
    group.arguments = std::move(arguments);
    return group;
  }

  // What is in front of "=", if it is there.
  std::string_view GroupName() {
    const size_t end = std::min(rest_.find_first_of(kEndsWord), rest_.size());
    if (!rest_.substr(end).starts_with('=')) return {};
    const std::string_view name = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return name;
  }

  Argument Word() {
    const std::string_view word = TakeWord();
    if (!IsCapital(word.front())) {
      const bool has_own_type = word == "key" || word == "pattern";
      const std::string_view usual_type = has_own_type ? word : "string";
      return {.name = std::string(word), .type = Take(":") ? TakeWord() : usual_type};
    }
    const bool announces = rest_.starts_with(' ') && !rest_.starts_with(" |");
    if (!announces) {
      return {.name = LowerCase(word), .type = "pure-token", .token = word};
    }
    rest_.remove_prefix(1);
    Argument argument = One();
    argument.token = word;
    return argument;
  }

  std::string_view TakeWord() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(kEndsWord));
    CHECK(!word.empty()) << "no word before \"" << rest_ << "\" in " << text_;
    rest_.remove_prefix(word.size());
    return word;
  }

  bool Take(std::string_view part) {
    if (!rest_.starts_with(part)) return false;
    rest_.remove_prefix(part.size());
    return true;
  }

  static constexpr std::string_view kEndsWord = " |[]<>=:.";

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::vector<Argument> ParseArguments(std::string_view notation) { return Parser(notation).All(); }

}  // namespace gossamer::gateway
