#include "compute/bench/roster.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace gossamer::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "gossamer-bench 1";

Json MemberJson(const RosterMember& member) {
  return {{"incarnation", member.incarnation},
          {"host", member.host},
          {"process", member.process},
          {"round", member.round},
          {"beat", member.beat},
          {"left", member.left}};
}

RosterMember MemberOf(const Json& json) {
  return {.incarnation = json.at("incarnation").get<uint64_t>(),
          .host = json.at("host").get<std::string>(),
          .process = json.at("process").get<std::string>(),
          .round = json.at("round").get<uint32_t>(),
          .beat = json.at("beat").get<uint64_t>(),
          .left = json.at("left").get<bool>()};
}

}  // namespace

bool Roster::IsSealed() const {
  return members.size() == processes &&
         std::ranges::all_of(members, [](const RosterMember& one) { return one.round != 0; });
}

RosterMember* Roster::Find(uint64_t incarnation) {
  const auto found = std::ranges::find(members, incarnation, &RosterMember::incarnation);
  return found == members.end() ? nullptr : &*found;
}

std::string EncodeRoster(const Roster& roster) {
  Json json = {{"format", kFormat},
               {"id", roster.id},
               {"processes", roster.processes},
               {"settings", roster.settings},
               {"members", Json::array()}};
  for (const RosterMember& member : roster.members) json["members"].push_back(MemberJson(member));
  // A path in a flag may be any bytes; JSON allows only UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Roster> ParseRoster(const std::string& text) try {
  const Json json = Json::parse(text);
  if (json.at("format") != kFormat) return std::nullopt;
  Roster roster{.id = json.at("id").get<uint64_t>(),
                .processes = json.at("processes").get<uint32_t>(),
                .settings = json.at("settings").get<std::map<std::string, std::string>>(),
                .members = {}};
  for (const Json& member : json.at("members")) roster.members.push_back(MemberOf(member));
  if (roster.members.size() > roster.processes) return std::nullopt;
  return roster;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace gossamer::bench
