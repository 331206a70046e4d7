// ReadReply: the reply to a request that reads keys, made from their values one by one.
//
// Thread-safety: none. Cost: no allocation but of the reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "compute/gateway/command_table.h"
#include "compute/gateway/reply_writer.h"

namespace gossamer::gateway {

class ReadReply {
 public:
  // A longer reply is refused: a request of few bytes may ask for a long value any number of times.
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // To `command` with so many keys. `range`: of GETRANGE. The reply is appended to `out`, which outlives this.
  ReadReply(const Command& command, size_t keys, std::pair<int64_t, int64_t> range,
            std::string& out, bool is_resp3, size_t most_bytes = kMostBytes);

  // The value of the next key.
  void Add(const Result<std::string_view>& value);
  // Whether the reply is an error, whatever the values of the other keys are. Then nothing is to be added.
  bool is_refused() const { return is_refused_; }
  // Keys so far that were there, and that were not.
  uint64_t found() const { return found_; }
  uint64_t absent() const { return absent_; }
  // Call behind the last value.
  void End();

 private:
  void Refuse(std::string_view line);

  const CommandId id_;
  const std::pair<int64_t, int64_t> range_;
  std::string& out_;
  const size_t begin_;  // of the reply in `out_`
  const size_t most_bytes_;
  ReplyWriter reply_;
  uint64_t found_ = 0;
  uint64_t absent_ = 0;
  bool is_refused_ = false;
};

}  // namespace gossamer::gateway
