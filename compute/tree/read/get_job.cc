#include "compute/tree/read/get_job.h"

#include <cassert>

#include "compute/rules/rules.h"

namespace gossamer {

bool GetJob::Aim(TreeContext& context, KeyView key, uint64_t hash,
                 const NodeCache::LeafSpot& spot) {
  const LeafGeometry& geometry = context.geometry();
  if (spot.leaf.is_null() || key.size() > context.store.parameters.max_key_bytes) return false;
  if (!context.links.Reaches(spot.leaf, geometry.node_bytes())) return false;
  Aim(geometry, hash, spot, true);
  return true;
}

void GetJob::Aim(const LeafGeometry& geometry, uint64_t hash, const NodeCache::LeafSpot& spot,
                 bool has_hint) {
  spot_ = spot;
  guess_ = {};
  hash_ = hash;
  home_ = geometry.GroupOf(hash_);
  wants_overflow_ = !has_hint || LeafHint(spot.hint).MayHaveOverflowed(hash_, home_);
}

void GetJob::AddReads(const LeafGeometry& geometry, LocalAddress into, LocalAddress block_into,
                      Batch& batch) {
  bytes_ = into.data;
  home_read_ = &batch.Add(ReadVerb(geometry, home_, into + UnitBuffers::kHome));
  overflow_read_ = nullptr;
  if (wants_overflow_) AddOverflowRead(geometry, into, batch);
  if (!guess_.is_there() || block_into.data == nullptr) return;
  guess_.read = &batch.Add(Verb::Read(BlockPtr::FromWord(guess_.at.pointer).offset(),
                                      BlockReadBytes(guess_.at.length), block_into));
}

void GetJob::AddOverflowRead(const LeafGeometry& geometry, LocalAddress into, Batch& batch) {
  const uint32_t overflow = geometry.overflow_unit();
  overflow_read_ = &batch.Add(ReadVerb(geometry, overflow, into + UnitBuffers::kOverflow));
}

std::optional<GroupView> GetJob::Parse(const LeafGeometry& geometry, size_t at, uint32_t unit,
                                       KeyView key, KeyView within) const {
  const std::span<std::byte> bytes(bytes_ + at, geometry.unit_bytes());
  return rules::ParseUnit(bytes, spot_.leaf, unit, within, key);
}

GetJob::Answer GetJob::Judge(TreeContext& context, KeyView key, KeyView within,
                             const Key* left) const {
  assert(is_read());
  const LeafGeometry& geometry = context.geometry();
  const std::optional<GroupView> home = Parse(geometry, UnitBuffers::kHome, home_, key, within);
  if (!home) return {Verdict::kTorn};
  if (home->frozen()) {
    if (left != nullptr) {
      context.store.merges.Note({0, *left, MergeQueue::Request::Kind::kUnfinished});
    }
    // Otherwise its left neighbour may have taken its entries over long ago.
    if (!rules::MayReadFrozen(left != nullptr)) return {Verdict::kFrozen};
  }
  if (!home->Covers(key)) return {Verdict::kRightOfLeaf};
  const auto find = [&](const GroupView& unit) {
    std::optional<Entry> entry = unit.Find(key);
    if (!entry && key.size() > geometry.max_suffix_bytes(true)) {
      // The block tells whether it is this key.
      entry = unit.FindLong(key, hash_, [](const Entry&) { return true; });
    }
    return entry;
  };
  std::optional<Entry> entry = find(*home);
  std::optional<GroupView> overflow;
  if (!entry && home->overflowed()) {
    const bool has_read =
        overflow_read_ != nullptr && overflow_read_->status == VerbStatus::kSuccess;
    if (!has_read) return {Verdict::kOverflow};
    overflow = Parse(geometry, UnitBuffers::kOverflow, geometry.overflow_unit(), key, within);
    if (!overflow || !rules::OfOneVersion(*home, *overflow)) return {Verdict::kTorn};
    entry = find(*overflow);
  }
  // Otherwise the hint has not misled this operation, and at worst it misleads an insert, which
  // corrects it.
  if (overflow || (home->overflowed() && !LeafHint(spot_.hint).IsTight(home_))) {
    const uint32_t known = 1u << home_ | (overflow ? 1u << geometry.overflow_unit() : 0);
    context.cache.LearnHint(key, spot_, geometry, known, [&](uint32_t number) -> const GroupView& {
      return number == home_ ? *home : *overflow;
    });
  }
  if (!entry) return {Verdict::kAbsent};
  if (!context.clock.IsAlive(entry->expires_at)) {
    return {rules::SaysGoneWithoutLock() ? Verdict::kAbsent : Verdict::kExpired};
  }
  const Verdict verdict = entry->has_block() ? Verdict::kBlock : Verdict::kFound;
  const bool is_block = entry->kind == Entry::Kind::kBlock;
  return {verdict, entry->kind, entry->stored, entry->expires_at,
          is_block ? entry->block() : BlockRef{}};
}

void GetJob::TakeGuess(TreeContext& context, KeyView key, Answer& answer) const {
  if (guess_.read == nullptr || (!answer.is_plain() && answer.verdict != Verdict::kBlock)) return;
  std::optional<BlockRef> block;
  if (answer.verdict == Verdict::kBlock) block = answer.block(key);
  const std::optional<std::string_view> content =
      context.guesses.Judge(hash_, guess_, block ? &*block : nullptr);
  if (content) TakeContent(key, *content, answer);
}

void GetJob::Guess(TreeContext& context) {
  guess_ = context.guesses.For(hash_, spot_.leaf.server());
}

void GetJob::TakeBlock(KeyView key, std::span<const std::byte> bytes, Answer& answer) {
  const std::optional<std::string_view> content = BlockReader::ValueIn(answer.block(key), bytes);
  if (content) TakeContent(key, *content, answer);
}

void GetJob::TakeContent(KeyView key, std::string_view content, Answer& answer) {
  std::optional<std::string_view> value = content;
  if (answer.kind == Entry::Kind::kLong) value = BlockReader::ValueOf(key, content);
  if (!value) return;
  answer.verdict = Verdict::kFound;
  answer.stored = *value;
}

}  // namespace gossamer
