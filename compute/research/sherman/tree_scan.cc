// Range scans: leaves of one parent are READ side by side.
#include <algorithm>

#include "compute/research/sherman/operation.h"
#include "compute/research/sherman/tree.h"

namespace gossamer::sherman {
namespace {

bool IsWhole(const LeafNode& leaf) {
  return leaf.is_consistent() && leaf.header.level == 0 &&
         std::ranges::all_of(leaf.entries,
                             [](const LeafEntry& entry) { return entry.is_consistent(); });
}

// Appends the pairs of a leaf from `from` on, in order.
void Append(const LeafNode& leaf, Key from, std::vector<Pair>& pairs) {
  const auto first = static_cast<std::ptrdiff_t>(pairs.size());
  for (const LeafEntry& entry : leaf.entries) {
    if (entry.is_used() && entry.key() >= from) pairs.push_back({entry.key(), entry.value()});
  }
  std::ranges::sort(pairs.begin() + first, pairs.end(), {}, &Pair::key);
}

}  // namespace

Task<Result<std::optional<Key>>> Tree::Scan(Key from, uint64_t most, std::vector<Pair>& pairs) {
  BOOST_OUTCOME_CO_TRY(own_buffer, Operation::Buffer(scheduler_));
  Operation op(counters_, OperationClass::kScan, std::move(own_buffer));
  op.CountAsPart();
  const size_t wanted = std::min<uint64_t>(kMostLeaves, 1 + most / kUsualEntries);
  std::vector<RemotePtr> leaves;
  server_.cache().FindLeaves(from, wanted, leaves);
  if (leaves.empty()) {
    BOOST_OUTCOME_CO_TRY(place, co_await Find(op, from, 0));
    server_.cache().FindLeaves(from, wanted, leaves);  // of the parent that this has read
    if (leaves.empty()) leaves.push_back(place.node);
  } else {
    ++counters_.cache.hits;
  }
  BOOST_OUTCOME_CO_TRY(buffer,
                       scheduler_.endpoint().buffers().Allocate(leaves.size() * kNodeBytes));
  BOOST_OUTCOME_CO_TRYV(co_await ReadLeaves(op, leaves, buffer.address()));
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& leaf =
        *std::launder(reinterpret_cast<const LeafNode*>(buffer.data() + i * kNodeBytes));
    if (!IsWhole(leaf) || !leaf.header.Covers(from)) {
      if (i != 0) break;  // the next call begins with this one
      do {
        BOOST_OUTCOME_CO_TRYV(co_await ReadLeaf(op, from));
      } while (!IsWhole(op.leaf()));
      Append(op.leaf(), from, pairs);
      if (op.header().high == kNoBound) co_return std::nullopt;
      co_return op.header().high;
    }
    Append(leaf, from, pairs);
    if (leaf.header.high == kNoBound) co_return std::nullopt;
    from = leaf.header.high;
  }
  co_return from;
}

Task<Status> Tree::ReadLeaves(Operation& op, std::span<const RemotePtr> leaves, LocalAddress into) {
  std::array<InlineBatch<1>, kMostLeaves> batches;
  std::array<Batch*, kMostLeaves> posted{};
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!server_.HasNodeAt(leaves[i])) {
      co_return MakeError(Code::kCorruption, "a parent has a child where no node can be");
    }
    batches[i].Reset(leaves[i].server());
    batches[i].Add(Verb::Read(leaves[i].offset(), kNodeBytes, into + i * kNodeBytes));
    op.CountVerbs(batches[i]);
    posted[i] = &batches[i];
  }
  op.CountRoundTrip();
  co_await scheduler_.endpoint().ExecuteAll(std::span(posted).first(leaves.size()));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (batches[i].status() == VerbStatus::kSuccess) continue;
    co_return MakeError(Code::kNodeUnreachable, "a memory server is lost");
  }
  co_return Ok();
}

}  // namespace gossamer::sherman
