// What a scan does without waiting; scan_fetch.cc has the rest.
#include "compute/tree/read/scan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "compute/tree/read/scan_bookmark.h"

namespace gossamer {
namespace {

// Leaves in the first run of a scan without a limit; each further run has twice as many.
constexpr size_t kFirstLeaves = 4;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSixteenths = 16;

}  // namespace

Scan& Scanner::Open(ScanRange range, uint64_t limit) {
  assert(!range.to || range.from < *range.to);
  if (idle_.empty()) {
    all_.push_back(std::make_unique<Scan>());
    idle_.push_back(all_.back().get());
  }
  Scan& scan = *idle_.back();
  idle_.pop_back();
  // A bound may be longer than any key: the position is then before or behind all keys that start
  // with its first bytes.
  scan.position = {};
  scan.position.from = Key(KeyView(range.from).substr(0, kMaxKeyBytes));
  if (range.to && range.to->size() <= kMaxKeyBytes) {
    scan.position.below = HighFence::At(*range.to);
  } else if (range.to) {
    const std::optional<std::string> end = PrefixEnd(range.to->substr(0, kMaxKeyBytes));
    if (end) scan.position.below = HighFence::At(*end);
  }
  scan.range = std::move(range);
  scan.left = limit;
  scan.period = context_.running.period();
  scan.looked_up = context_.links.Now();
  scan.taken = 0;
  scan.at = 0;
  scan.has_passed = false;
  scan.resume_at = 0;
  scan.to_bookmark = false;
  scan.bookmark.reset();
  scan.failures = 0;
  scan.missed = {};
  scan.run_leaves = kFirstLeaves;
  scan.hop.reset();
  scan.named = {};
  scan.trust = Descent::Trust::kCache;
  return scan;
}

void Scanner::Close(Scan& scan) {
  scan.page.Clear();
  DropRuns(scan);
  idle_.push_back(&scan);
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
    page.FindReady();
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
    scan.hop = Scan::Hop{ref, leaf.trailer().sibling(), high.key};
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

}  // namespace gossamer
