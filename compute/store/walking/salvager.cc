#include "compute/store/walking/salvager.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

// A leaf whose long keys change is read so often.
constexpr uint32_t kMaxAttempts = 4;

// Of `ranges`, in which a leaf has keys that could not be read: what is between the keys `known` of
// the leaf. Both ascend. The result ascends and is disjoint.
std::vector<MissingKeys> Between(const std::vector<MissingKeys>& ranges,
                                 const std::vector<KeyView>& known) {
  std::vector<MissingKeys> between;
  std::string from;  // everything below was added
  for (const MissingKeys& range : ranges) {
    from = std::max(from, range.from);
    const auto is_inside = [&range](KeyView key) { return !range.to || key < *range.to; };
    auto next = std::ranges::lower_bound(known, KeyView(from));
    for (; next != known.end() && is_inside(*next); ++next) {
      if (from < *next) between.push_back({from, std::string(*next), range.why});
      from = std::string(*next) + '\0';
    }
    if (!is_inside(from)) continue;
    between.push_back({from, range.to, range.why});
    if (!range.to) break;
    from = *range.to;
  }
  return between;
}

}  // namespace

Task<Status> Salvager::SalvageLeaf(Scan& scan) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  const ScanPosition start = scan.position;
  const size_t missing = missing_.size();
  Status status = Ok();
  for (uint32_t attempt = 1;; ++attempt) {
    status = co_await SalvageRange(op, scan);
    if (!status) break;
    const Result<bool> filled = co_await SalvageBlocks(op, start, scan);
    if (!filled) status = filled.error();
    const bool is_stale = filled && !filled.value();
    if (!is_stale || attempt == kMaxAttempts) break;
    scan.position = start;
    scan.page.Clear();
    missing_.erase(missing_.begin() + static_cast<ptrdiff_t>(missing), missing_.end());
  }
  scan.page.FindReady(scan.range, context_.clock);
  context_.counters.of(OperationClass::kScan) += op.wire;
  Clip(scan);
  co_return status;
}

Task<Status> Salvager::SalvageRange(Op& op, Scan& scan) {
  ScanPosition& position = scan.position;
  Result<ReachedLeaf> reached = co_await ReachLeaf(op, position.from.view());
  if (!reached) co_return reached.error();
  RemotePtr at = reached.value().leaf;
  Key low = reached.value().low;
  Error why = reached.value().why;
  RemotePtr looked_up_again;
  // The leaf, then the siblings that split off it, up to the one that covers the position.
  while (!at.is_null()) {
    Result<BufferLease> image = co_await ReadUnlessLost(
        op, at.server(), [&] { return context_.nodes.ReadLeaf(op, at, low); });
    std::optional<LeafView> leaf;
    if (image) {
      const std::span<const std::byte> bytes(image.value().data(),
                                             context_.store.parameters.node_bytes);
      leaf = LeafView::Parse(bytes, at, context_.geometry(), low);
    }
    // A leaf that was merged since its parent was read is not that of the range any more.
    const bool may_be_gone = leaf ? leaf->frozen() : image.error().code == Code::kCorruption;
    if (may_be_gone && at == reached.value().leaf && at != looked_up_again) {
      looked_up_again = at;
      reached = co_await ReachLeaf(op, position.from.view());
      if (!reached) co_return reached.error();
      at = reached.value().leaf;
      low = reached.value().low;
      why = reached.value().why;
      continue;
    }
    if (!image) {
      why = image.error();
      break;
    }
    const HighFence high = leaf->high();
    if (high.Admits(position.from)) {
      scan.page.Add(*leaf, scanner_.sorter(), scan.range, position, true, true);
      scan.page.leaves.push_back(std::move(image.value()));
      position.done = high.infinite;
      if (!high.infinite) position.from = high.key;
      co_return Ok();
    }
    const RemotePtr sibling = leaf->trailer().sibling();
    if (sibling.is_null()) why = CorruptNode(at, "a leaf that ends early");
    at = sibling;
    low = high.key;
  }
  const HighFence& end = reached.value().end;
  AddMissing(position.from.view(), end, why);
  position.done = end.infinite;
  if (!end.infinite) position.from = end.key;
  co_return Ok();
}

Task<Result<Salvager::ReachedLeaf>> Salvager::ReachLeaf(Op& op, KeyView from) {
  const Result<RootWord> root =
      co_await ReadUnlessLost(op, ServerId{0}, [&] { return context_.nodes.ReadRoot(op); });
  if (!root) co_return root.error();
  RemotePtr at = root.value().pointer();
  ReachedLeaf reached;
  RemotePtr failed;
  for (uint32_t level = root.value().level(); level > 0;) {
    const Result<InternalNode> read = co_await ReadUnlessLost(
        op, at.server(), [&] { return context_.nodes.ReadInternal(op, at); });
    if (!read) {
      // A node that was merged since its parent was read: the root leads elsewhere now.
      const bool may_be_gone = read.error().code == Code::kCorruption && at != failed;
      if (may_be_gone) {
        failed = at;
        reached = {};
        at = root.value().pointer();
        level = root.value().level();
        continue;
      }
      reached.why = read.error();
      co_return reached;
    }
    const InternalNode& node = read.value();
    if (!node.high.Admits(from)) {
      if (node.sibling.is_null()) {
        reached.why = CorruptNode(at, "an internal node that ends early");
        co_return reached;
      }
      at = node.sibling;
      continue;
    }
    // Step over neighbours on one lost server together.
    size_t child = node.ChildIndex(from);
    at = node.children[child].pointer;
    const auto lost = lost_.find(at.server());
    if (lost != lost_.end()) {
      while (child + 1 < node.children.size() &&
             node.children[child + 1].pointer.server() == at.server()) {
        ++child;
      }
    }
    const bool is_last = child + 1 == node.children.size();
    if (!is_last) reached.end = HighFence::At(node.children[child + 1].separator);
    if (is_last && !node.high.infinite) reached.end = node.high;
    if (lost != lost_.end()) {
      reached.why = lost->second;
      co_return reached;
    }
    reached.low = node.children[child].separator;
    --level;
  }
  reached.leaf = at;
  co_return reached;
}

Task<Result<bool>> Salvager::SalvageBlocks(Op& op, const ScanPosition& start, Scan& scan) {
  using Numbers = std::vector<size_t>;
  using Kind = ScanEntry::Kind;
  ScanPage& page = scan.page;
  bool is_stale = false;
  std::map<ServerId, Numbers> by_server;
  for (size_t number = 0; number < page.entries.size(); ++number) {
    const ScanEntry& entry = page.entries[number];
    if (WantsBlock(entry)) by_server[BlockOf(entry).ptr().server()].push_back(number);
  }
  std::map<size_t, std::optional<Error>> dropped;  // entries, and why; nullopt if they were deleted
  Numbers gone;
  const auto fill = [&](ServerId server, std::span<const size_t> numbers) -> Task<Status> {
    gone.clear();
    const Result<std::optional<BlockRef>> missed = co_await ReadUnlessLost(op, server, [&] {
      gone.clear();
      return scanner_.filler().Fill(op, page, scan.range, numbers, gone);
    });
    for (const size_t number : gone) dropped[number] = std::nullopt;
    if (!missed) co_return missed.error();
    if (!missed.value()) co_return Ok();
    co_return MakeError(Code::kCorruption, "a long key whose block is another one");
  };
  for (const auto& [server, numbers] : by_server) {
    std::span<const size_t> rest = numbers;
    while (!rest.empty()) {
      const std::span<const size_t> some =
          rest.first(BlockFiller::CountTogether(page, scan.range, rest));
      rest = rest.subspan(some.size());
      const Status together = co_await fill(server, some);
      if (together) continue;
      // One of them may be damaged: read each alone. (A lost server is not asked again.)
      for (const size_t number : some) {
        const ScanEntry& entry = page.entries[number];
        if (!WantsBlock(entry) || dropped.contains(number)) continue;
        const Status alone = co_await fill(server, {&number, 1});
        if (alone) continue;
        dropped[number] = alone.error();
        is_stale =
            is_stale || (entry.kind == Kind::kLong && alone.error().code == Code::kCorruption);
      }
    }
  }
  std::vector<MissingKeys> missing;
  std::vector<MissingKeys> long_keys;
  std::optional<std::string> end;  // of the leaf
  if (!scan.position.done) end = std::string(scan.position.from.view());
  for (const auto& [number, why] : dropped) {
    if (!why) continue;
    const std::string key(page.entries[number].key());
    if (page.entries[number].kind != Kind::kLong) {
      missing.push_back({key, key + '\0', *why});
      continue;
    }
    // Its first bytes are known. It is anywhere behind them, but in the leaf.
    std::optional<std::string> to = PrefixEnd(key);
    if (!to || (end && *end < *to)) to = end;
    long_keys.push_back({std::max(key, std::string(StartOf(scan.range, start))), to, *why});
  }
  for (auto entry = dropped.rbegin(); entry != dropped.rend(); ++entry) {
    page.entries.erase(page.entries.begin() + static_cast<ptrdiff_t>(entry->first));
  }
  if (!page.positions.empty()) page.Sort(0, page.entries.size(), scan.range.reverse);
  std::vector<KeyView> known;
  for (const ScanEntry& entry : page.entries) known.push_back(entry.key());
  for (const MissingKeys& keys : missing) known.emplace_back(keys.from);
  std::ranges::sort(known);
  std::ranges::sort(long_keys, {}, &MissingKeys::from);
  std::ranges::move(Between(long_keys, known), std::back_inserter(missing));
  std::ranges::sort(missing, {}, &MissingKeys::from);
  std::ranges::move(missing, std::back_inserter(missing_));
  co_return !is_stale;
}

template <typename Read>
auto Salvager::ReadUnlessLost(Op& op, ServerId server, Read read) -> decltype(read()) {
  if (const auto lost = lost_.find(server); lost != lost_.end()) {
    co_return lost->second;
  }
  auto result = co_await context_.links.Retry(op, read);
  const bool is_lost = !result && result.error().code == Code::kNodeUnreachable;
  if (is_lost) lost_.emplace(server, result.error());
  co_return std::move(result);
}

void Salvager::AddMissing(KeyView from, const HighFence& end, const Error& why) {
  std::optional<std::string> to;
  if (!end.infinite) to = std::string(end.key.view());
  const bool continues =
      !missing_.empty() && missing_.back().to == from && missing_.back().why.message == why.message;
  if (continues) {
    missing_.back().to = std::move(to);
  } else {
    missing_.push_back({std::string(from), std::move(to), why});
  }
}

void Salvager::Clip(Scan& scan) {
  const std::optional<std::string>& to = scan.range.to;
  if (!to) return;
  if (scan.position.from.view() >= *to) scan.position.done = true;
  while (!missing_.empty() && missing_.back().from >= *to) missing_.pop_back();
  if (!missing_.empty() && (!missing_.back().to || *missing_.back().to > *to)) {
    missing_.back().to = *to;
  }
}

}  // namespace gossamer
