// Script: a Lua script of EVAL, and its call for one key.
// ScriptCache: the scripts that this compute server has seen, by their digests, for EVALSHA.
//
// Thread-safety: ScriptCache: any thread. A call: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/value_change.h"

namespace gossamer::gateway {

struct Script {
  uint64_t number;   // no other one of the process has it
  std::string sha1;  // 40 hexadecimal digits, in small letters
  std::string source;
};

// The hexadecimal SHA-1 of `text`.
std::string Sha1Hex(std::string_view text);

// What EVAL and its kin ask for.
class ScriptCall final : public KeyScript {
 public:
  // The bytes of keys and arguments outlive the call.
  ScriptCall(std::shared_ptr<const Script> script, std::vector<std::string_view> keys,
             std::vector<std::string_view> arguments, bool is_read_only, bool is_resp3)
      : script_(std::move(script)),
        keys_(std::move(keys)),
        arguments_(std::move(arguments)),
        is_read_only_(is_read_only),
        is_resp3_(is_resp3) {}

  // At most one.
  const std::vector<std::string_view>& keys() const { return keys_; }
  bool has_key() const override { return !keys_.empty(); }
  ValueChange::Effect Run(ValueChange::State& state) override;
  std::string_view reply() const override { return reply_; }

 private:
  const std::shared_ptr<const Script> script_;
  const std::vector<std::string_view> keys_;
  const std::vector<std::string_view> arguments_;
  const bool is_read_only_;
  const bool is_resp3_;
  std::string reply_;
};

class ScriptCache {
 public:
  // Scripts, and bytes of their sources. Once there are more, all are forgotten.
  static constexpr size_t kMostScripts = 4096;
  static constexpr size_t kMostBytes = size_t{32} << 20;

  // The call of EVAL, EVALSHA, EVAL_RO or EVALSHA_RO. Null, with the error reply, without the '-',
  // in `refusal`, if it cannot be done.
  std::shared_ptr<ScriptCall> Call(const Command& command,
                                   const std::vector<std::string_view>& arguments, bool is_resp3,
                                   std::string& refusal);
  // SCRIPT LOAD. Returns null, and the error reply in `refusal`, if it is no Lua.
  std::shared_ptr<const Script> Load(std::string_view source, std::string& refusal);
  bool Has(std::string_view sha1) const { return Find(sha1) != nullptr; }
  void Clear();

 private:
  std::shared_ptr<const Script> Find(std::string_view sha1) const;
  void Forget();  // requires the mutex

  using Scripts = std::unordered_map<std::string_view, std::shared_ptr<const Script>>;

  mutable std::mutex mutex_;
  Scripts scripts_;     // by their digests
  Scripts by_sources_;  // to be found without a digest
  size_t bytes_ = 0;
};

}  // namespace gossamer::gateway
