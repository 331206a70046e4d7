#include "compute/gateway/script/script.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/script/script_engine.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kNoScript = "NOSCRIPT No matching script. Please use EVAL.";

}  // namespace

std::string Sha1Hex(std::string_view text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

ValueChange::Effect ScriptCall::Run(ValueChange::State& state) {
  ScriptEngine::Request request{*script_, keys_, arguments_, is_read_only_, is_resp3_};
  return ScriptEngine::OfThread().Run(request, state, reply_);
}

std::shared_ptr<ScriptCall> ScriptCache::Call(const Command& command,
                                              const std::vector<std::string_view>& arguments,
                                              bool is_resp3, std::string& refusal) {
  const auto refuse = [&refusal](std::string_view line) {
    refusal = line;
    return nullptr;
  };
  const std::optional<int64_t> count = ParseInteger(arguments[2]);
  if (!count) return refuse(kNoInteger);
  if (*count > static_cast<int64_t>(arguments.size()) - 3) {
    return refuse("ERR Number of keys can't be greater than number of args");
  }
  if (*count < 0) return refuse("ERR Number of keys can't be negative");
  if (*count > 1) {
    return refuse(
        "ERR a script has at most one key in Gossamer: it runs under that key's lock, which is no "
        "other key's");
  }
  const bool is_by_digest = command.name.starts_with("evalsha");
  std::shared_ptr<const Script> script =
      is_by_digest ? Find(arguments[1]) : Load(arguments[1], refusal);
  if (script == nullptr) return is_by_digest ? refuse(kNoScript) : nullptr;
  const auto first = arguments.begin() + 3;
  return std::make_shared<ScriptCall>(
      std::move(script), std::vector<std::string_view>(first, first + *count),
      std::vector<std::string_view>(first + *count, arguments.end()), command.name.ends_with("_ro"),
      is_resp3);
}

std::shared_ptr<const Script> ScriptCache::Load(std::string_view source, std::string& refusal) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_sources_.find(source); known != by_sources_.end()) {
      return known->second;
    }
  }
  static std::atomic<uint64_t> numbers{0};
  auto script =
      std::make_shared<const Script>(Script{++numbers, Sha1Hex(source), std::string(source)});
  refusal = ScriptEngine::OfThread().Check(*script);
  if (!refusal.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (scripts_.size() >= kMostScripts || bytes_ + source.size() > kMostBytes) {
    Forget();
  }
  // Another thread may have brought it meanwhile.
  const auto [place, is_new] = scripts_.emplace(script->sha1, script);
  if (!is_new) return place->second;
  by_sources_.emplace(script->source, script);
  bytes_ += source.size();
  return script;
}

std::shared_ptr<const Script> ScriptCache::Find(std::string_view sha1) const {
  std::string key(sha1);
  for (char& c : key) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::lock_guard lock(mutex_);
  const auto found = scripts_.find(key);
  return found == scripts_.end() ? nullptr : found->second;
}

void ScriptCache::Clear() {
  const std::lock_guard lock(mutex_);
  Forget();
}

void ScriptCache::Forget() {
  by_sources_.clear();
  scripts_.clear();
  bytes_ = 0;
}

}  // namespace gossamer::gateway
