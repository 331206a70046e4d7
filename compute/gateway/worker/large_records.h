// Large records: which keys have the header of a large composite (large_composite.h), and the
// garbage of those that none has.
//
// Whoever gives a header to another key notes that key in the record first. SweepLarge looks at the
// keys that a record names. If none has the header, it marks the record as dead, unless it has
// changed in between, and then deletes the items. Nobody notes a key in a dead record. So no header
// ever names items that are deleted.
//
// If several have it, a RENAME has ended in its middle, or two of one key were done together. The
// one that was noted last stays: the sweep deletes the headers of the others, unless they have been
// written anew since it saw them.
//
// Thread-safety: none; the session's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "compute/gateway/commands/large_composite.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

// Says that `key` alone may have the header of a new id. Errors: those of puts.
Task<Status> PutLargeRecord(Session& session, uint64_t id, std::string_view key);
// Notes that `key`, too, may have the header. Returns the record's version; nullopt if the
// composite is garbage, or will soon be. Errors: those of Modify; InvalidArgument if no store takes
// the key.
Task<Result<std::optional<uint64_t>>> NoteLargeKey(Session& session, uint64_t id,
                                                   std::string_view key);
// `key` has the header no more. Does nothing if the record has another version: somebody may be
// about to give the header to the key again. Errors: those of Modify.
Task<Status> ForgetLargeKey(Session& session, uint64_t id, std::string_view key, uint64_t version);
// Whether `key` has a header of that id. Errors: those of gets.
Task<Result<bool>> HasLarge(Session& session, std::string_view key, uint64_t id);
// Copies all items, for a header at `key`. Returns that header, which is not there yet.
// Errors: those of scans and puts; Contended if it has taken so long that the copy is garbage.
Task<Result<LargeHeader>> CopyLarge(Session& session, const LargeHeader& header,
                                    std::string_view key);

struct LargeSweep {
  uint64_t composites = 0;  // that it has looked at
  uint64_t collected = 0;   // composites without a header, whose items it has deleted
  uint64_t items = 0;       // which these had
};
// Deletes what no header names, and composites that are empty for good. Calls `goes_on` for each
// composite, and ends early if that returns false. It must not throw.
// Errors: those of scans, Modify and DeleteRange.
Task<Result<LargeSweep>> SweepLarge(Session& session, std::function<bool()> goes_on);

}  // namespace gossamer::gateway
