#include "compute/store/walking/leaf_finder.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "compute/session/control_client.h"
#include "compute/store/keeping/used_memory.h"

namespace gossamer {
namespace {

constexpr uint32_t kReadBytes = 256 << 10;

}  // namespace

Result<std::vector<std::byte>> LeafFinder::Read(ServerId server, uint64_t offset, uint32_t bytes) {
  BOOST_OUTCOME_TRY(buffer, scheduler_.endpoint().buffers().Allocate(bytes));
  InlineBatch<1> batch(server);
  batch.Add(Verb::Read(offset, bytes, buffer.address()));
  BOOST_OUTCOME_TRYV(scheduler_.Run([](Endpoint& endpoint, Batch& reads) -> Task<Status> {
    co_await endpoint.Execute(reads);
    if (reads.status() == VerbStatus::kSuccess) co_return Ok();
    co_return MakeError(Code::kNodeUnreachable,
                        fmt::format("memory server {} does not answer ({})",
                                    ToInteger(reads.server()), VerbStatusName(reads.status())));
  }(scheduler_.endpoint(), batch)));
  return std::vector<std::byte>(buffer.data(), buffer.data() + bytes);
}

Status LeafFinder::Look(ServerId server) {
  BOOST_OUTCOME_TRY(extents, scheduler_.Run(ListExtents(scheduler_.endpoint(), server)));
  MemoryRanges ranges;
  if (server == ServerId{0}) ranges.add({kFirstLeafOffset, kFirstLeafOffset + node_bytes_});
  for (const control::Extent& extent : extents) {
    if (extent.kind != control::ExtentKind::kNodes) continue;
    ranges.add({extent.offset, extent.offset + extent.bytes});
  }
  for (const MemoryRange& range : ranges) {
    const uint64_t end = range.upper();
    // The last node of one READ may end in the next one.
    for (uint64_t at = range.lower(); at + node_bytes_ <= end; at += kReadBytes - node_bytes_) {
      const uint64_t some = std::min<uint64_t>(kReadBytes, end - at);
      BOOST_OUTCOME_TRY(read, Read(server, at, static_cast<uint32_t>(some)));
      for (uint64_t node = 0; node + node_bytes_ <= some; node += kNodeAlignment) {
        // The next READ begins with it.
        if (node >= kReadBytes - node_bytes_) break;
        LookAt(server, at + node, std::span(read).subspan(node, node_bytes_));
      }
    }
  }
  return Ok();
}

void LeafFinder::LookAt(ServerId server, uint64_t offset, std::span<const std::byte> bytes) {
  if (const std::optional<RemotePtr> leaf = recognizer_.Leaf(server, offset, bytes)) {
    const std::optional<TrailerView> view =
        TrailerView::Parse(bytes.subspan(geometry_.trailer_offset()), *leaf, geometry_);
    const std::optional<KeyView> low = view->low().whole();
    if (low) {
      NoteLeaf(*leaf, Key(*low), bytes);
    } else {
      unread_.push_back({*leaf, view->low(), {bytes.begin(), bytes.end()}});
    }
  } else if (const std::optional<RemotePtr> node = recognizer_.Internal(server, offset, bytes)) {
    NoteInternal(*DecodeInternal(bytes, *node));
  }
}

void LeafFinder::NoteInternal(const InternalNode& node) {
  for (const InternalNode::Child& child : node.children) {
    lows_.emplace(child.pointer.word(), child.separator);
  }
}

bool LeafFinder::NoteLeaf(RemotePtr pointer, const Key& low, std::span<const std::byte> image) {
  const std::optional<LeafView> view = LeafView::Parse(image, pointer, geometry_, low);
  if (!view || !view->trailer().low().Matches(low)) return false;
  Leaf leaf;
  leaf.pointer = pointer;
  leaf.low = low;
  leaf.high = view->high();
  leaf.sibling = view->trailer().sibling();
  leaf.version = static_cast<uint32_t>(view->version());
  leaf.is_frozen = view->frozen();
  if (!leaf.high.infinite) lows_.emplace(leaf.sibling.word(), leaf.high.key);
  leaves_.push_back(std::move(leaf));
  return true;
}

void LeafFinder::ReadUnread() {
  for (bool has_read = true; has_read;) {
    has_read = false;
    std::vector<Unread> rest;
    for (Unread& one : unread_) {
      const auto known = lows_.find(one.pointer.word());
      const bool is_read =
          known != lows_.end() && NoteLeaf(one.pointer, Key(known->second), one.image);
      has_read = has_read || is_read;
      if (!is_read) rest.push_back(std::move(one));
    }
    unread_ = std::move(rest);
  }
  unknown_leaves_ = unread_.size();
}

std::vector<LeafFinder::Piece> LeafFinder::Sort() {
  ReadUnread();
  const auto rank = [this](const Leaf& leaf) {
    return std::tuple(!leaf.is_frozen, lows_.contains(leaf.pointer.word()), leaf.version);
  };
  std::ranges::stable_sort(leaves_,
                           [&](const Leaf& a, const Leaf& b) { return rank(a) > rank(b); });
  // What is covered, by where it starts: disjoint.
  std::map<std::string, HighFence> covered;
  std::vector<Piece> pieces;
  for (const Leaf& leaf : leaves_) {
    Key from = leaf.low;
    bool is_used = false;
    for (bool has_more = true; has_more;) {
      // The part that covers `from`, and the next one.
      auto next = covered.upper_bound(std::string(from.view()));
      if (next != covered.begin()) {
        const HighFence& end = std::prev(next)->second;
        if (end.Admits(from)) {
          has_more = !end.infinite && leaf.high.Admits(end.key);
          if (has_more) from = end.key;
          continue;
        }
      }
      HighFence to = leaf.high;
      if (next != covered.end() && leaf.high.Admits(next->first)) to = HighFence::At(next->first);
      if (to.Admits(from)) {
        pieces.push_back({leaf.pointer, leaf.low, from, to});
        covered[std::string(from.view())] = to;
        is_used = true;
      }
      has_more = !to.infinite && leaf.high.Admits(to.key);
      if (has_more) from = to.key;
    }
    if (!is_used) ++old_leaves_;
  }
  std::ranges::sort(pieces,
                    [](const Piece& a, const Piece& b) { return a.from.view() < b.from.view(); });
  return pieces;
}

}  // namespace gossamer
