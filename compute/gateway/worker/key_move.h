// KeyMove: RENAME, RENAMENX, COPY and MSETNX: commands that write a key because of what another one
// has.
//
// No lock covers two keys. So each step is atomic by itself, and the steps come in an order in
// which no value is lost:
//   - RENAME writes the new key, then deletes the old one if it has still what was copied. If not,
//     it begins again. Meanwhile others see both.
//   - MSETNX sets each key if it is absent. If one is not, it deletes those that it has set, unless
//     others have changed them meanwhile.
//
// Thread-safety: none; it runs in the session of its worker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/large_composite.h"
#include "compute/gateway/commands/value_change.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class KeyMove {
 public:
  static bool Has(CommandId id);

  // Copies the arguments. Errors: InvalidArgument, with the text of the error reply.
  static Result<KeyMove> Parse(const Command& command,
                               const std::vector<std::string_view>& arguments);

  // Appends the reply to `out`.
  Task<void> Run(Session& session, std::string& out, bool is_resp3);
  // What it holds of the request.
  uint64_t held_bytes() const;

 private:
  explicit KeyMove(CommandId id) : id_(id) {}
  Status ParseCopy(const std::vector<std::string_view>& arguments);
  Status ParsePairs(const std::vector<std::string_view>& arguments);
  // The error reply, without the '-', or "": `number_` says what came of it.
  Task<std::string> Move(Session& session);
  // The old key is absent, now that the new one has got `put`, if it has.
  Task<std::string> AnswerToAbsent(Session& session, const Fingerprint& put);
  Task<std::string> GiveUp(Session& session, const Fingerprint& put);
  Task<std::string> SetAll(Session& session);
  // Deletes those of the pairs that this has set.
  Task<Status> TakeBack(Session& session, const std::vector<std::string_view>& set);
  // Whether the key has `seen` still, and is deleted therefore.
  static Task<Result<bool>> DeleteIf(Session& session, std::string_view key,
                                     const Fingerprint& seen);
  // Of a large composite that the old key has: what the new key gets, which may be a copy of all
  // its items; nullopt: the old key is absent.
  Task<Result<std::optional<std::string>>> MoveLarge(Session& session, const LargeHeader& header);

  CommandId id_;
  std::string from_;
  std::string to_;
  bool must_be_absent_ = false;               // the new key
  std::map<std::string, std::string> pairs_;  // of MSETNX
  int64_t number_ = 0;
  uint64_t put_id_ = 0;  // of the large composite that the new key has got; 0: none
  uint64_t noted_ = 0;   // the version of its record, as this has written it last
};

}  // namespace gossamer::gateway
