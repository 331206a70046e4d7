// Edits of a leaf's bytes: what a writer computes between its READ and its WRITE. No verbs here.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/leaf.h"

namespace gossamer {

// Writes to `out` the unit `view` with `key` removed and, if given, `entry` added in its place (at the end if the
// key was not there). False if it does not fit. `overflowed` is the flag to set.
bool RewriteUnit(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                 bool overflowed, KeyView key, const std::optional<Entry>& entry);

// What a rewritten leaf is made of.
struct LeafRewrite {
  RemotePtr leaf;
  RemotePtr sibling;  // of the split; unused when the leaf is rewritten in place
  Key low;
  NodeVersion version{0};  // of the result
  HighFence high;
  RemotePtr old_sibling;
};

// Encodes the split of `entries` (at least 2, in the order of LeafView::AppendTo, a new one last) nearest the middle
// for which both halves fit. With `right_count`, nearest to a right half of so many entries instead, from there
// towards the middle. Returns the separator; nothing if none fits.
std::optional<Key> EncodeSplit(const LeafRewrite& rewrite, const LeafGeometry& geometry,
                               std::span<const Entry> entries, size_t right_count,
                               std::span<std::byte> left, std::span<std::byte> right);

}  // namespace gossamer
