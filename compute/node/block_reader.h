// BlockReader: READs blocks of values and of long keys.
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
#include "compute/leaf/leaf_editor.h"
#include "compute/session/links.h"
#include "proto/value_block.h"

namespace gossamer {

class BlockReader {
 public:
  explicit BlockReader(Links& links) : links_(links) {}

  // Returns the content; nullopt if the block was replaced since `block` was read.
  // Errors: NodeUnreachable, with the loss noted in `op`; Corruption for a pointer that leads
  // nowhere; NoResources without a buffer.
  // Cost: 1 RT.
  Task<Result<std::optional<std::string>>> Read(Op& op, BlockRef block);
  // Reads the long keys to which entries of `leaf` refer. Requires (unchecked): nobody changes the
  // leaf meanwhile.
  // Errors: likewise; Corruption if one is not in its block, or does not have the hash that its
  // entry states.
  // Cost: 1 RT; none without blocks.
  Task<Status> ReadKeys(Op& op, RemotePtr leaf, std::span<const LongRef> refs, LongKeys& keys);
  // Links::CheckReaches and Links::Reaches for the memory of the block.
  Status CheckReaches(Op& op, BlockRef block) const;
  bool Reaches(BlockRef block) const;
  // Returns the content in `bytes`, read at `block`; nullopt if they are not of that block (rule
  // R1).
  static std::optional<std::string_view> ValueIn(const BlockRef& block,
                                                 std::span<const std::byte> bytes);
  // Returns the value in the content of a long key's block; nullopt if the key there is not `key`.
  static std::optional<std::string_view> ValueOf(KeyView key, std::string_view content);

 private:
  Links& links_;
};

}  // namespace gossamer
