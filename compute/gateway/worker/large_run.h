// LargeRun: does commands on large composites (large_composite.h), and moves a small one's items to
// keys of their own.
//
// Commands on items by their names, of many composites, are one MultiModify: so those of a pipeline
// go to the store together. A command is not atomic with all its items, and neither are those of a
// transaction: each item by itself is.
//
// Thread-safety: none; the session's thread.
// Cost: to read all items, or to count them, a scan of them. To draw some: some scans of 16 keys.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/large_composite.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/worker/scan_positions.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

// A command that only reads the composite whose header is `header`, which is open.
struct LargeLook {
  ValueChange* look;
  LargeHeader header;
};

class LargeRun {
 public:
  // Does changes of which the outcome is kIsLarge, on composites of different keys. Each gets its
  // result.
  static Task<void> Change(Session& session, std::vector<KeyChanges*> changes);
  // Moves the items of `key`, whose header is `header`, and filling, to keys of their own. Does
  // nothing if the header is there no more. Errors: those of puts.
  static Task<Status> Fill(Session& session, std::string_view key, LargeHeader header);
  // Says of a composite that is perhaps empty what it is. Returns whether it has no items.
  // Errors: those of a scan, and of Modify.
  static Task<Result<bool>> Settle(Session& session, std::string_view key, LargeHeader header);
  // Gives `key`, if it is absent, a large composite without items. Errors: those of puts.
  static Task<Status> Create(Session& session, std::string_view key, CompositeType type);
  // Says that it has some. Does nothing if the header is there no more. Errors: those of Modify.
  static Task<Status> Open(Session& session, std::string_view key, LargeHeader header);
  // Marks a composite that is empty as perhaps empty from now on, and so that it does not expire.
  // Returns the header that it has if nobody has changed it meanwhile. Errors: those of Modify.
  static Task<Result<LargeHeader>> BeginAnew(Session& session, std::string_view key,
                                             LargeHeader header);
  // Behind the removal of items: marks the composite as perhaps empty, if it has none, and opens
  // it, if it was marked and has some. Errors: those of a scan, and of Modify.
  static Task<Status> NoteBehind(Session& session, std::string_view key, LargeHeader header);
  // Whether it has none. Errors: those of a scan.
  static Task<Result<bool>> IsEmpty(Session& session, uint64_t id);

  // Makes the replies to looks.
  static Task<void> Read(Session& session, std::vector<LargeLook> looks, ScanPositions& positions);
  // Likewise, all at items by their names. Returns false, and has done nothing, if these have more
  // than `most_bytes` together.
  static Task<bool> ReadItems(Session& session, std::vector<LargeLook> looks, uint64_t most_bytes);

 private:
  struct Items;

  static Task<void> ChangeItems(Session& session, std::vector<KeyChanges*> changes);
  // Marks the composite as perhaps empty, if it has no items but some of `count`, of which
  // `removes` says whether an item is one. So whoever meets it next looks whether it has any, also
  // if this one ends here. Returns the header that it has then.
  static Task<Result<LargeHeader>> NoteBefore(Session& session, std::string_view key,
                                              LargeHeader header, size_t count,
                                              std::function<bool(std::string_view)> removes);
  // Likewise, of what a group of changes of items removes.
  static Task<Result<LargeHeader>> NoteBefore(Session& session, KeyChanges& group);
  static Task<Status> CheckHeader(Session& session, KeyChanges& group);
  static void TakeReply(KeyChanges& group, CompositeCommand& command);
  // Of a command that is not about items by their names.
  static Task<Status> ChangeAny(Session& session, KeyChanges& group, CompositeCommand& command);
  // Each change of `group` by itself, as if it came alone.
  static Task<void> ChangeOneByOne(Session& session, KeyChanges& group);
  static Task<Status> AnswerAny(Session& session, CompositeCommand& command,
                                const LargeHeader& header, ScanPositions* positions);
  // Takes many items, of a SPOP.
  static Task<Status> PopMany(Session& session, CompositeCommand& command, uint64_t id,
                              uint64_t count);
  static Task<Result<uint64_t>> Count(Session& session, uint64_t id);
  static Task<Status> ReadAll(Session& session, uint64_t id, bool with_values, Items& items);
  static Task<Status> Scan(Session& session, CompositeCommand& command, uint64_t id,
                           ScanPositions& positions);
  // Returns false, without a reply, if reading all items is better.
  static Task<Result<bool>> Draw(Session& session, CompositeCommand& command, uint64_t id,
                                 uint64_t count);
};

}  // namespace gossamer::gateway
