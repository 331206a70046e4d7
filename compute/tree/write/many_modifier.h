// ManyModifier: the read-modify-writes of one MultiModify.
//
// Those that a leaf's lock and one write of it can do go through ManyLeafWriter, those of many leaves together. The rest, such as
// values in blocks, are done one by one, many at a time; those of one key one after the other, in the caller's order.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/leaf/modification.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_writer.h"
#include "compute/tree/write/many_leaf_writer.h"
#include "compute/tree/write/write_batch.h"
#include "gossamer/modifier.h"

namespace gossamer {

class ManyModifier {
 public:
  ManyModifier(TreeContext& context, LeafWriter& single, ManyLeafWriter& leaves)
      : context_(context), single_(single), leaves_(leaves) {}

  // results[i] is that of modifiers[i]. The spans live until the task ends.
  // Errors: as LeafWriter::ModifyUntilDone, for each.
  // Cost: as ManyLeafWriter, and as LeafWriter::ModifyUntilDone for each of the rest.
  Task<void> Modify(std::span<const KeyModifier> modifiers, std::span<Status> results);

 private:
  // Most of the rest in flight.
  static constexpr size_t kWindow = 64;

  // Kept for the next call.
  struct Scratch {
    std::vector<KeyValueView> pairs;
    std::vector<Modification> modifications;
    WriteBatch::Order order;
    std::vector<WriteBatch::Range> rest;
  };
  // What is left.
  struct Run {
    std::span<const KeyModifier> modifiers;
    WriteBatch& batch;
    std::span<const WriteBatch::Range> ranges;
    size_t next_range = 0;
    size_t next = 0;  // in the range before that, up to `end`
    size_t end = 0;
  };

  // The writes of the next key; an empty range if none is left.
  static WriteBatch::Range Next(Run& run);
  Task<void> Work(Run& run, WriteBatch::Range writes);

  TreeContext& context_;
  LeafWriter& single_;
  ManyLeafWriter& leaves_;
  IdlePool<Scratch> idle_;
};

}  // namespace gossamer
