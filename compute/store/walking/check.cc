#include "compute/store/walking/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "common/text/escape.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

constexpr size_t kMaxProblems = 100;
constexpr uint64_t kProgressEvery = 4096;
constexpr uint64_t kLockBytesPerRead = 4096;

}  // namespace

void TreeChecker::Problem(RemotePtr pointer, const std::string& what) {
  ++report_.problem_count;
  if (report_.problems.size() >= kMaxProblems) return;
  report_.problems.push_back(
      fmt::format("server {} offset {}: {}", ToInteger(pointer.server()), pointer.offset(), what));
}

Result<CheckReport> TreeChecker::Run() {
  BOOST_OUTCOME_TRY(root, scheduler_.Run(tree_.ReadRoot()));
  report_.levels = root.level() + 1;
  std::vector<Downlink> expected = {{Key(), root.pointer()}};
  for (uint32_t level = root.level(); level > 0; --level) {
    std::vector<Downlink> downlinks;
    BOOST_OUTCOME_TRYV(scheduler_.Run(WalkInternal(level, expected, downlinks)));
    expected = std::move(downlinks);
    if (expected.empty()) break;
  }
  if (!expected.empty()) {
    BOOST_OUTCOME_TRYV(scheduler_.Run(WalkLeaves(expected)));
  }
  BOOST_OUTCOME_TRYV(AttachAll());
  BOOST_OUTCOME_TRYV(scheduler_.Run(CheckLocks()));
  BOOST_OUTCOME_TRYV(scheduler_.Run(CheckExtents()));
  if (report_.keys != 0) {
    report_.leaf_bytes_per_key =
        static_cast<double>(report_.leaves * shared_.parameters.node_bytes) /
        static_cast<double>(report_.keys);
  }
  return report_;
}

// Servers may have become known during the walk: to this walk, which then has queue pairs to them,
// or to other threads.
Status TreeChecker::AttachAll() {
  servers_ = shared_.servers.All();
  for (const ServerInfo* server : servers_) {
    report_.nodes_per_server.try_emplace(ToInteger(server->id), 0);
    const Status attached = scheduler_.endpoint().Attach(server->id);
    if (!attached) return CannotBeReached(server->id, server->address, attached.error().message);
  }
  return Ok();
}

void TreeChecker::Match(const std::vector<Downlink>& expected, size_t& next, RemotePtr pointer,
                        KeyView low) {
  if (next < expected.size() && expected[next].pointer == pointer) {
    if (expected[next].low != Key(low)) {
      Problem(pointer,
              fmt::format("its parent says low fence '{}', its left neighbour ends at '{}'",
                          Escaped(expected[next].low), Escaped(low)));
    }
    ++next;
  } else {
    ++report_.missing_downlinks;
  }
}

void TreeChecker::MoveOn(const HighFence& high, RemotePtr sibling, RemotePtr& pointer, Key& low) {
  std::string_view problem;
  if (high.infinite != sibling.is_null()) {
    problem = high.infinite ? "an infinite high fence with a sibling"
                            : "a finite high fence without a sibling";
  } else if (!sibling.is_null() && high.key.view() <= low.view()) {
    // A chain that does not go right has no end.
    problem = "a high fence that is not above the low fence";
  }
  if (!problem.empty()) Problem(pointer, std::string(problem));
  low = high.key;
  pointer = problem.empty() ? sibling : RemotePtr();
}

Task<Status> TreeChecker::WalkInternal(uint32_t level, const std::vector<Downlink>& expected,
                                       std::vector<Downlink>& downlinks) {
  RemotePtr pointer = expected.front().pointer;
  Key low;
  size_t next = 0;
  while (!pointer.is_null()) {
    Match(expected, next, pointer, low);
    const Result<InternalNode> read = co_await tree_.ReadInternal(pointer);
    if (!read && read.error().code != Code::kCorruption) co_return read.error();
    if (!read) {
      Problem(pointer, "internal node: " + read.error().message);
      break;
    }
    const InternalNode& node = read.value();
    ++report_.internal_nodes;
    Use(pointer.server(), pointer.offset(), shared_.parameters.node_bytes,
        control::ExtentKind::kNodes);
    const bool is_linked = next != 0 && expected[next - 1].pointer == pointer;
    if (node.frozen && !node.was_root() && is_linked) {
      Problem(pointer, "frozen, though a parent leads to it");
    }
    if (node.level != level) {
      Problem(pointer, fmt::format("level {} in the chain of level {}", node.level, level));
      break;
    }
    if (node.low() != low.view()) {
      Problem(pointer, fmt::format("low fence '{}', left neighbour ends at '{}'",
                                   Escaped(node.low()), Escaped(low)));
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (i != 0 && node.children[i].separator.view() <= node.children[i - 1].separator.view()) {
        Problem(pointer, fmt::format("separators out of order at '{}'",
                                     Escaped(node.children[i].separator)));
      }
      if (!node.high.Admits(node.children[i].separator)) {
        Problem(pointer, fmt::format("separator '{}' is not below the high fence",
                                     Escaped(node.children[i].separator)));
      }
      downlinks.push_back({node.children[i].separator, node.children[i].pointer});
    }
    MoveOn(node.high, node.sibling, pointer, low);
  }
  if (next != expected.size()) {
    Problem(expected[next].pointer,
            fmt::format("a downlink at level {} that the sibling chain misses", level + 1));
  }
  co_return Ok();
}

Task<Status> TreeChecker::WalkLeaves(const std::vector<Downlink>& expected) {
  RemotePtr pointer = expected.front().pointer;
  Key low;
  size_t next = 0;
  while (!pointer.is_null()) {
    Match(expected, next, pointer, low);
    const Result<std::vector<std::byte>> image = co_await tree_.ReadLeaf(pointer, low);
    if (!image && image.error().code != Code::kCorruption) co_return image.error();
    if (!image) {
      Problem(pointer, "leaf: " + image.error().message);
      break;
    }
    const std::optional<LeafView> leaf =
        LeafView::Parse(image.value(), pointer, shared_.geometry, low);
    ++report_.leaves;
    if (progress_ && report_.leaves % kProgressEvery == 0) progress_(report_.leaves);
    Use(pointer.server(), pointer.offset(), shared_.parameters.node_bytes,
        control::ExtentKind::kNodes);
    if (leaf->frozen() && next != 0 && expected[next - 1].pointer == pointer) {
      Problem(pointer, "frozen, though a parent leads to it");
    }
    BOOST_OUTCOME_CO_TRYV(co_await CheckLeaf(pointer, *leaf, low));
    MoveOn(leaf->high(), leaf->trailer().sibling(), pointer, low);
  }
  if (next != expected.size()) {
    Problem(expected[next].pointer, "a downlink at level 1 that the chain of leaves misses");
  }
  if (progress_) progress_(report_.leaves);
  co_return Ok();
}

Task<Status> TreeChecker::CheckLeaf(RemotePtr pointer, const LeafView& leaf, KeyView low) {
  if (!leaf.trailer().low().Matches(low)) {
    Problem(pointer, fmt::format("a low fence other than where its left neighbour ends, '{}'",
                                 Escaped(low)));
  }
  struct Block {
    BlockRef ref;
    uint64_t key_hash = 0;
    std::optional<Key> first_bytes;  // of a long key
  };
  std::vector<Block> blocks;
  std::set<std::string> seen;
  const uint64_t now_ms = tree_.context().clock.EarliestMs();
  const HighFence high = leaf.high();
  if (!high.infinite && !IsShortFence(low, high.key)) Problem(pointer, "a long high fence");
  const auto check_key = [&](KeyView key) {
    report_.key_bytes += key.size();
    if (key < low || !high.Admits(key)) {
      Problem(pointer, fmt::format("key '{}' outside of the fences", Escaped(key)));
    }
    if (!seen.emplace(key).second) Problem(pointer, fmt::format("key '{}' twice", Escaped(key)));
  };
  for (uint32_t number = 0; number < leaf.unit_count(); ++number) {
    const GroupView& unit = leaf.unit(number);
    unit.ForEach([&](const Entry& entry) {
      const Key key(unit.prefix(), entry.key);
      const bool has_expired = entry.HasExpiredAt(now_ms);
      ++(has_expired ? report_.expired_keys : report_.keys);
      const uint64_t hash = entry.is_long() ? entry.key_hash() : KeyHash(key);
      CheckPlace(pointer, leaf, number, hash, key);
      if (entry.has_block()) {
        blocks.push_back({entry.block(), hash, {}});
        if (entry.is_long()) blocks.back().first_bytes = key;
      } else {
        report_.inline_value_bytes += entry.stored.size();
        if (entry.stored.size() > shared_.parameters.inline_value_bytes) {
          Problem(pointer, fmt::format("an inline value of {} bytes", entry.stored.size()));
        }
      }
      if (entry.is_long()) return;
      check_key(key);
      if (entry.key.size() > shared_.geometry.max_suffix_bytes(entry.expires())) {
        Problem(pointer, fmt::format("key '{}' stored whole, though it is long", Escaped(key)));
      }
    });
  }
  for (const auto& [block, key_hash, first_bytes] : blocks) {
    const Result<std::optional<std::string>> content = co_await tree_.ReadBlock(block);
    if (!content && content.error().code != Code::kCorruption) co_return content.error();
    if (!content || !content.value()) {
      Problem(pointer,
              fmt::format("an entry whose value block at server {} offset {} fails its checksum",
                          ToInteger(block.ptr().server()), block.ptr().offset()));
      continue;
    }
    size_t value_bytes = content.value()->size();
    if (first_bytes) {
      const std::optional<LongContent> parts = SplitLongContent(*content.value());
      const bool is_it =
          parts && KeyHash(parts->key) == key_hash && parts->key.starts_with(*first_bytes);
      if (!is_it) {
        Problem(pointer, fmt::format("a block of a long key '{}...' that has another key",
                                     Escaped(*first_bytes)));
        continue;
      }
      check_key(parts->key);
      value_bytes = parts->value.size();
    }
    ++report_.blocks;
    report_.block_value_bytes += value_bytes;
    Use(block.ptr().server(), block.ptr().offset(), BlockBytes(block.length),
        control::ExtentKind::kBlocks);
  }
  co_return Ok();
}

void TreeChecker::CheckPlace(RemotePtr pointer, const LeafView& leaf, uint32_t number,
                             uint64_t key_hash, KeyView key) {
  const uint32_t home = shared_.geometry.GroupOf(key_hash);
  if (number + 1 == leaf.unit_count()) {
    ++report_.overflow_keys;
    if (leaf.unit(home).overflowed()) return;
    Problem(pointer,
            fmt::format("key '{}' in the overflow group, which its home group does not say",
                        Escaped(key)));
  } else if (home != number) {
    Problem(pointer,
            fmt::format("key '{}' in group {}, its home is {}", Escaped(key), number, home));
  }
}

void TreeChecker::Use(ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind) {
  if (kind == control::ExtentKind::kNodes) ++report_.nodes_per_server[ToInteger(server)];
  if (used_.Add(server, offset, bytes, kind)) return;
  Problem(RemotePtr(server, offset & ~(kNodeAlignment - 1), 0), "memory in use twice");
}

Task<Status> TreeChecker::CheckLocks() {
  Endpoint& endpoint = scheduler_.endpoint();
  BOOST_OUTCOME_CO_TRY(buffer, endpoint.buffers().Allocate(kLockBytesPerRead));
  for (const ServerInfo* server : servers_) {
    for (uint64_t at = 0; at < server->lock_table_bytes; at += kLockBytesPerRead) {
      const auto bytes =
          static_cast<uint32_t>(std::min(kLockBytesPerRead, server->lock_table_bytes - at));
      InlineBatch<1> batch(server->id);
      batch.Add(Verb::Read(at, bytes, buffer.address(), Space::kLockTable));
      co_await endpoint.Execute(batch);
      if (batch.status() != VerbStatus::kSuccess) {
        co_return MakeError(Code::kNodeUnreachable, "the lock table cannot be read");
      }
      for (uint32_t word = 0; word < bytes; word += sizeof(uint64_t)) {
        uint64_t value;
        std::memcpy(&value, buffer.data() + word, sizeof value);
        if (value == 0) continue;
        const LockWord lock = LockWord::FromWord(value);
        BOOST_OUTCOME_CO_TRY(state, co_await StateOf(server->id, lock.lease()));
        if (state == LeaseState::kEnded) {
          BOOST_OUTCOME_CO_TRYV(co_await ReleaseForTheDead(server->id, at + word, lock));
          continue;
        }
        ++report_.locks_held;
        const std::string holder = co_await DescribeHolder(scheduler_, server->id, lock.lease());
        Problem(RemotePtr(server->id, uint64_t{lock.node()} * kNodeAlignment, 0),
                fmt::format("lock slot {} is held by {}, whose lease is in force: stop its clients "
                            "first, or wait, and check again",
                            (at + word) / sizeof(uint64_t), holder));
      }
    }
  }
  co_return Ok();
}

Task<Result<LeaseState>> TreeChecker::StateOf(ServerId server, Lease lease) {
  const auto key = std::tuple(server, lease.compute, lease.incarnation);
  if (const auto known = lease_states_.find(key); known != lease_states_.end()) {
    co_return known->second;
  }
  const Result<LeaseState> state = co_await AskAboutLease(scheduler_, server, lease);
  if (state) lease_states_[key] = state.value();
  co_return state;
}

Task<Status> TreeChecker::ReleaseForTheDead(ServerId server, uint64_t slot, LockWord word) {
  BOOST_OUTCOME_CO_TRY(old_word, scheduler_.endpoint().buffers().Allocate(sizeof(uint64_t)));
  InlineBatch<1> batch(server);
  batch.Add(Verb::CompareSwap(Space::kLockTable, slot, word.word(), 0, old_word.address()));
  co_await scheduler_.endpoint().Execute(batch);
  if (batch.status() != VerbStatus::kSuccess) {
    co_return MakeError(Code::kNodeUnreachable, "a lock of the dead cannot be released");
  }
  if (batch.verbs()[0].old_value() == word.word()) ++report_.locks_of_the_dead;
  co_return Ok();
}

// All memory in use must lie in extents that were granted for its kind.
Task<Status> TreeChecker::CheckExtents() {
  for (const ServerInfo* server : servers_) {
    BOOST_OUTCOME_CO_TRY(stat, co_await CallControl<control::StatReply>(
                                   scheduler_.endpoint(), server->id, control::StatRequest{}));
    MemoryUse& memory = report_.memory[ToInteger(server->id)];
    memory.heap_bytes = stat.usage.heap_bytes;
    memory.free_bytes = stat.usage.free_bytes;
    BOOST_OUTCOME_CO_TRYV(co_await CheckExtents(server->id));
  }
  co_return Ok();
}

Task<Status> TreeChecker::CheckExtents(ServerId server) {
  BOOST_OUTCOME_CO_TRY(listed, co_await ListExtents(scheduler_.endpoint(), server));
  used_.Count(server, listed, report_.memory[ToInteger(server)]);
  // Adjacent extents of one kind are one range: a client may cut across their border.
  std::map<control::ExtentKind, MemoryRanges> granted;
  for (const control::Extent& extent : listed) {
    granted[extent.kind].add({extent.offset, extent.offset + extent.bytes});
  }
  for (const auto& [offset, used] : used_.of(server)) {
    const RemotePtr pointer(server, offset & ~(kNodeAlignment - 1), 0);
    if (offset == kFirstLeafOffset) continue;  // the first root leaf, made with the store
    const MemoryRange piece(offset, offset + used.bytes);
    if (boost::icl::contains(granted[used.kind], piece)) continue;
    const bool is_granted = std::ranges::any_of(
        granted, [&](const auto& kind) { return boost::icl::contains(kind.second, piece); });
    Problem(pointer,
            is_granted ? "in an extent of the other kind" : "in use, but never handed out");
  }
  co_return Ok();
}

}  // namespace gossamer
