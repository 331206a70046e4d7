// BlockReader: READs of value blocks.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/task.h"
#include "compute/session/links.h"
#include "proto/value_block.h"

namespace gossamer {

class BlockReader {
 public:
  explicit BlockReader(Links& links) : links_(links) {}

  // Returns the value; nothing if the block is not the one that `block` names: it was replaced since. 1 RT. Errors:
  // NodeUnreachable, with the loss noted in `op`; Corruption for a pointer that leads nowhere; Exhausted without a buffer.
  Task<Result<std::optional<std::string>>> Read(Op& op, BlockRef block);
  // Makes sure that the block is inside the memory of a known server. Errors: as Links::ConnectFor.
  Status ConnectFor(BlockRef block);
  // The value in `bytes`, which were read where `block` says; nothing if they are not of that block (rule R1).
  static std::optional<std::string_view> ValueIn(const BlockRef& block,
                                                 std::span<const std::byte> bytes);

 private:
  Links& links_;
};

}  // namespace gossamer
