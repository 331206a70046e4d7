#include "compute/tree/read/scan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "compute/rules/rules.h"
#include "compute/tree/read/scan_bookmark.h"

namespace gossamer {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSixteenths = 16;

// A position from which paths lead to wrong leaves this many times in a row is that of damage.
constexpr uint32_t kMostFailures = 8;
// A block is damaged if it is not what a leaf says, and the leaf, read again behind that, says the
// same. Once would show it; a frozen leaf may be read in between, whose entries are another's.
constexpr uint32_t kMaxReadsOfALeaf = 8;

}  // namespace

std::unique_ptr<Scan> Scanner::Open(ScanRange range, uint64_t limit) {
  assert(!range.to || range.from < *range.to);
  if (idle_.empty()) idle_.push_back(std::make_unique<Scan>());
  std::unique_ptr<Scan> scan = std::move(idle_.back());
  idle_.pop_back();
  static_cast<ScanState&>(*scan) = {};
  // A bound may be longer than any key: the position is then before or behind all keys that start
  // with its first bytes.
  scan->position.from = Key(KeyView(range.from).substr(0, kMaxKeyBytes));
  if (range.to && range.to->size() <= kMaxKeyBytes) {
    scan->position.below = HighFence::At(*range.to);
  } else if (range.to) {
    const std::optional<std::string> end = PrefixEnd(range.to->substr(0, kMaxKeyBytes));
    if (end) scan->position.below = HighFence::At(*end);
  }
  scan->range = std::move(range);
  scan->left = limit;
  scan->period = context_.running.period();
  scan->looked_up = context_.links.Now();
  return scan;
}

void Scanner::Close(std::unique_ptr<Scan> scan) {
  scan->page.Clear();
  DropRuns(*scan);
  idle_.push_back(std::move(scan));
}

void Scanner::DropRuns(Scan& scan) {
  const bool is_in_use = scan.run != nullptr && !scan.page.entries.empty();
  if (is_in_use) scan.page.leaves.push_back(std::move(scan.run->images));
  runs_.GiveBack(scan.run);
  runs_.GiveBack(scan.next);
  scan.at = 0;
  scan.hop.reset();
  scan.named = {};
}

void Scanner::DropOldRuns(Scan& scan) {
  const uint32_t period = context_.running.period();
  const Moment now = context_.links.Now();
  const bool is_present = scan.period == period && scan.looked_up == now;
  if (is_present) return;
  scan.period = period;
  scan.looked_up = now;
  DropRuns(scan);
}

// ---- Without waiting

Scanner::State Scanner::Advance(Scan& scan) {
  DropOldRuns(scan);
  ScanPage& page = scan.page;
  for (;;) {
    if (scan.left == 0 && (!scan.to_bookmark || scan.bookmark)) return State::kEnded;
    if (scan.taken < page.ready) return State::kReady;
    if (page.ready < page.entries.size()) return State::kWaits;
    page.Clear();
    scan.taken = 0;
    if (scan.position.done) return State::kEnded;
    if (scan.resume_at != 0) return State::kWaits;
    if (scan.WantsBookmark()) return scan.MarkLeaf() ? State::kEnded : State::kWaits;
    const bool is_at_end = scan.run == nullptr || scan.at == scan.run->refs.size();
    if (scan.hop || (is_at_end && !TakeNextRun(scan)) || !TakeNext(scan)) return State::kWaits;
    page.FindReady(scan.range, context_.clock);
  }
}

std::span<const ScanEntry> Scanner::Take(Scan& scan) {
  assert(scan.taken < scan.page.ready);
  const size_t ready = scan.page.ready - scan.taken;
  const size_t count = scan.to_bookmark ? ready : std::min<uint64_t>(ready, scan.left);
  const std::span<const ScanEntry> taken(&scan.page.entries[scan.taken], count);
  scan.taken += count;
  scan.page.Pass(taken.back().key(), scan.range.reverse);
  scan.left -= std::min<uint64_t>(count, scan.left);
  return taken;
}

bool Scan::MarkLeaf() {
  const KeyView low = position.from;
  const bool is_known = !named.is_null() && is_named_at_position;
  if (!is_known || !LowFenceMark::Of(low).whole()) return false;
  bookmark = ScanBookmark{gossamer::bookmark::Of(named, low), std::string(low)};
  return true;
}

void Scanner::SkipPassed(Scan& scan) {
  const std::vector<NodeCache::LeafRef>& refs = scan.run->refs;
  while (scan.at + 1 < refs.size() && refs[scan.at + 1].low.view() <= scan.position.from.view()) {
    ++scan.at;
  }
}

bool Scanner::TakeNext(Scan& scan) {
  if (!scan.range.reverse) SkipPassed(scan);
  const NodeCache::LeafRef& ref = scan.run->refs[scan.at];
  const std::optional<LeafView> leaf =
      LeafView::Parse(scan.run->image(scan.at, context_.geometry().node_bytes()), ref.leaf,
                      context_.geometry(), ref.low);
  if (!leaf || leaf->frozen() || !leaf->trailer().low().Matches(ref.low)) return false;
  if (scan.range.reverse && !Reaches(scan, *leaf)) return false;
  LearnFrom(ref, *leaf);
  if (scan.range.reverse) {
    AddLeaf(scan, *leaf, ref.low.view() < KeyView(scan.range.from), true);
    PassLeft(scan);
  } else {
    PassRight(scan, ref, *leaf);
  }
  ReadAhead(scan);
  return true;
}

bool Scanner::TakeNextRun(Scan& scan) {
  if (scan.next == nullptr || scan.next->in_flight) return false;
  runs_.GiveBack(scan.run);
  scan.run = std::exchange(scan.next, nullptr);
  scan.run_trust = Descent::Trust::kCache;
  scan.at = 0;
  const LeafRun& run = *scan.run;
  const KeyView low = run.refs.front().low;
  const bool is_next =
      scan.range.reverse ? scan.position.below.Admits(low) : low <= scan.position.from.view();
  if (run.status && is_next) return true;
  DropRuns(scan);
  return false;
}

size_t Scanner::AddLeaf(Scan& scan, const LeafView& leaf, bool reaches_below, bool reaches_above) {
  const size_t count =
      scan.page.Add(leaf, sorter_, scan.range, scan.position, reaches_below, reaches_above);
  leaf_entries_ += count - leaf_entries_ / kSixteenths;
  return count;
}

void Scanner::PassRight(Scan& scan, const NodeCache::LeafRef& ref, const LeafView& leaf) {
  ScanPosition& position = scan.position;
  scan.named = leaf.trailer().sibling();
  scan.is_named_at_position = true;
  const LeafRun& run = *scan.run;
  const bool was_next = ref.low == position.from && scan.has_passed;
  const bool has_follower = scan.at + 1 < run.refs.size() && !scan.hop;
  if (was_next && has_follower && leaf.EndsAt(run.refs[scan.at + 1].low)) {
    // The usual case.
    const size_t entries = AddLeaf(scan, leaf, false, false);
    position.from = run.refs[++scan.at].low;
    if (entries == 0)
      context_.events.OnSparseLeaf(ref.low);  // the client that emptied it may have died
    return;
  }
  const HighFence high = leaf.high();
  const bool is_last = high.infinite || !position.below.Admits(high.key);
  const size_t entries =
      AddLeaf(scan, leaf, ref.low.view() < position.from.view() || !scan.has_passed, is_last);
  const bool is_alone = high.infinite && ref.low.view().empty();
  if (entries == 0 && !is_alone) context_.events.OnSparseLeaf(ref.low);
  scan.has_passed = true;
  scan.hop.reset();
  position.done = is_last;
  if (is_last) return;
  const bool was_inside = high.Admits(position.from);
  scan.is_named_at_position = was_inside;
  if (was_inside) position.from = high.key;
  // Up to where the parents' next leaf starts.
  bool is_joined = was_inside;
  if (scan.at + 1 < run.refs.size()) {
    is_joined = high.key.view() >= run.refs[scan.at + 1].low.view();
  } else if (run.end) {
    is_joined = !run.end->infinite && high.key.view() >= run.end->key.view();
  }
  if (is_joined) {
    ++scan.at;
  } else {
    scan.ended_early = ref;
    scan.hop = {leaf.trailer().sibling(), RemotePtr(), 0, high.key};
  }
}

bool Scanner::Reaches(const Scan& scan, const LeafView& leaf) {
  const HighFence high = leaf.high();
  const HighFence& below = scan.position.below;
  return high.infinite || (!below.infinite && high.key.view() >= below.key.view());
}

void Scanner::PassLeft(Scan& scan) {
  const KeyView low = scan.run->refs[scan.at].low;
  scan.position.below = HighFence::At(low);
  scan.position.done = low <= KeyView(scan.range.from);
  ++scan.at;
}

void Scanner::LearnFrom(const NodeCache::LeafRef& ref, const LeafView& leaf) {
  const uint64_t hint = HintOf(leaf, context_.geometry());
  if (ref.parent.is_null() || hint == ref.hint) return;
  context_.cache.ReplaceHint(ref.low, ref.leaf, hint);
}

// ---- Reading ahead

size_t Scanner::LeavesFor(uint64_t entries, Scan& scan) const {
  if (entries > kNoLimit / 2 || scan.WantsBookmark()) {
    const size_t leaves = scan.run_leaves;
    scan.run_leaves = std::min(2 * leaves, kMaxRunLeaves);
    return leaves;
  }
  // The first leaf is not used from its start, and not all are equally full.
  const uint64_t each = std::max(leaf_entries_, kSixteenths);
  const uint64_t some = std::min<uint64_t>(entries, kMaxRunLeaves * each);
  return std::min<uint64_t>((some * kSixteenths + each / 2) / each + 2, kMaxRunLeaves);
}

void Scanner::ReadAhead(Scan& scan) {
  const LeafRun& run = *scan.run;
  const bool may_go_on = scan.may_read_ahead && !run.is_last && run.end && !scan.position.done;
  if (!may_go_on || scan.next != nullptr || scan.at * 2 < run.refs.size()) return;
  const uint64_t at_hand = scan.page.entries.size() - scan.taken +
                           (run.refs.size() - scan.at) * leaf_entries_ / kSixteenths;
  if (at_hand >= scan.left) return;
  ScanPosition ahead = scan.position;
  if (scan.range.reverse) {
    ahead.below = *run.end;
  } else {
    ahead.from = run.end->key;
  }
  const Op op = context_.links.Begin();
  LeafRun* next = &runs_.Take();
  if (runs_.Collect(*next, scan.range, ahead, LeavesFor(scan.left - at_hand, scan))) {
    ++context_.counters.cache.hits;
    scan.next = next;
    runs_.StartToRead(*next, op);
  } else {
    scan.may_read_ahead = false;
    runs_.GiveBack(next);
  }
}

Task<Status> Scanner::Fetch(Scan& scan) {
  const RunningOperations::Scope scope(context_.running);
  DropOldRuns(scan);
  Op op;
  op.began = scan.looked_up;
  Status status = Ok();
  // What is filled and not ready waits for one that has to be removed, and whose key is in a block.
  if (scan.page.ExpiredNext(scan.range, context_.clock).empty()) scan.page.blocks.clear();
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
    page.FindReady(scan.range, context_.clock);
  }
  const bool waits = scan.taken == page.ready && page.ready < page.entries.size();
  if (!waits) co_return Ok();
  const std::vector<KeyView> expired = page.ExpiredNext(scan.range, context_.clock);
  if (expired.empty()) co_return co_await FillBlocks(op, scan);
  BOOST_OUTCOME_CO_TRYV(co_await batches_.Expire(expired));
  ReadAgain(scan);
  co_return Ok();
}

Task<Status> Scanner::Resume(Op& op, Scan& scan) {
  BOOST_OUTCOME_CO_TRY(low,
                       co_await context_.nodes.ReadLowFence(op, bookmark::NodeOf(scan.resume_at)));
  const uint64_t resume_at = std::exchange(scan.resume_at, 0);
  if (!low) co_return Ok();
  const Key& from = *low;
  if (bookmark::Of(bookmark::NodeOf(resume_at), from) != resume_at) co_return Ok();
  if (from.view() > scan.position.from.view()) scan.position.from = from;
  scan.position.done = !IsBeforeEnd(from, scan.range, scan.position);
  co_return Ok();
}

// The node is READ, as the cache may be of the past: the bookmark would be lost as it is made.
Task<Status> Scanner::MarkParent(Op& op, Scan& scan) {
  const Key& from = scan.position.from;
  BOOST_OUTCOME_CO_TRY(found, co_await context_.descent.To(op, SearchGoal::Covering(from), 1));
  const NodeCache::Step& step = found;
  if (step.level != 1 || step.low != from) co_return Ok();
  BOOST_OUTCOME_CO_TRY(low, co_await context_.nodes.ReadLowFence(op, step.node));
  if (low == from) {
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
    BOOST_OUTCOME_CO_TRY(
        path, co_await context_.descent.To(op, goal, 0, scan.run_trust, Descent::Admission::kAll));
    ++context_.counters.cache.misses;
    if (!collect()) {
      const NodeCache::Step& step = path;
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

Result<std::optional<NodeCache::LeafRef>> Scanner::Follow(Scan& scan,
                                                          const NodeCache::LeafRef& from,
                                                          const NodeCache::LeafRef& sibling) {
  if (sibling.leaf.is_null()) return CorruptNode(from.leaf, "a leaf that ends early");
  // This compute server may have split the leaf after the run was collected.
  found_.clear();
  HighFence end;
  const size_t found = context_.cache.CollectRight(sibling.low, 1, found_, end);
  if (found != 0 && found_.front().low == sibling.low) return std::optional(found_.front());
  const NodeCache::Step path{from.leaf, 0, from.parent, 0, from.low};
  if (!path.has_parent() && scan.run_trust == Descent::Trust::kCache) {
    DropRuns(scan);
    scan.trust = Descent::Trust::kNothing;
    return std::optional<NodeCache::LeafRef>();
  }
  context_.cache.ForgetPath(path);
  context_.events.OnHop(from.leaf, 0, from.low);
  return std::optional(sibling);
}

Task<Status> Scanner::StepRight(Op& op, Scan& scan) {
  if (!scan.hop) SkipPassed(scan);
  NodeCache::LeafRef ref = scan.run->refs[scan.at];
  std::span<const std::byte> image = scan.run->image(scan.at, context_.geometry().node_bytes());
  if (scan.hop) {
    BOOST_OUTCOME_CO_TRY(next, Follow(scan, scan.ended_early, *scan.hop));
    if (!next) co_return Ok();
    ref = *next;
    image = {};
  }
  BOOST_OUTCOME_CO_TRY(leaf, co_await ReadLeaf(op, scan.page, ref, image, ref.leaf == scan.named));
  PassRight(scan, ref, leaf);
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
    BOOST_OUTCOME_CO_TRY(read, co_await ReadLeaf(op, scan.page, ref, image, ref.leaf == named));
    const LeafView& leaf = chain.emplace_back(read);
    named = leaf.trailer().sibling();
    if (Reaches(scan, leaf)) break;
    BOOST_OUTCOME_CO_TRY(behind, Follow(scan, ref, {named, RemotePtr(), 0, leaf.high().key}));
    if (!behind) co_return Ok();
    refs.push_back(*behind);
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
  page.FindReady(scan.range, context_.clock);
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
  scan.times_missed = scan.missed_block == missed.pointer ? scan.times_missed + 1 : 1;
  scan.missed_block = missed.pointer;
  ReadAgain(scan);
  if (scan.times_missed <= kMaxReadsOfALeaf) {
    co_await context_.pauses.After(scan.times_missed);
    co_return Ok();
  }
  co_return MakeError(
      Code::kCorruption,
      fmt::format("a block at server {} offset {} that fails its checksum, of a long key in a leaf",
                  ToInteger(missed.ptr().server()), missed.ptr().offset()));
}

}  // namespace gossamer
