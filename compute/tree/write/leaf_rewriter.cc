// Per key: no allocation, no verb, no virtual call.
#include "compute/tree/write/leaf_rewriter.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// New entries are many if there are so many times as many as those behind them: they make many
// leaves.
constexpr size_t kManyLeaves = 8;

}  // namespace

LeafRewriter::Scratch::Scratch(const LeafGeometry& geometry) : packer(geometry) {
  // For a leaf and some writes of short entries.
  const size_t usual = geometry.node_bytes() / 8;
  for (std::vector<Entry>* entries : {&old, &fresh, &merged}) entries->reserve(usual);
  rank_scratch.words.reserve(usual);
  ranks.reserve(usual);
  by_key.reserve(usual);
  is_gone.reserve(usual);
}

bool LeafRewriter::DropExpired(const LeafEditor& editor, Scratch& scratch) {
  bool has_dropped = false;
  for (size_t i = 0; i < scratch.old.size(); ++i) {
    const Entry& entry = scratch.old[i];
    if (!entry.has_time() || !editor.HasExpired(entry)) continue;
    scratch.is_gone[i] = 1;
    has_dropped = true;
    if (entry.has_block()) scratch.replaced.push_back(entry.block());
  }
  return has_dropped;
}

bool LeafRewriter::Merge(const LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
                         Scratch& scratch, WriteTally& tally) {
  std::vector<Entry>& old = scratch.old;
  std::vector<uint32_t>& by_key = scratch.by_key;
  old.clear();
  scratch.keys.Clear();
  scratch.replaced.clear();
  locked.editor->AppendTo(old, scratch.keys);
  RankByKey(old, scratch.rank_scratch, scratch.ranks);
  by_key.resize(old.size());
  for (uint32_t i = 0; i < old.size(); ++i) by_key[scratch.ranks[i]] = i;
  scratch.is_gone.assign(old.size(), 0);
  const LeafEditor& editor = *locked.editor;
  const bool is_delete = Removes(batch.mode());
  const bool is_sweep = batch.mode() == WriteMode::kExpire;
  // A sweep tells of each key whether it has expired, and has them all.
  bool has_changed = !is_sweep && DropExpired(editor, scratch);
  scratch.fresh.resize(end - first);
  auto fresh = scratch.fresh.begin();
  auto next = by_key.begin();
  for (size_t position = first; position < end;) {
    const KeyView key = batch.key(position);
    const PrefixedKey prefixed(key);
    while (next != by_key.end() && PrefixedKey(old[*next].key) < prefixed) ++next;
    const bool is_there = next != by_key.end() && AreEqual(old[*next].key, key);
    Entry* const at = is_there ? &old[*next] : nullptr;
    const bool was_dropped = is_there && scratch.is_gone[*next] != 0;
    const bool has_expired = is_there && (was_dropped || editor.HasExpired(*at));
    const bool goes = is_sweep ? is_there && rules::MayExpire(has_expired) : is_there;
    if (goes && !was_dropped && at->has_block()) scratch.replaced.push_back(at->block());
    const bool is_alive = is_there && !has_expired;
    // Equal keys keep their order: the last one decides what is stored, and each has its own
    // result.
    const size_t begin = position;
    do {
      if (is_delete) {
        const bool is_found = is_sweep ? goes : is_alive;
        const bool is_absent = !is_found || position != begin;
        batch.NoteApplied(position, is_absent ? Status(MakeError(Code::kNotFound)) : Ok());
      }
      ++position;
    } while (position < end && AreEqual(batch.key(position), key));
    const uint64_t count = position - begin;
    if (is_delete) {
      const uint64_t deleted = (is_sweep ? goes : is_alive) ? 1 : 0;
      tally.deleted += deleted;
      tally.refused += count - deleted;
      if (goes) scratch.is_gone[*next] = 1;
    } else {
      const uint64_t inserted = is_alive ? 0 : 1;
      tally.inserted += inserted;
      tally.updated += count - inserted;
      // The block of a write that another one follows is not stored.
      for (size_t i = begin; i + 1 < position; ++i) {
        if (batch.has_block(i)) batch.SetBlock(i, nullptr);
      }
      Entry entry = batch.entry(position - 1);
      if (is_alive) entry.expires_at = at->expires_at;
      for (size_t i = begin; i < position; ++i) {
        entry.expires_at = editor.TimeOf(batch.expiry(i), entry.expires_at);
      }
      if (is_there) {
        *at = entry;
        scratch.is_gone[*next] = 0;
      } else {
        *fresh++ = entry;
      }
    }
    has_changed = has_changed || goes || !is_delete;
  }
  scratch.fresh.erase(fresh, scratch.fresh.end());
  return has_changed;
}

bool LeafRewriter::Overwrite(LockedLeaf& locked, const WriteBatch& batch, size_t first,
                             size_t end) const {
  LeafEditor& editor = *locked.editor;
  if (batch.mode() != WriteMode::kPut || editor.changed() != 0) return false;
  for (size_t position = first; position < end; ++position) {
    // The block that it replaces has to be freed, which the merge does.
    Entry entry = batch.entry(position);
    entry.expires_at = editor.TimeOf(batch.expiry(position), 0);
    const uint32_t home = context_.geometry().GroupOf(KeyHash(entry.key));
    // So does one that keeps the time of what it replaces.
    const bool is_plain = !entry.has_block() && !batch.expiry(position).keeps();
    if (!is_plain || !editor.Overwrite(entry, home)) {
      // The merge that follows does all of them, and reads the entries from the image.
      editor.ForgetChanges();
      return false;
    }
  }
  editor.SealOverwritten();
  return true;
}

// 1 RT.
Task<Status> LeafRewriter::CommitWhole(LockedLeaf& locked, LocalAddress bytes) const {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  InlineBatch<2> batch(locked.leaf().server());
  batch.Add(Verb::Write(locked.leaf().offset(), node_bytes, bytes));
  LockTable::Waiter* next = locked.lock.NextWaiter();
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Commit(
      batch, next != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease));
  if (next != nullptr) {
    if (bytes.data != locked.image().data) {
      std::copy_n(bytes.data, node_bytes, locked.image().data);
      leaves_.AcceptRewritten(locked);
    }
    leaves_.HandOver(locked, *next);
  }
  co_return Ok();
}

void LeafRewriter::CollectInUnitOrder(Scratch& scratch) {
  scratch.merged.clear();
  for (size_t i = 0; i < scratch.old.size(); ++i) {
    if (scratch.is_gone[i] == 0) scratch.merged.push_back(scratch.old[i]);
  }
  scratch.merged.insert(scratch.merged.end(), scratch.fresh.begin(), scratch.fresh.end());
}

void LeafRewriter::CollectByKey(Scratch& scratch) {
  scratch.merged.resize(scratch.old.size() + scratch.fresh.size());
  auto merged = scratch.merged.begin();
  auto fresh = scratch.fresh.begin();
  for (const uint32_t index : scratch.by_key) {
    if (scratch.is_gone[index] != 0) continue;
    const Entry& entry = scratch.old[index];
    const PrefixedKey key(entry.key);
    while (fresh != scratch.fresh.end() && rules::ComesBefore(PrefixedKey(fresh->key), key)) {
      *merged++ = *fresh++;
    }
    *merged++ = entry;
  }
  merged = std::copy(fresh, scratch.fresh.end(), merged);
  scratch.merged.erase(merged, scratch.merged.end());
}

Task<Status> LeafRewriter::Rewrite(Op& op, LeafJob& job, WriteBatch& batch, size_t first,
                                   size_t end, WriteTally& tally) {
  LockedLeaf& locked = job.locked;
  assert(locked.lock.is_held() && locked.trailer);
  if (!locked.trailer->low().Matches(locked.path.low)) {
    co_return co_await locked.lock.ReleaseAfter(
        CorruptNode(locked.leaf(), "a leaf that does not start where its parent says"));
  }
  if (Overwrite(locked, batch, first, end)) {
    tally.updated += end - first;
    // Here the whole leaf is known, whatever the hint said: only one that has cost a READ is
    // corrected.
    if (locked.path.has_parent() && locked.editor->was_misled())
      leaves_.LearnHint(locked, locked.path.low);
    // As a write of each changed unit, in any order: none of them sets a flag that leads to another
    // (rule W1). One WRITE of the leaf is less work than several of units. The version stays: to
    // readers each unit changes by itself.
    locked.editor->ForgetChanges();
    co_return co_await CommitWhole(locked, locked.image());
  }
  const Status known = co_await leaves_.ReadLongKeys(op, locked);
  if (!known) co_return co_await locked.lock.ReleaseAfter(known.error());
  const auto scratch = idle_.Take(context_.geometry());
  const bool has_changed = Merge(locked, batch, first, end, *scratch, tally);
  if (!has_changed && locked.editor->changed() == 0) co_return co_await committer_.Commit(job);
  BOOST_OUTCOME_CO_TRYV(co_await WriteMerged(op, locked, batch, *scratch, tally.deleted != 0));
  context_.memory.FreeBlocks(op, scratch->replaced);
  co_return Ok();
}

Task<Status> LeafRewriter::WriteMerged(Op& op, LockedLeaf& locked, const WriteBatch& batch,
                                       Scratch& scratch, bool are_fewer) {
  CollectInUnitOrder(scratch);
  LeafContent content{Next(locked.unit(0).version()), locked.path.low, locked.unit(0).high(),
                      locked.trailer->sibling(), scratch.merged};
  // Fewer entries always fit.
  const LeafPacker::Own own =
      scratch.fresh.empty() ? LeafPacker::Own::kAsNeeded : LeafPacker::Own::kForRoom;
  if (scratch.packer.PlaceAll(content, own)) {
    BOOST_OUTCOME_CO_TRYV(co_await RewriteInPlace(locked, content, scratch.packer));
    if (are_fewer) NoteIfSparse(locked, content, scratch.packer);
    co_return Ok();
  }
  CollectByKey(scratch);
  co_return co_await splitter_.Split(op, locked, scratch.packer, PartsOf(locked, batch, scratch));
}

std::vector<LeafSplitter::Part> LeafRewriter::PartsOf(const LockedLeaf& locked,
                                                      const WriteBatch& batch,
                                                      const Scratch& scratch) {
  using Part = LeafSplitter::Part;
  using Parts = std::vector<Part>;
  using Rest = LeafSplitter::Rest;
  const std::span<const Entry> entries = scratch.merged;
  const HighFence high = locked.unit(0).high();
  const auto one_part = [&](Rest rest) { return Parts{{entries, high, 1, rest}}; };
  const auto usual = [&] { return Parts{{entries, high, LeafSplitter::kUsualFill, Rest::kToAll}}; };
  if (batch.fill() != 0) return {{entries, high, batch.fill(), Rest::kToLast}};
  if (scratch.fresh.empty()) return usual();
  const auto find = [&](const Entry& entry) {
    return static_cast<size_t>(std::ranges::lower_bound(entries, entry.key, {}, &Entry::key) -
                               entries.begin());
  };
  const size_t first = find(scratch.fresh.front());
  const size_t end = find(scratch.fresh.back()) + 1;
  const size_t above = entries.size() - end;
  if (end - first != scratch.fresh.size()) {
    // At the right edge of the tree, new keys may come a little out of order.
    const bool at_edge = high.infinite && entries.size() - first - scratch.fresh.size() <=
                                              entries.size() / kEdgeFraction;
    return at_edge ? one_part(Rest::kToLast) : usual();
  }
  if (above == 0) return one_part(Rest::kToLast);
  // Many leaves are full then, and a last one more does not matter.
  const bool are_many = scratch.fresh.size() >= kManyLeaves * above;
  if (first == 0) return one_part(are_many ? Rest::kToLast : Rest::kToFirst);
  if (scratch.fresh.size() <= LeafJob::kFew) return usual();
  const auto cut_at = [&](size_t at, Rest rest) {
    const KeyView separator = Separator(entries[at - 1].key, entries[at].key);
    if (!IsShortFence(locked.path.low, separator)) return usual();
    return Parts{{entries.first(at), HighFence::At(separator), 1, rest},
                 {entries.subspan(at), high, 1, rest}};
  };
  // They go on with what they have more in common with.
  const bool ascend = CommonBytes(entries[first - 1].key, entries[first].key) >=
                      CommonBytes(entries[end - 1].key, entries[end].key);
  return ascend ? cut_at(end, Rest::kToLast) : cut_at(first, Rest::kToFirst);
}

void LeafRewriter::NoteIfSparse(const LockedLeaf& locked, const LeafContent& content,
                                const LeafPacker& packer) const {
  const size_t prefix_bytes = content.bounds().prefix.size();
  const size_t bytes = LeafPacker::BytesOf(content.entries, prefix_bytes);
  if (bytes * kSparseFraction > packer.Capacity(0)) return;
  context_.events.OnSparseLeaf(locked.path.low);
}

// 1 RT.
Task<Status> LeafRewriter::RewriteInPlace(LockedLeaf& locked, const LeafContent& content,
                                          LeafPacker& packer) {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  Result<BufferLease> lease = context_.links.Buffer(geometry.node_bytes());
  if (!lease) co_return co_await locked.lock.ReleaseAfter(lease.error());
  const std::span<std::byte> image(lease.value().data(), geometry.node_bytes());
  const uint64_t hint = packer.Encode(image, leaf, content);
  BOOST_OUTCOME_CO_TRYV(co_await CommitWhole(locked, lease.value().address()));
  if (locked.path.has_parent()) {
    context_.cache.ReplaceHint(locked.path.low, leaf, hint);
  }
  co_return Ok();
}

}  // namespace gossamer
