// BlockFiller: the values of a scan's entries that are in blocks.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/get.h"
#include "compute/tree/read/scan_page.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class BlockFiller {
 public:
  BlockFiller(TreeContext& context, Getter& getter) : context_(context), getter_(getter) {}

  // How many of `numbers`, entries of `page` with a block, are read together: up to 32 blocks, or 2
  // MiB of them, and at least one.
  static size_t CountTogether(const ScanPage& page, const ScanRange& range,
                              std::span<const size_t> numbers);
  // Reads the values, and long keys, that `page` does not have yet of these entries. If a block was
  // replaced since, gets the value by its key; if the key was deleted, or a long key is not in
  // `range` or was passed, adds the number of the entry to `gone`, in order. Returns the block of a
  // long key that is not there (any more): the leaf must be read again.
  // Errors: those of Getter::Get; it may be called again for the rest.
  // Cost: 1 RT.
  Task<Result<std::optional<BlockRef>>> Fill(Op& op, ScanPage& page, const ScanRange& range,
                                             std::span<const size_t> numbers,
                                             std::vector<size_t>& gone);

 private:
  enum class Took : uint8_t { kTaken, kOutside, kNoLongKey };
  // Takes a long key, and its value if `range` wants that, from `bytes` read at `block`.
  static Took TakeLong(ScanPage& page, ScanEntry& entry, const ScanRange& range,
                       const BlockRef& block, std::span<const std::byte> bytes);

  TreeContext& context_;
  Getter& getter_;
};

}  // namespace gossamer
