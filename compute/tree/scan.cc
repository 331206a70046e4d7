#include "compute/tree/scan.h"

#include <algorithm>
#include <memory>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

constexpr size_t kMaxLeaves = 32;
// A path that leads to wrong leaves this many times is corrupt.
constexpr uint32_t kMaxAttempts = 8;
// Most value blocks in flight, and most bytes of them in one buffer.
constexpr size_t kMaxBlocks = 32;
constexpr size_t kMaxBlockBytes = BufferPool::kMaxBytes;

size_t PaddedBytes(const BlockRef& block) { return (BlockReadBytes(block.length) + 63) / 64 * 64; }

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

void ScanPage::Add(const LeafView& leaf, const ScanPosition& position) {
  std::vector<Entry> sorted;
  leaf.AppendTo(sorted);
  // If one key was seen twice, either entry was there during the scan.
  std::sort(sorted.begin(), sorted.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  sorted.erase(std::unique(sorted.begin(), sorted.end(), rules::IsSeenTwice), sorted.end());
  if (position.reverse) std::reverse(sorted.begin(), sorted.end());
  for (const Entry& entry : sorted) {
    const bool inside =
        position.reverse ? position.below.Admits(entry.key) : entry.key >= position.from.view();
    if (!inside) continue;
    if (entry.is_block) blocks.emplace_back(entries.size(), entry.block());
    entries.push_back(
        {std::string(entry.key), entry.is_block ? std::string() : std::string(entry.stored)});
  }
}

void ScanPage::EraseGone() {
  for (auto index = gone.rbegin(); index != gone.rend(); ++index) {
    entries.erase(entries.begin() + static_cast<ptrdiff_t>(*index));
  }
}

Task<Status> Scanner::ScanLeaves(ScanPosition& position, size_t leaves,
                                 std::vector<ScannedEntry>& entries) {
  Op op;
  ScanPage page(entries);
  leaves = std::min(leaves, kMaxLeaves);
  Status status = Ok();
  for (uint32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (position.reverse) {
      status = co_await ScanLeft(op, position, leaves, page);
    } else {
      status = co_await ScanRight(op, position, leaves, page);
    }
    if (status && page.is_too_far) {
      page.is_too_far = false;
      page.trust = Descent::Trust::kNothing;
      continue;
    }
    if (status) break;
    const bool again = co_await context_.links.RecoverFrom(op, status.error());
    if (again) {
      attempt = 0;  // RecoverFrom counts losses
      continue;
    }
    // Corruption may come from a stale path, which has been dropped. Entries emitted so far stand.
    if (status.error().code != Code::kCorruption) break;
    const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
    if (!root) {
      status = root.error();
      break;
    }
  }
  if (status && !page.blocks.empty()) {
    status = co_await FillBlocks(op, page);
    while (!status) {
      const bool again = co_await context_.links.RecoverFrom(op, status.error());
      if (!again) break;
      status = co_await FillBlocks(op, page);
    }
    page.EraseGone();
  }
  context_.counters.of(OperationClass::kScan) += op.wire;
  co_return status;
}

Task<Result<Scanner::LeafRun>> Scanner::ReadRun(Op& op, const ScanPosition& position, size_t leaves,
                                                Descent::Trust trust) {
  LeafRun run;
  const auto collect = [&] {
    return position.reverse ? context_.cache.CollectLeft(position.below, leaves, run.refs)
                            : context_.cache.CollectRight(position.from, leaves, run.refs);
  };
  if (trust == Descent::Trust::kCache && collect() != 0) {
    ++context_.counters.cache.hits;
  } else {
    const SearchGoal goal =
        position.reverse ? SearchGoal::Below(position.below) : SearchGoal::Covering(position.from);
    const Result<NodeCache::Step> path = co_await context_.descent.To(op, goal, 0, trust);
    if (!path) co_return path.error();
    ++context_.counters.cache.misses;
    if (collect() == 0) {
      run.refs.push_back({path.value().node, path.value().parent, path.value().low});
    }
  }
  Result<BufferLease> images =
      context_.links.Buffer(run.refs.size() * context_.store.parameters.node_bytes);
  if (!images) co_return images.error();
  run.images = std::move(images.value());
  BOOST_OUTCOME_CO_TRYV(co_await ReadLeaves(op, run.refs, run.images));
  co_return std::move(run);
}

Result<Scanner::Moved> Scanner::MoveToSibling(const LeafView& leaf, ScanPage& page,
                                              NodeCache::LeafRef& ref) {
  const RemotePtr sibling = leaf.trailer().sibling();
  if (sibling.is_null()) return CorruptNode(ref.leaf, "a leaf that ends early");
  const NodeCache::Step path{ref.leaf, 0, ref.parent, 0, ref.low};
  if (!path.has_parent() && page.trust == Descent::Trust::kCache) {
    page.is_too_far = true;
    return Moved::kTooFar;
  }
  context_.cache.ForgetPath(path);
  context_.missing.Note(ref.leaf, 0);
  ref = {sibling, RemotePtr(), leaf.high().key};
  return Moved::kToSibling;
}

Task<Status> Scanner::ScanRight(Op& op, ScanPosition& position, size_t leaves, ScanPage& page) {
  const Result<LeafRun> run = co_await ReadRun(op, position, leaves, page.trust);
  if (!run) co_return run.error();
  const std::vector<NodeCache::LeafRef>& refs = run.value().refs;
  const uint32_t bytes = context_.store.parameters.node_bytes;
  for (size_t i = 0; i < refs.size(); ++i) {
    NodeCache::LeafRef ref = refs[i];
    std::span<const std::byte> image(run.value().images.data() + i * bytes, bytes);
    // This leaf, then the siblings that split off it, up to the next leaf that the parent knows.
    for (;;) {
      const Result<BufferLease> taken = co_await TakeLeaf(op, ref, image);
      if (!taken) co_return taken.error();
      const std::span<const std::byte> valid =
          taken.value() ? std::span<const std::byte>(taken.value().data(), bytes) : image;
      const std::optional<LeafView> leaf = LeafView::Parse(valid, ref.leaf, context_.geometry());
      page.Add(*leaf, position);
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
      const Result<Moved> moved = MoveToSibling(*leaf, page, ref);
      if (!moved) co_return moved.error();
      if (moved.value() == Moved::kTooFar) co_return Ok();
      image = {};
    }
  }
  co_return Ok();
}

// Mirrors ScanRight: each leaf that the parent knows, with the siblings that split off it, from
// right to left.
Task<Status> Scanner::ScanLeft(Op& op, ScanPosition& position, size_t leaves, ScanPage& page) {
  const Result<LeafRun> run = co_await ReadRun(op, position, leaves, page.trust);
  if (!run) co_return run.error();
  const std::vector<NodeCache::LeafRef>& refs = run.value().refs;
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const auto reaches = [&position](const HighFence& high) {
    return high.infinite ||
           (!position.below.infinite && high.key.view() >= position.below.key.view());
  };
  for (size_t i = 0; i < refs.size(); ++i) {
    NodeCache::LeafRef ref = refs[i];
    std::span<const std::byte> image(run.value().images.data() + i * bytes, bytes);
    std::vector<std::pair<RemotePtr, std::vector<std::byte>>> chain;
    for (;;) {
      const Result<BufferLease> taken = co_await TakeLeaf(op, ref, image);
      if (!taken) co_return taken.error();
      const std::byte* valid = taken.value() ? taken.value().data() : image.data();
      chain.emplace_back(ref.leaf, std::vector<std::byte>(valid, valid + bytes));
      const std::optional<LeafView> leaf =
          LeafView::Parse(chain.back().second, ref.leaf, context_.geometry());
      if (reaches(leaf->high())) break;
      const Result<Moved> moved = MoveToSibling(*leaf, page, ref);
      if (!moved) co_return moved.error();
      if (moved.value() == Moved::kTooFar) co_return Ok();
      image = {};
    }
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
      page.Add(*LeafView::Parse(link->second, link->first, context_.geometry()), position);
    }
    position.below = HighFence::At(refs[i].low);
    if (refs[i].low.view().empty()) {
      position.done = true;
      co_return Ok();
    }
  }
  co_return Ok();
}

Task<Status> Scanner::ReadLeaves(Op& op, std::span<const NodeCache::LeafRef> refs,
                                 const BufferLease& images) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  BatchesByServer batches;
  for (size_t i = 0; i < refs.size(); ++i) {
    const Status valid = co_await context_.links.ConnectFor(refs[i].leaf, bytes);
    if (!valid) co_return valid.error();
    batches.Add(refs[i].leaf.server(),
                Verb::Read(refs[i].leaf.offset(), bytes, images.address(i * bytes)));
  }
  co_await context_.links.ExecuteAll(op, batches.all());
  const Batch* failed = batches.FirstFailed();
  if (failed != nullptr) co_return Links::Unreachable(op, *failed);
  co_return Ok();
}

Task<Result<BufferLease>> Scanner::TakeLeaf(Op& op, const NodeCache::LeafRef& ref,
                                            std::span<const std::byte> image) {
  Result<BufferLease> again = BufferLease();
  std::optional<LeafView> leaf;
  if (!image.empty()) leaf = LeafView::Parse(image, ref.leaf, context_.geometry());
  if (!leaf) {
    if (!image.empty()) ++context_.counters.rereads;
    again = co_await context_.nodes.ReadLeaf(op, ref.leaf);
    if (!again) co_return again.error();
    leaf = LeafView::Parse({again.value().data(), context_.store.parameters.node_bytes}, ref.leaf,
                           context_.geometry());
  }
  if (!leaf->trailer().low().Matches(ref.low)) {
    context_.cache.ForgetPath({ref.leaf, 0, ref.parent, 0, ref.low});
    co_return CorruptNode(ref.leaf, "a leaf whose low fence is not its separator");
  }
  if (!ref.parent.is_null()) {
    context_.cache.ReplaceHint(ref.low, ref.leaf, HintOf(*leaf, context_.geometry()));
  }
  co_return std::move(again.value());
}

Task<Status> Scanner::FillBlocks(Op& op, ScanPage& page) {
  page.gone.clear();
  for (size_t first = 0; first < page.blocks.size();) {
    size_t last = first;
    size_t total = 0;
    while (last < page.blocks.size() && last - first < kMaxBlocks) {
      const size_t bytes = PaddedBytes(page.blocks[last].second);
      if (last != first && total + bytes > kMaxBlockBytes) break;
      total += bytes;
      ++last;
    }
    BOOST_OUTCOME_CO_TRYV(co_await FillSome(op, page, first, last));
    first = last;
  }
  co_return Ok();
}

Task<Status> Scanner::FillSome(Op& op, ScanPage& page, size_t first, size_t last) {
  const std::span<const std::pair<size_t, BlockRef>> blocks(&page.blocks[first], last - first);
  size_t total = 0;
  for (const auto& [index, block] : blocks) total += PaddedBytes(block);
  Result<BufferLease> buffer = context_.links.Buffer(total);
  if (!buffer) co_return buffer.error();
  BatchesByServer batches;
  size_t offset = 0;
  for (const auto& [index, block] : blocks) {
    BOOST_OUTCOME_CO_TRYV(co_await context_.blocks.ConnectFor(block));
    batches.Add(block.ptr().server(), Verb::Read(block.ptr().offset(), BlockReadBytes(block.length),
                                                 buffer.value().address(offset)));
    offset += PaddedBytes(block);
  }
  co_await context_.links.ExecuteAll(op, batches.all());
  const Batch* failed = batches.FirstFailed();
  if (failed != nullptr) co_return Links::Unreachable(op, *failed);
  offset = 0;
  for (const auto& [index, block] : blocks) {
    const std::optional<std::string_view> value =
        BlockReader::ValueIn(block, {buffer.value().data() + offset, BlockReadBytes(block.length)});
    offset += PaddedBytes(block);
    if (value) {
      page.entries[index].value = *value;
      continue;
    }
    ++context_.counters.rereads;
    Result<std::string> fresh = co_await getter_.Get(op, page.entries[index].key);
    if (!fresh && fresh.error().code != Code::kNotFound) co_return fresh.error();
    if (!fresh) page.gone.push_back(index);
    if (fresh) page.entries[index].value = std::move(fresh.value());
  }
  co_return Ok();
}

}  // namespace gossamer
