// Scans: leaves are read whole, many at a time, and joined by their fences.
//
// A leaf is a consistent unit (rule R2); the next one is the one whose low fence is its high fence: the parent's cached
// word for it is checked against that, and the sibling pointer of the whole leaf fills what is missing (rule R3).
#include <algorithm>
#include <array>
#include <memory>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr size_t kMaxLeaves = 32;
// A path that leads to the wrong leaves so many times is corrupt.
constexpr uint32_t kMaxAttempts = 8;
// Value blocks in flight at a time: their number, and their bytes in one buffer.
constexpr size_t kMaxBlocks = 32;
constexpr size_t kMaxBlockBytes = BufferPool::kMaxBytes;

// One batch for each memory server.
class BatchesByServer {
 public:
  using List = InlineBatch<kMaxLeaves>;

  void Add(ServerId server, const Verb& verb) {
    for (const std::unique_ptr<List>& batch : batches_) {
      if (batch->server() == server) {
        batch->Add(verb);
        return;
      }
    }
    batches_.push_back(std::make_unique<List>(server));
    pointers_.push_back(batches_.back().get());
    batches_.back()->Add(verb);
  }
  std::span<Batch* const> all() const { return pointers_; }
  const Batch* FirstFailed() const {
    for (const Batch* batch : pointers_) {
      if (batch->status() != VerbStatus::kSuccess) return batch;
    }
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<List>> batches_;
  std::vector<Batch*> pointers_;
};

}  // namespace

Task<Status> Tree::ScanLeaves(ScanPosition& position, size_t leaves,
                              std::vector<ScannedEntry>& entries) {
  Operation operation;
  ScanPage page{entries, {}, Trust::kCache, false, {}};
  leaves = std::min(leaves, kMaxLeaves);
  Status status = Ok();
  for (uint32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (position.reverse) {
      status = co_await ScanLeft(operation, position, leaves, page);
    } else {
      status = co_await ScanRight(operation, position, leaves, page);
    }
    if (status && page.is_far_off) {
      page.is_far_off = false;
      page.trust = Trust::kNothing;
      continue;
    }
    if (status) break;
    const bool again = co_await ShouldRetry(operation, status.error());
    if (again) {
      attempt = 0;  // A queue pair was lost; how often, is counted there.
      continue;
    }
    // Corruption may be a stale path; it has been dropped. What was emitted so far stands.
    if (status.error().code != Code::kCorruption) break;
    const Result<RootWord> root = co_await ReadRoot(operation);
    if (!root) {
      status = root.error();
      break;
    }
  }
  if (status && !page.blocks.empty()) {
    status = co_await FillBlocks(operation, page);
    while (!status) {
      const bool again = co_await ShouldRetry(operation, status.error());
      if (!again) break;
      status = co_await FillBlocks(operation, page);
    }
    // Deleted meanwhile: not there at that moment of the scan.
    for (auto index = page.gone.rbegin(); index != page.gone.rend(); ++index) {
      entries.erase(entries.begin() + static_cast<ptrdiff_t>(*index));
    }
  }
  counters_.of(OperationClass::kScan) += operation.wire;
  co_return status;
}

// 1 RT for what the cache knows of; 1 RT for each leaf that it does not know of yet.
Task<Result<Tree::LeafRun>> Tree::ReadRun(Operation& operation, const ScanPosition& position,
                                          size_t leaves, Trust trust) {
  LeafRun run;
  const auto collect = [&] {
    return position.reverse ? shared_.cache.CollectLeft(reader_, position.below, leaves, run.refs)
                            : shared_.cache.CollectRight(reader_, position.from, leaves, run.refs);
  };
  if (trust == Trust::kCache && collect() != 0) {
    ++counters_.cache.hits;
  } else {
    const SearchGoal goal =
        position.reverse ? SearchGoal::Below(position.below) : SearchGoal::Covering(position.from);
    const Result<Step> path = co_await Descend(operation, goal, 0, trust);
    if (!path) co_return path.error();
    ++counters_.cache.misses;
    if (collect() == 0) {
      run.refs.push_back({path.value().node, path.value().parent, path.value().low});
    }
  }
  Result<BufferLease> images = Buffer(run.refs.size() * shared_.parameters.node_bytes);
  if (!images) co_return images.error();
  run.images = std::move(images.value());
  BOOST_OUTCOME_CO_TRYV(co_await ReadLeaves(operation, run.refs, run.images));
  co_return std::move(run);
}

Result<bool> Tree::MoveToSibling(const LeafView& leaf, ScanPage& page, NodeCache::LeafRef& ref) {
  const RemotePtr sibling = leaf.trailer().sibling();
  if (sibling.is_null()) return CorruptNode(ref.leaf, "a leaf that ends early");
  const Step path{ref.leaf, 0, ref.parent, 0, Key()};
  if (IsFarOff(path) && page.trust == Trust::kCache) {
    page.is_far_off = true;
    return false;
  }
  ForgetPath(path);
  ScheduleRepair(ref.leaf, 0);
  ref = {sibling, RemotePtr(), leaf.high().key};
  return true;
}

Task<Status> Tree::ScanRight(Operation& operation, ScanPosition& position, size_t leaves,
                             ScanPage& page) {
  const Result<LeafRun> run = co_await ReadRun(operation, position, leaves, page.trust);
  if (!run) co_return run.error();
  const std::vector<NodeCache::LeafRef>& refs = run.value().refs;
  const uint32_t bytes = shared_.parameters.node_bytes;
  for (size_t i = 0; i < refs.size(); ++i) {
    NodeCache::LeafRef ref = refs[i];
    std::span<const std::byte> image(run.value().images.data() + i * bytes, bytes);
    // This leaf, then the siblings that split off it, up to the next one that the parent knows.
    for (;;) {
      const Result<BufferLease> taken = co_await TakeLeaf(operation, ref, image);
      if (!taken) co_return taken.error();
      const std::span<const std::byte> valid =
          taken.value() ? std::span<const std::byte>(taken.value().data(), bytes) : image;
      const std::optional<LeafView> leaf = LeafView::Parse(valid, ref.leaf, shared_.geometry);
      Emit(*leaf, position, page);
      const HighFence high = leaf->high();
      if (high.infinite) {
        position.done = true;
        co_return Ok();
      }
      const bool was_inside = high.Admits(position.from);
      if (was_inside) position.from = high.key;
      const bool last = i + 1 == refs.size();
      if (last && was_inside) co_return Ok();
      if (!last && high.key.view() >= refs[i + 1].low.view()) break;
      const Result<bool> moved = MoveToSibling(*leaf, page, ref);
      if (!moved) co_return moved.error();
      if (!moved.value()) co_return Ok();
      image = {};
    }
  }
  co_return Ok();
}

// The mirror image: each leaf that the parent knows, with the siblings that split off it, from right to left.
Task<Status> Tree::ScanLeft(Operation& operation, ScanPosition& position, size_t leaves,
                            ScanPage& page) {
  const Result<LeafRun> run = co_await ReadRun(operation, position, leaves, page.trust);
  if (!run) co_return run.error();
  const std::vector<NodeCache::LeafRef>& refs = run.value().refs;
  const uint32_t bytes = shared_.parameters.node_bytes;
  const auto reaches = [&position](const HighFence& high) {
    return high.infinite ||
           (!position.below.infinite && high.key.view() >= position.below.key.view());
  };
  for (size_t i = 0; i < refs.size(); ++i) {
    NodeCache::LeafRef ref = refs[i];
    std::span<const std::byte> image(run.value().images.data() + i * bytes, bytes);
    std::vector<std::pair<RemotePtr, std::vector<std::byte>>> chain;
    for (;;) {
      const Result<BufferLease> taken = co_await TakeLeaf(operation, ref, image);
      if (!taken) co_return taken.error();
      const std::byte* valid = taken.value() ? taken.value().data() : image.data();
      chain.emplace_back(ref.leaf, std::vector<std::byte>(valid, valid + bytes));
      const std::optional<LeafView> leaf =
          LeafView::Parse(chain.back().second, ref.leaf, shared_.geometry);
      if (reaches(leaf->high())) break;
      const Result<bool> moved = MoveToSibling(*leaf, page, ref);
      if (!moved) co_return moved.error();
      if (!moved.value()) co_return Ok();
      image = {};
    }
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
      Emit(*LeafView::Parse(link->second, link->first, shared_.geometry), position, page);
    }
    position.below = HighFence::At(refs[i].low);
    if (refs[i].low.view().empty()) {
      position.done = true;
      co_return Ok();
    }
  }
  co_return Ok();
}

// The leaf's entries within [from, below), each key once (rule R6), in the order asked for.
void Tree::Emit(const LeafView& leaf, const ScanPosition& position, ScanPage& page) {
  std::vector<Entry> sorted;
  leaf.AppendTo(sorted);
  // Of two that were seen of one key, either was there during the scan.
  std::sort(sorted.begin(), sorted.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  if (!IsBroken(Mutant::kR6)) {
    sorted.erase(std::unique(sorted.begin(), sorted.end(),
                             [](const Entry& a, const Entry& b) { return a.key == b.key; }),
                 sorted.end());
  }
  if (position.reverse) std::reverse(sorted.begin(), sorted.end());
  for (const Entry& entry : sorted) {
    const bool inside =
        position.reverse ? position.below.Admits(entry.key) : entry.key >= position.from.view();
    if (!inside) continue;
    if (entry.is_block) page.blocks.emplace_back(page.entries.size(), entry.block());
    page.entries.push_back(
        {std::string(entry.key), entry.is_block ? std::string() : std::string(entry.stored)});
  }
}

Task<Status> Tree::ReadLeaves(Operation& operation, std::span<const NodeCache::LeafRef> refs,
                              const BufferLease& images) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  BatchesByServer batches;
  for (size_t i = 0; i < refs.size(); ++i) {
    const Status valid = CheckPointer(refs[i].leaf, bytes);
    if (!valid) co_return valid.error();
    batches.Add(refs[i].leaf.server(),
                Verb::Read(refs[i].leaf.offset(), bytes, images.address(i * bytes)));
  }
  co_await ExecuteAll(operation, batches.all());
  const Batch* failed = batches.FirstFailed();
  if (failed != nullptr) co_return Unreachable(operation, *failed);
  co_return Ok();
}

// No RT if the image is whole: the lease returned is then empty.
Task<Result<BufferLease>> Tree::TakeLeaf(Operation& operation, const NodeCache::LeafRef& ref,
                                         std::span<const std::byte> image) {
  Result<BufferLease> again = BufferLease();
  std::optional<LeafView> leaf;
  if (!image.empty()) leaf = LeafView::Parse(image, ref.leaf, shared_.geometry);
  if (!leaf) {
    if (!image.empty()) ++counters_.rereads;
    again = co_await ReadLeafInto(operation, ref.leaf);
    if (!again) co_return again.error();
    leaf = LeafView::Parse({again.value().data(), shared_.parameters.node_bytes}, ref.leaf,
                           shared_.geometry);
  }
  if (!leaf->trailer().low().Matches(ref.low)) {
    ForgetPath({ref.leaf, 0, ref.parent, 0, Key()});
    co_return CorruptNode(ref.leaf, "a leaf whose low fence is not its separator");
  }
  if (!ref.parent.is_null()) {
    shared_.cache.ReplaceHint(reader_, ref.parent, ref.low, ref.leaf,
                              HintOf(*leaf, shared_.geometry));
  }
  co_return std::move(again.value());
}

// 1 RT for up to 32 blocks or 2 MiB of them. A block that has been replaced since is looked up by its key; one whose
// key has been deleted is in `page.gone`.
Task<Status> Tree::FillBlocks(Operation& operation, ScanPage& page) {
  page.gone.clear();
  size_t at = 0;
  while (at < page.blocks.size()) {
    size_t count = 0;
    size_t total = 0;
    while (at + count < page.blocks.size() && count < kMaxBlocks) {
      const size_t bytes = (BlockReadBytes(page.blocks[at + count].second.length) + 63) / 64 * 64;
      if (count != 0 && total + bytes > kMaxBlockBytes) break;
      total += bytes;
      ++count;
    }
    Result<BufferLease> buffer = Buffer(total);
    if (!buffer) co_return buffer.error();
    BatchesByServer batches;
    size_t offset = 0;
    for (size_t i = at; i < at + count; ++i) {
      const BlockRef& block = page.blocks[i].second;
      BOOST_OUTCOME_CO_TRYV(CheckBlock(block));
      batches.Add(block.ptr().server(),
                  Verb::Read(block.ptr().offset(), BlockReadBytes(block.length),
                             buffer.value().address(offset)));
      offset += (BlockReadBytes(block.length) + 63) / 64 * 64;
    }
    co_await ExecuteAll(operation, batches.all());
    const Batch* failed = batches.FirstFailed();
    if (failed != nullptr) co_return Unreachable(operation, *failed);
    offset = 0;
    for (size_t i = at; i < at + count; ++i) {
      const auto& [index, block] = page.blocks[i];
      const std::optional<std::string_view> value =
          ValueIn(block, {buffer.value().data() + offset, BlockReadBytes(block.length)});
      offset += (BlockReadBytes(block.length) + 63) / 64 * 64;
      if (value) {
        page.entries[index].value = *value;
        continue;
      }
      ++counters_.rereads;
      Result<std::string> fresh = co_await GetIn(operation, page.entries[index].key);
      if (!fresh && fresh.error().code != Code::kNotFound) co_return fresh.error();
      if (!fresh) page.gone.push_back(index);
      if (fresh) page.entries[index].value = std::move(fresh.value());
    }
    at += count;
  }
  co_return Ok();
}

}  // namespace gossamer
