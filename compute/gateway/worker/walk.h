// Walks: commands that read many keys, one after the other, or delete a range: DBSIZE, FLUSHDB,
// KEYS, SCAN, RANDOMKEY, GOSSAMER.SCAN and GOSSAMER.DELRANGE.
//
// Thread-safety: none; a walk runs in the session of its worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/worker/long_list.h"
#include "compute/gateway/worker/scan_positions.h"
#include "compute/gateway/worker/walk_turns.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class Walk {
 public:
  // Copies what it needs of the arguments. Errors: InvalidArgument, with the text of the error
  // reply.
  // `is_unwanted`: whether nobody waits for the reply any more. A walk that only reads ends then,
  // without one.
  static Result<Walk> Parse(const Command& command, const std::vector<std::string_view>& arguments,
                            const ScanPositions& positions, std::function<bool()> is_unwanted);

  // Appends the reply to `out`: an error if `turns` ends the walk early. The elements of a list,
  // which come behind that, are in `list`, which is empty before.
  Task<void> Run(Session& session, ScanPositions& positions, WalkTurns& turns, std::string& out,
                 LongList& list, bool is_resp3);
  // Of DBSIZE that has run: how many keys there are.
  std::optional<uint64_t> key_count() const { return key_count_; }

 private:
  Walk(CommandId id, std::function<bool()> is_unwanted)
      : id_(id), is_unwanted_(std::move(is_unwanted)) {}
  Status ParseScan(const std::vector<std::string_view>& arguments, const ScanPositions& positions);
  Status ParseRange(const std::vector<std::string_view>& arguments);
  // Whether SCAN or KEYS lists the key. `value`: of a composite one, unless `range_` has keys only.
  bool Lists(std::string_view key, std::string_view value, bool is_composite) const;
  Task<void> DeleteRange(Session& session, WalkTurns& turns, ReplyWriter& reply) const;
  Task<void> List(Session& session, ScanPositions& positions, WalkTurns& turns, ReplyWriter& reply,
                  LongList& list, bool is_resp3);

  CommandId id_;
  std::function<bool()> is_unwanted_;
  std::string pattern_ = "*";
  ScanOptions range_;  // what it reads or deletes
  std::optional<uint64_t> key_count_;
  std::string type_;  // in small letters; empty: any
};

}  // namespace gossamer::gateway
