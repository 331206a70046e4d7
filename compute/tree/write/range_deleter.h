// RangeDeleter: deletes all keys of a range, and gives their leaves back.
//
// It reads the keys of many leaves, without their values, and deletes them with one WRITE a leaf.
// Then it merges the leaves that have become empty with their neighbours. A key that others put
// meanwhile may stay.
//
// Thread-safety: none; one for each session.
// Cost, for each leaf: 1/32 RT to read it and 2 RT to write it, many leaves at a time; 6 RT to
// merge it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/scan.h"
#include "compute/tree/shape/merger.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/batch_writer.h"
#include "gossamer/store.h"

namespace gossamer {

class RangeDeleter {
 public:
  RangeDeleter(TreeContext& context, Scanner& scanner, BatchWriter& batches, Merger& merger)
      : context_(context), scanner_(scanner), batches_(batches), merger_(merger) {}

  // As Session::DeleteRange.
  Task<RangeDeletion> Delete(KeyRange keys, std::function<bool(uint64_t deleted)> progress);
  // Deletes the keys that have expired, as DeleteRange.
  Task<RangeDeletion> Expire(std::function<bool(uint64_t deleted)> progress);

 private:
  // Keys that are deleted together.
  struct Page {
    std::string bytes;  // of all keys
    std::vector<size_t> ends;
    std::vector<std::string_view> keys;
    std::vector<Status> results;
    WriteMode mode = WriteMode::kDelete;
  };

  Task<RangeDeletion> Delete(ScanRange range, WriteMode mode,
                             std::function<bool(uint64_t deleted)> progress);

  // Copies the next keys of the scan to `page`. Returns whether there are more.
  Task<Result<bool>> Read(Scan& scan, Page& page);
  Task<void> Delete(Page& page, RangeDeletion& done);
  // Does what this and other deletions have noted, as much as `keys` deletions can have noted at
  // most. Leaves the rest to the store's upkeep if locks are taken.
  Task<void> MergeNoted(size_t keys);

  TreeContext& context_;
  Scanner& scanner_;
  BatchWriter& batches_;
  Merger& merger_;
};

}  // namespace gossamer
