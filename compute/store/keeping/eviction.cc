#include "compute/store/keeping/eviction.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compute/store/keeping/leaf_draw.h"
#include "gossamer/modifier.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

// Their keys are some 200, of small records: enough to tell the coldest tenth of all. Keys near
// each other may have come together, and be as cold as each other: so they are of several parents.
constexpr int kParents = 4;
constexpr size_t kLeavesOfEach = 2;

// Deletes a key that goes, once its lock is held.
class Evict final : public ValueModifier {
 public:
  Evict(uint64_t key_hash, EvictionChoice& choice) : key_hash_(key_hash), choice_(&choice) {}

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    has_deleted_ = value.has_value() && choice_->StillGoes(key_hash_, expiry);
    return has_deleted_ ? Change{Kind::kDelete, {}, {}} : Change{};
  }
  bool wants_value() const override { return false; }
  bool has_deleted() const { return has_deleted_; }

 private:
  uint64_t key_hash_;
  EvictionChoice* choice_;
  bool has_deleted_ = false;
};

// What was drawn. `keys` and `blocks` are those of the candidates, in their order.
struct Drawn {
  std::vector<EvictionCandidate> candidates;
  std::vector<std::string> keys;                // of a long key the first bytes
  std::vector<std::optional<BlockRef>> blocks;  // of long keys
};

Drawn CandidatesOf(Tree& tree, const std::vector<DrawnLeaf>& leaves, const EvictionChoice& choice) {
  Drawn drawn;
  std::vector<size_t> with_block;
  std::vector<BlockPtr> pointers;
  for (const DrawnLeaf& leaf : leaves) {
    ForEachEntry(tree, leaf, [&](const Entry& entry) {
      if (!choice.MayGo(entry.key)) return;
      const uint64_t block = entry.has_block() ? BlockBytes(entry.block().length) : 0;
      drawn.candidates.push_back({entry.key_hash(), Expiry::FromStored(entry.expires_at),
                                  block + entry.key.size() + entry.StoredAndExpiryBytes(), block});
      if (entry.has_block()) {
        with_block.push_back(drawn.candidates.size() - 1);
        pointers.push_back(entry.block().ptr());
      }
      drawn.keys.emplace_back(entry.key);
      drawn.blocks.push_back(entry.is_long() ? std::optional(entry.block()) : std::nullopt);
    });
  }
  const std::vector<bool> are_ours = tree.shared_allocator().AreOurs(pointers);
  for (size_t i = 0; i < pointers.size(); ++i) {
    drawn.candidates[with_block[i]].is_own = are_ours[i];
  }
  return drawn;
}

}  // namespace

Task<Result<EvictedKeys>> EvictSome(Tree& tree, Random& random, EvictionChoice& choice) {
  EvictedKeys evicted;
  std::vector<DrawnLeaf> leaves;
  double leaves_in_tree = 0;
  for (int i = 0; i < kParents; ++i) {
    BOOST_OUTCOME_CO_TRY(some, co_await DrawLeaves(tree, random, kLeavesOfEach));
    leaves_in_tree += some.leaves_in_tree / kParents;
    const auto is_drawn = [&leaves](const DrawnLeaf& leaf) {
      return std::ranges::find(leaves, leaf.pointer, &DrawnLeaf::pointer) != leaves.end();
    };
    for (DrawnLeaf& leaf : some.leaves) {
      if (!is_drawn(leaf)) leaves.push_back(std::move(leaf));
    }
  }
  if (leaves.empty()) co_return evicted;
  Drawn drawn = CandidatesOf(tree, leaves, choice);
  evicted.candidates = drawn.candidates.size();
  evicted.keys_in_store = leaves_in_tree * static_cast<double>(drawn.candidates.size()) /
                          static_cast<double>(leaves.size());
  choice.Choose(drawn.candidates);
  std::vector<size_t> victims;
  for (size_t i = 0; i < drawn.candidates.size(); ++i) {
    if (!drawn.candidates[i].goes) continue;
    if (const std::optional<BlockRef> block = drawn.blocks[i]; block) {
      BOOST_OUTCOME_CO_TRY(bytes, co_await tree.ReadBlock(*block));
      const std::optional<LongContent> content = bytes ? SplitLongContent(*bytes) : std::nullopt;
      if (!content) continue;  // it was replaced since
      drawn.keys[i] = content->key;
    }
    victims.push_back(i);
  }
  std::vector<Evict> deletions;
  deletions.reserve(victims.size());
  std::vector<KeyModifier> modifiers;
  for (const size_t i : victims) {
    deletions.emplace_back(drawn.candidates[i].key_hash, choice);
    modifiers.push_back({drawn.keys[i], &deletions.back()});
  }
  std::vector<Status> results(victims.size(), Ok());
  co_await tree.batches().Modify(modifiers, results);
  for (size_t i = 0; i < victims.size(); ++i) {
    if (!results[i]) co_return results[i].error();
    if (!deletions[i].has_deleted()) continue;
    ++evicted.deleted;
    evicted.bytes += drawn.candidates[victims[i]].bytes;
  }
  co_return evicted;
}

}  // namespace gossamer
