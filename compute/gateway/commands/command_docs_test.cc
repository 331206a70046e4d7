#include "compute/gateway/commands/command_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <string>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/server_answers.h"

namespace gossamer::gateway {
namespace {

std::string Answer(const std::vector<std::string_view>& arguments, bool is_resp3 = false) {
  std::string text;
  ReplyWriter reply(text, is_resp3);
  AnswerCommand(arguments, reply);
  return text;
}

// `arguments` in a notation near to that of Redis's documents. `word:type` has another type than
// the word has as a rule; `<name=…>` is a block, or with `|` a choice.
std::string Notation(std::span<const Argument> arguments, std::string_view separator = " ") {
  std::string text;
  for (const Argument& one : arguments) {
    if (!text.empty()) text += separator;
    const bool is_usual =
        one.type == "string" ? one.name != "key" && one.name != "pattern" : one.type == one.name;
    std::string inner(one.token);
    if (one.type == "oneof" || one.type == "block") {
      const std::string group =
          std::string(one.name) + "=" + Notation(one.arguments, one.type == "oneof" ? " | " : " ");
      const bool needs_brackets = !one.is_optional || !one.token.empty() || one.is_multiple;
      inner += (inner.empty() ? "" : " ") + (needs_brackets ? "<" + group + ">" : group);
    } else if (one.type != "pure-token") {
      inner += (inner.empty() ? "" : " ") + std::string(one.name);
      if (!is_usual) inner += ":" + std::string(one.type);
    }
    if (one.is_multiple) inner += "...";
    text += one.is_optional ? "[" + inner + "]" : inner;
  }
  return text;
}

size_t FewestWords(const Argument& argument) {
  if (argument.is_optional) return 0;
  if (argument.type == "pure-token") return 1;
  size_t words = 1;
  if (argument.type == "oneof") {
    words = FewestWords(*std::ranges::min_element(argument.arguments, {}, FewestWords));
  } else if (argument.type == "block") {
    words = 0;
    for (const Argument& one : argument.arguments) words += FewestWords(one);
  }
  return words + (argument.token.empty() ? 0 : 1);
}

bool MayHaveMore(const Argument& argument) {
  return argument.is_optional || argument.is_multiple ||
         std::ranges::any_of(argument.arguments, MayHaveMore);
}

TEST(CommandDocs, HasEachCommandAndSubcommand) {
  std::vector<std::string_view> names;
  for (const Command& one : Commands()) names.push_back(one.name);
  for (const Subcommand& one : Subcommands()) names.push_back(one.name);
  std::ranges::sort(names);
  std::vector<std::string_view> documented;
  for (const CommandDoc& one : CommandDocs()) documented.push_back(one.name);
  EXPECT_EQ(documented, names);
}

TEST(CommandDocs, HasTextsAndGroups) {
  const std::set<std::string_view> groups{"string",   "generic",      "server",    "connection",
                                          "gossamer", "transactions", "scripting", "hash",
                                          "set",      "pubsub"};
  for (const CommandDoc& one : CommandDocs()) {
    EXPECT_FALSE(one.summary.empty()) << one.name;
    EXPECT_TRUE(groups.contains(one.group)) << one.name;
    EXPECT_EQ(one.group == "gossamer", one.name.starts_with("gossamer.")) << one.name;
  }
}

// As the table of commands has the number of words, and where keys are.
TEST(CommandDocs, HasArgumentsOfTheCommandTable) {
  const auto check = [](std::string_view name, int arity, size_t words_of_name, bool has_key) {
    const auto doc = std::ranges::find(CommandDocs(), name, &CommandDoc::name);
    const std::span<const Argument> arguments = doc->arguments;
    size_t fewest = words_of_name;
    for (const Argument& one : arguments) fewest += FewestWords(one);
    const auto least = static_cast<size_t>(std::abs(arity));
    EXPECT_TRUE(arity > 0 ? fewest == least : fewest <= least) << name << ": " << fewest;
    // QUIT takes and ignores more, as in Redis, whose docs do not say so either.
    const bool may_have_more = std::ranges::any_of(arguments, MayHaveMore) || name == "quit";
    EXPECT_EQ(may_have_more, arity < 0) << name;
    const bool begins_with_key =
        !arguments.empty() && (arguments[0].type == "key" || arguments[0].name == "key_value");
    EXPECT_EQ(begins_with_key, has_key) << name;
  };
  for (const Command& one : Commands()) {
    if (!HasSubcommands(one)) check(one.name, one.arity, 1, one.first_key != 0);
  }
  for (const Subcommand& one : Subcommands()) {
    const bool is_of_key = one.name.starts_with("object|") || one.name.starts_with("memory|");
    check(one.name, one.arity, 2, is_of_key && !IsHelp(one));
  }
}

TEST(CommandDocs, HasTypesTokensAndGroups) {
  const std::map<std::string_view, std::string_view> notations{
      {"append", "key value"},
      {"auth", "[username] password"},
      {"client|kill",
       "<filter=address | <new-format=[ID client-id:integer] "
       "[TYPE <client-type=NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] "
       "[ADDR address] [LADDR address] [SKIPME <skipme=YES | NO>]>>"},
      {"client|list",
       "[TYPE <client-type=NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id:integer...]"},
      {"client|no-evict", "<enabled=ON | OFF>"},
      {"client|setinfo", "<attr=LIB-NAME libname | LIB-VER libver>"},
      {"command|list", "[FILTERBY <filterby=MODULE module-name | PATTERN pattern>]"},
      {"config|set", "<parameter_value=parameter value>..."},
      {"dbsize", ""},
      {"del", "key..."},
      {"flushall", "[async=ASYNC | SYNC]"},
      {"gossamer.delrange", "[FROM key:string] [TO key:string] [PREFIX bytes]"},
      {"gossamer.scan", "[FROM key:string] [TO key:string] [PREFIX bytes] [LIMIT n:integer] [REV]"},
      {"hello",
       "[arguments=protover:integer [AUTH <username_password=username password>] "
       "[SETNAME clientname]]"},
      {"incrbyfloat", "key increment:double"},
      {"info", "[section...]"},
      {"keys", "pattern"},
      {"mset", "<key_value=key value>..."},
      {"ping", "[message]"},
      {"scan", "cursor:integer [MATCH pattern] [COUNT count:integer] [TYPE type]"},
      {"set",
       "key value [condition=NX | XX | IFEQ match-value | IFNE match-value | IFDEQ match-digest | "
       "IFDNE match-digest] [GET] [expiration=EX seconds:integer | PX "
       "milliseconds:integer | EXAT unix-time-seconds:unix-time | PXAT "
       "unix-time-milliseconds:unix-time | KEEPTTL]"},
      {"setrange", "key offset:integer value"},
      {"slowlog|get", "[count:integer]"},
      {"wait", "numreplicas:integer timeout:integer"}};
  for (const auto& [name, notation] : notations) {
    const auto doc = std::ranges::find(CommandDocs(), name, &CommandDoc::name);
    EXPECT_EQ(Notation(doc->arguments), notation) << name;
  }
}

// In the order and form of Redis 7.0, with maps as `%` or, in RESP2, as arrays of twice the size.
TEST(CommandDocs, AnswersSetWhole) {
  const auto words = [](std::string_view line) {
    std::string text;
    while (!line.empty()) {
      const size_t end = std::min(line.find(' '), line.size());
      const std::string_view word = line.substr(0, end);
      const bool is_header = std::string_view("%~*:+").find(word[0]) != std::string_view::npos;
      if (!is_header) text += "$" + std::to_string(word.size()) + "\r\n";
      text += std::string(word) + "\r\n";
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    return text;
  };
  const auto bulk = [](std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
  };
  const std::string summary = bulk(
      "Set the value of a key; NX: if it is absent; XX: if it exists; GET: return the old value; "
      "EX, PX, EXAT, PXAT: when it expires; KEEPTTL: as before");
  const std::string complexity = bulk("O(log N) where N is the number of keys in the store");
  EXPECT_EQ(Answer({"command", "docs", "set"}, true),
            words("%1 set %5 summary") + summary + words("since 0.1.0 group string complexity") +
                complexity +
                words("arguments *5 "
                      "%3 name key type key key_spec_index :0 "
                      "%2 name value type string "
                      "%4 name condition type oneof flags ~1 +optional arguments *6 "
                      "%3 name nx type pure-token token NX "
                      "%3 name xx type pure-token token XX "
                      "%3 name match-value type string token IFEQ "
                      "%3 name match-value type string token IFNE "
                      "%3 name match-digest type string token IFDEQ "
                      "%3 name match-digest type string token IFDNE "
                      "%4 name get type pure-token token GET flags ~1 +optional "
                      "%4 name expiration type oneof flags ~1 +optional arguments *5 "
                      "%3 name seconds type integer token EX "
                      "%3 name milliseconds type integer token PX "
                      "%3 name unix-time-seconds type unix-time token EXAT "
                      "%3 name unix-time-milliseconds type unix-time token PXAT "
                      "%3 name keepttl type pure-token token KEEPTTL"));
  EXPECT_EQ(Answer({"command", "docs", "set"}),
            words("*2 set *10 summary") + summary + words("since 0.1.0 group string complexity") +
                complexity +
                words("arguments *5 "
                      "*6 name key type key key_spec_index :0 "
                      "*4 name value type string "
                      "*8 name condition type oneof flags *1 +optional arguments *6 "
                      "*6 name nx type pure-token token NX "
                      "*6 name xx type pure-token token XX "
                      "*6 name match-value type string token IFEQ "
                      "*6 name match-value type string token IFNE "
                      "*6 name match-digest type string token IFDEQ "
                      "*6 name match-digest type string token IFDNE "
                      "*8 name get type pure-token token GET flags *1 +optional "
                      "*8 name expiration type oneof flags *1 +optional arguments *5 "
                      "*6 name seconds type integer token EX "
                      "*6 name milliseconds type integer token PX "
                      "*6 name unix-time-seconds type unix-time token EXAT "
                      "*6 name unix-time-milliseconds type unix-time token PXAT "
                      "*6 name keepttl type pure-token token KEEPTTL"));
}

TEST(CommandDocs, AnswersForNames) {
  const std::string set = Answer({"COMMAND", "DOCS", "set"});
  EXPECT_EQ(Answer({"COMMAND", "DOCS", "nonsense", "SET", "set", "set|", "set|x", "|", ""}), set);
  EXPECT_EQ(Answer({"COMMAND", "DOCS", "lpush"}), "*0\r\n");
  EXPECT_EQ(Answer({"COMMAND", "DOCS", "nonsense"}, true), "%0\r\n");
  const std::string two = Answer({"COMMAND", "DOCS", "get", "CLIENT|List", "client|no"}, true);
  EXPECT_TRUE(two.starts_with("%2\r\n$3\r\nget\r\n")) << two;
  EXPECT_NE(two.find("\r\n$11\r\nclient|list\r\n%5\r\n$7\r\nsummary\r\n"), std::string::npos);
}

TEST(CommandDocs, AnswersForAllWithTheirSubcommands) {
  const std::string all = Answer({"COMMAND", "DOCS"}, true);
  EXPECT_TRUE(all.starts_with("%" + std::to_string(Commands().size()) + "\r\n$3\r\nacl\r\n"));
  for (const CommandDoc& one : CommandDocs()) {
    const std::string entry =
        "$" + std::to_string(one.name.size()) + "\r\n" + std::string(one.name) + "\r\n%";
    EXPECT_NE(all.find(entry), std::string::npos) << one.name;
  }
  EXPECT_NE(all.find("$11\r\nsubcommands\r\n%4\r\n$11\r\nslowlog|get\r\n"), std::string::npos);
}

}  // namespace
}  // namespace gossamer::gateway
