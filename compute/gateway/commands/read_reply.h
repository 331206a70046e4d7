// ReadReply: the reply to a request that reads keys, made from their values one by one.
//
// Thread-safety: none. Cost: no allocation but of the reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

class ReadReply {
 public:
  // To `command` with so many keys. `look`: of kLook, what it asks for; else null. The reply is
  // appended to `out`, which outlives this. Between two values `out` may be emptied; then an error
  // is all that it has.
  ReadReply(const Command& command, size_t keys, ValueChange* look, std::string& out,
            bool is_resp3);

  // The value of the next key, and when it expires. `now_ms`: the store's time.
  void Add(const Result<std::string_view>& value, Expiry expiry, uint64_t now_ms);
  // Whether the reply is an error, whatever the values of the other keys are. Then nothing is to be
  // added.
  bool is_refused() const { return is_refused_; }
  // Keys so far that were there, and that were not.
  uint64_t found() const { return found_; }
  uint64_t absent() const { return absent_; }
  // Call behind the last value.
  void End();

 private:
  void Refuse(std::string_view line);

  const CommandId id_;
  ValueChange* const look_;
  std::string& out_;
  const size_t begin_;  // of the reply in `out_`
  ReplyWriter reply_;
  uint64_t found_ = 0;
  uint64_t absent_ = 0;
  bool is_refused_ = false;
};

}  // namespace gossamer::gateway
