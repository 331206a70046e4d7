// What a scan waits for.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "compute/rules/rules.h"
#include "compute/tree/read/scan.h"
#include "compute/tree/read/scan_bookmark.h"

namespace gossamer {
namespace {

// A position from which paths lead to wrong leaves this many times in a row is that of damage.
constexpr uint32_t kMostFailures = 8;
// A block is damaged if it is not what a leaf says, and the leaf, read again behind that, says the
// same. Once would show it; a frozen leaf may be read in between, whose entries are another's.
constexpr uint32_t kMaxReadsOfALeaf = 8;

}  // namespace

Task<Status> Scanner::Fetch(Scan& scan) {
  const RunningOperations::Scope scope(context_.running);
  DropOldRuns(scan);
  Op op;
  op.began = scan.looked_up;
  Status status = Ok();
  scan.page.blocks.clear();
  for (;;) {
    status = co_await FetchSome(op, scan);
    if (status) break;
    DropRuns(scan);
    const bool again = co_await context_.links.RecoverFrom(op, status.error());
    if (again) continue;
    // Corruption may come from a stale path, which has been dropped. Entries emitted so far stand.
    if (status.error().code != Code::kCorruption || HasFailedTooOften(scan)) break;
    const Result<RootWord> root =
        co_await context_.links.Retry(op, [&] { return context_.nodes.ReadRoot(op); });
    if (!root) {
      status = root.error();
      break;
    }
  }
  context_.counters.of(OperationClass::kScan) += op.wire;
  co_return status;
}

bool Scanner::HasFailedTooOften(Scan& scan) {
  scan.failures = scan.failed_at == scan.position ? scan.failures + 1 : 1;
  scan.failed_at = scan.position;
  return scan.failures >= kMostFailures;
}

Task<Status> Scanner::FetchSome(Op& op, Scan& scan) {
  ScanPage& page = scan.page;
  if (scan.resume_at != 0) {
    BOOST_OUTCOME_CO_TRYV(co_await Resume(op, scan));
    if (scan.position.done) co_return Ok();
  }
  if (page.ready == page.entries.size()) {
    if (scan.WantsBookmark()) {
      BOOST_OUTCOME_CO_TRYV(co_await MarkParent(op, scan));
      if (scan.bookmark) co_return Ok();
    }
    const bool is_at_end = scan.run == nullptr || scan.at == scan.run->refs.size();
    const bool begins = !scan.hop && is_at_end;
    if (begins) {
      BOOST_OUTCOME_CO_TRYV(co_await BeginRun(op, scan));
    }
    if (begins && TakeNext(scan)) {
      // Nothing more to wait for.
    } else if (scan.range.reverse) {
      BOOST_OUTCOME_CO_TRYV(co_await StepLeft(op, scan));
    } else {
      BOOST_OUTCOME_CO_TRYV(co_await StepRight(op, scan));
    }
    page.FindReady();
  }
  const bool needs_blocks = scan.taken == page.ready && page.ready < page.entries.size();
  if (!needs_blocks) co_return Ok();
  co_return co_await FillBlocks(op, scan);
}

Task<Status> Scanner::Resume(Op& op, Scan& scan) {
  const Result<std::optional<Key>> low =
      co_await context_.nodes.ReadLowFence(op, bookmark::NodeOf(scan.resume_at));
  if (!low) co_return low.error();
  const uint64_t resume_at = std::exchange(scan.resume_at, 0);
  if (!low.value()) co_return Ok();
  const Key& from = *low.value();
  if (bookmark::Of(bookmark::NodeOf(resume_at), from) != resume_at) co_return Ok();
  if (from.view() > scan.position.from.view()) scan.position.from = from;
  scan.position.done = !IsBeforeEnd(from, scan.range, scan.position);
  co_return Ok();
}

// The node is READ, as the cache may be of the past: the bookmark would be lost as it is made.
Task<Status> Scanner::MarkParent(Op& op, Scan& scan) {
  const Key& from = scan.position.from;
  const Result<NodeCache::Step> found =
      co_await context_.descent.To(op, SearchGoal::Covering(from), 1);
  if (!found) co_return found.error();
  const NodeCache::Step& step = found.value();
  if (step.level != 1 || step.low != from) co_return Ok();
  const Result<std::optional<Key>> low = co_await context_.nodes.ReadLowFence(op, step.node);
  if (!low) co_return low.error();
  if (low.value() == from) {
    scan.bookmark = {bookmark::Of(step.node, from), std::string(from.view())};
  } else {
    context_.cache.ForgetPath(step);
  }
  co_return Ok();
}

Task<Status> Scanner::BeginRun(Op& op, Scan& scan) {
  while (scan.next != nullptr && scan.next->in_flight) co_await scan.next->arrived.Wait();
  if (TakeNextRun(scan)) co_return Ok();
  DropRuns(scan);
  scan.run = &runs_.Take();
  scan.run_trust = std::exchange(scan.trust, Descent::Trust::kCache);
  scan.may_read_ahead = scan.run_trust == Descent::Trust::kCache;
  LeafRun& run = *scan.run;
  const size_t leaves = LeavesFor(scan.left, scan);
  const auto collect = [&] { return runs_.Collect(run, scan.range, scan.position, leaves); };
  if (scan.run_trust == Descent::Trust::kCache && collect()) {
    ++context_.counters.cache.hits;
  } else {
    const SearchGoal goal = scan.range.reverse ? SearchGoal::Below(scan.position.below)
                                               : SearchGoal::Covering(scan.position.from);
    const Result<NodeCache::Step> path =
        co_await context_.descent.To(op, goal, 0, scan.run_trust, Descent::Admission::kAll);
    if (!path) co_return path.error();
    ++context_.counters.cache.misses;
    if (!collect()) {
      const NodeCache::Step& step = path.value();
      run.refs.push_back({step.node, step.parent, step.hint, step.low});
    }
  }
  co_return co_await runs_.Read(op, run);
}

Task<Result<LeafView>> Scanner::ReadLeaf(Op& op, ScanPage& page, const NodeCache::LeafRef& ref,
                                         std::span<const std::byte> image, bool came_over_left) {
  const LeafGeometry& geometry = context_.geometry();
  BufferLease again;
  std::optional<LeafView> leaf;
  if (!image.empty()) leaf = LeafView::Parse(image, ref.leaf, geometry, ref.low);
  if (!leaf) {
    if (!image.empty()) ++context_.counters.rereads;
    Result<BufferLease> read = co_await context_.nodes.ReadLeaf(op, ref.leaf, ref.low);
    if (!read) {
      // The memory may be another's by now.
      if (read.error().code == Code::kCorruption) {
        context_.cache.ForgetPath({ref.leaf, 0, ref.parent, 0, ref.low});
      }
      co_return read.error();
    }
    again = std::move(read.value());
    leaf = LeafView::Parse({again.data(), geometry.node_bytes()}, ref.leaf, geometry, ref.low);
  }
  const bool is_of_the_past = leaf->frozen() && !rules::MayReadFrozen(came_over_left);
  // Each hop goes right, or a chain of damaged leaves could lead back (rule W7).
  const HighFence high = leaf->high();
  const bool leads_right = high.infinite || high.key.view() > ref.low.view();
  if (is_of_the_past || !leads_right || !leaf->trailer().low().Matches(ref.low)) {
    context_.cache.ForgetPath({ref.leaf, 0, ref.parent, 0, ref.low});
    co_return CorruptNode(ref.leaf, is_of_the_past
                                        ? "a leaf that is frozen though a parent leads to it"
                                        : "a leaf that is not the one that its parent names");
  }
  LearnFrom(ref, *leaf);
  if (again) page.leaves.push_back(std::move(again));
  co_return *leaf;
}

Result<std::optional<NodeCache::LeafRef>> Scanner::Follow(Scan& scan, const Scan::Hop& hop) {
  if (hop.sibling.is_null()) return CorruptNode(hop.from.leaf, "a leaf that ends early");
  // This compute server may have split the leaf after the run was collected.
  found_.clear();
  HighFence end;
  const size_t found = context_.cache.CollectRight(hop.low, 1, found_, end);
  if (found != 0 && found_.front().low == hop.low) return std::optional(found_.front());
  const NodeCache::Step path{hop.from.leaf, 0, hop.from.parent, 0, hop.from.low};
  if (!path.has_parent() && scan.run_trust == Descent::Trust::kCache) {
    DropRuns(scan);
    scan.trust = Descent::Trust::kNothing;
    return std::optional<NodeCache::LeafRef>();
  }
  context_.cache.ForgetPath(path);
  context_.events.OnHop(hop.from.leaf, 0, hop.from.low);
  return std::optional(NodeCache::LeafRef{hop.sibling, RemotePtr(), 0, hop.low});
}

Task<Status> Scanner::StepRight(Op& op, Scan& scan) {
  if (!scan.hop) SkipPassed(scan);
  NodeCache::LeafRef ref = scan.run->refs[scan.at];
  std::span<const std::byte> image = scan.run->image(scan.at, context_.geometry().node_bytes());
  if (scan.hop) {
    const Result<std::optional<NodeCache::LeafRef>> next = Follow(scan, *scan.hop);
    if (!next) co_return next.error();
    if (!next.value()) co_return Ok();
    ref = *next.value();
    image = {};
  }
  const Result<LeafView> leaf =
      co_await ReadLeaf(op, scan.page, ref, image, ref.leaf == scan.named);
  if (!leaf) co_return leaf.error();
  PassRight(scan, ref, leaf.value());
  co_return Ok();
}

// Mirrors StepRight: the leaf with the siblings that split off it, from right to left.
Task<Status> Scanner::StepLeft(Op& op, Scan& scan) {
  std::deque<NodeCache::LeafRef> refs;  // stay where they are: views point to their low fences
  std::vector<LeafView> chain;
  std::span<const std::byte> image = scan.run->image(scan.at, context_.geometry().node_bytes());
  refs.push_back(scan.run->refs[scan.at]);
  RemotePtr named;
  for (;;) {
    const NodeCache::LeafRef& ref = refs.back();
    const Result<LeafView> read = co_await ReadLeaf(op, scan.page, ref, image, ref.leaf == named);
    if (!read) co_return read.error();
    const LeafView& leaf = chain.emplace_back(read.value());
    named = leaf.trailer().sibling();
    if (Reaches(scan, leaf)) break;
    const Result<std::optional<NodeCache::LeafRef>> behind =
        Follow(scan, {ref, named, leaf.high().key});
    if (!behind) co_return behind.error();
    if (!behind.value()) co_return Ok();
    refs.push_back(*behind.value());
    image = {};
  }
  for (const LeafView& leaf : std::views::reverse(chain)) AddLeaf(scan, leaf, true, true);
  PassLeft(scan);
  co_return Ok();
}

Task<Status> Scanner::FillBlocks(Op& op, Scan& scan) {
  ScanPage& page = scan.page;
  const auto has_next = [&scan] {
    return scan.run != nullptr && scan.at < scan.run->refs.size() && !scan.hop &&
           !scan.position.done;
  };
  while (has_next() && page.entries.size() - scan.taken < scan.left && TakeNext(scan)) {
  }
  size_t end = page.entries.size();
  if (!scan.to_bookmark) end = std::min<uint64_t>(end - page.ready, scan.left) + page.ready;
  CollectBlocks(scan, end);
  const size_t together = BlockFiller::CountTogether(page, scan.range, scan.blocks);
  if (together < scan.blocks.size()) end = scan.blocks[together];
  // Keys that begin as a long key does have no order yet: all long keys among them must be known
  // first.
  for (size_t number = page.ready; number < end; ++number) {
    const bool is_long = page.entries[number].kind == ScanEntry::Kind::kLong;
    if (is_long) end = std::max(end, page.EndOfTie(number));
  }
  CollectBlocks(scan, end);
  scan.gone.clear();
  for (std::span<const size_t> rest = scan.blocks; !rest.empty();) {
    const size_t count = BlockFiller::CountTogether(page, scan.range, rest);
    const Result<std::optional<BlockRef>> missed =
        co_await filler_.Fill(op, page, scan.range, rest.first(count), scan.gone);
    if (!missed) {
      // Of the long keys, some are known now and others are not: nothing tells any more which
      // entries have no order yet.
      if (!page.positions.empty()) ReadAgain(scan);
      co_return missed.error();
    }
    if (missed.value()) co_return co_await StartAgain(scan, *missed.value());
    rest = rest.subspan(count);
  }
  for (auto number = scan.gone.rbegin(); number != scan.gone.rend(); ++number) {
    page.entries.erase(page.entries.begin() + static_cast<ptrdiff_t>(*number));
  }
  if (!page.positions.empty()) page.Sort(page.ready, end - scan.gone.size(), scan.range.reverse);
  page.FindReady();
  co_return Ok();
}

void Scanner::CollectBlocks(Scan& scan, size_t end) {
  scan.blocks.clear();
  for (size_t number = scan.page.ready; number < end; ++number) {
    if (WantsBlock(scan.page.entries[number])) scan.blocks.push_back(number);
  }
}

void Scanner::ReadAgain(Scan& scan) {
  ScanPage& page = scan.page;
  scan.position = page.start;
  page.entries.resize(page.ready);
  DropRuns(scan);
  scan.has_passed = false;
}

Task<Status> Scanner::StartAgain(Scan& scan, const BlockRef& missed) {
  ++context_.counters.rereads;
  const bool is_same = scan.missed.block == missed.pointer;
  scan.missed = {missed.pointer, is_same ? scan.missed.times + 1 : 1};
  ReadAgain(scan);
  if (scan.missed.times <= kMaxReadsOfALeaf) {
    co_await context_.pauses.After(scan.missed.times);
    co_return Ok();
  }
  co_return MakeError(
      Code::kCorruption,
      fmt::format("a block at server {} offset {} that fails its checksum, of a long key in a leaf",
                  ToInteger(missed.ptr().server()), missed.ptr().offset()));
}

}  // namespace gossamer
