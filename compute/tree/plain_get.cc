#include "compute/tree/plain_get.h"

#include "compute/rules/rules.h"

namespace gossamer {

void LearnHint(TreeContext& context, KeyView key, const NodeCache::LeafSpot& spot,
               uint32_t home_number, const GroupView& home,
               const std::optional<GroupView>& overflow) {
  const LeafGeometry& geometry = context.geometry();
  const uint32_t known = 1u << home_number | (overflow ? 1u << geometry.overflow_unit() : 0);
  context.cache.LearnHint(key, spot, geometry, known, [&](uint32_t number) -> const GroupView& {
    return number == home_number ? home : *overflow;
  });
}

bool PlainGet::Prepare(TreeContext& context, KeyView key, const NodeCache::LeafSpot& spot) {
  const LeafGeometry& geometry = context.geometry();
  if (spot.leaf.is_null() || key.size() > context.store.parameters.max_key_bytes) return false;
  if (!context.links.Reaches(spot.leaf, geometry.node_bytes())) return false;
  spot_ = spot;
  hash_ = KeyHash(key);
  home_ = geometry.GroupOf(hash_);
  reads_overflow_ = LeafHint(spot.hint).MayHaveOverflowed(hash_, home_);
  return true;
}

void PlainGet::AddReads(const LeafGeometry& geometry, LocalAddress into, Batch& batch) {
  bytes_ = into.data;
  const auto read = [&](uint32_t unit, size_t at) {
    return &batch.Add(Verb::Read(spot_.leaf.offset() + geometry.unit_offset(unit),
                                 geometry.unit_bytes(), into + at));
  };
  reads_ = read(home_, UnitBuffers::kHome);
  if (reads_overflow_) read(geometry.overflow_unit(), UnitBuffers::kOverflow);
}

PlainGet::Answer PlainGet::Judge(TreeContext& context, KeyView key,
                                 const std::optional<GroupView>& home) const {
  assert(is_read());
  if (!home || !home->Admits(key)) return {};
  const LeafGeometry& geometry = context.geometry();
  const auto find = [&](const GroupView& unit) { return FindEntry(unit, key, hash_, geometry); };
  std::optional<Entry> entry = find(*home);
  std::optional<GroupView> overflow;
  if (!entry && home->overflowed()) {
    if (!reads_overflow_ || reads_[1].status != VerbStatus::kSuccess) return {};
    overflow = rules::ParseUnit({bytes_ + UnitBuffers::kOverflow, geometry.unit_bytes()},
                                spot_.leaf, geometry.overflow_unit(), key);
    if (!overflow || !rules::OfOneVersion(*home, *overflow)) return {};
    entry = find(*overflow);
  }
  if (entry && entry->has_block()) return {};
  // Otherwise the hint has not misled this operation, and at worst it misleads an insert, which corrects it.
  if (overflow || (home->overflowed() && !LeafHint(spot_.hint).IsTight(home_))) {
    LearnHint(context, key, spot_, home_, *home, overflow);
  }
  if (!entry) return {State::kAbsent, {}};
  return {State::kFound, entry->stored};
}

}  // namespace gossamer
