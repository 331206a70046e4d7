// Descents: from the root word to a node, through the cache and by READs of whole internal nodes.
#include <string>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A node that stays unreadable through so many fresh descents, each ending under its lock, is corrupt (rule R5).
constexpr uint32_t kMaxDescents = 4;

}  // namespace

Task<Result<RootWord>> Tree::ReadRoot() {
  Operation operation;
  const Result<RootWord> root = co_await Retried(operation, [&] { return ReadRoot(operation); });
  co_return root;
}

// 1 RT. An atomic, as the word is changed by atomics (rule R7).
Task<Result<RootWord>> Tree::ReadRoot(Operation& operation) {
  Result<BufferLease> buffer = Buffer(BufferPool::kMinBytes);
  if (!buffer) co_return buffer.error();
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::FetchAdd(Space::kRegion, kRootWordOffset, 0, buffer.value().address()));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
  const RootWord root = RootWord::FromWord(batch.verbs()[0].old_value());
  shared_.cache.SetRoot(root);
  co_return root;
}

std::optional<Tree::Step> Tree::FindCachedLeaf(KeyView key) {
  const std::optional<Step> step = shared_.cache.Find(reader_, SearchGoal::Covering(key), 0);
  const bool found = step && step->level == 0;
  ++(found ? counters_.cache.hits : counters_.cache.misses);
  return found ? step : std::nullopt;
}

Task<Result<Tree::Step>> Tree::FindLeaf(Operation& operation, KeyView key) {
  const std::optional<Step> step = FindCachedLeaf(key);
  if (step) co_return *step;
  const Result<Step> found = co_await Descend(operation, SearchGoal::Covering(key), 0);
  co_return found;
}

// 1 RT for each node that is not cached. Returns the step to the node at `level` for `goal`; its range, as its
// parent states it, has the goal (it may have shrunk since). If the tree is lower than `level`, the step is to
// the root, with its level.
Task<Result<Tree::Step>> Tree::Descend(Operation& operation, SearchGoal goal, uint32_t level,
                                       Trust trust) {
  for (uint32_t attempt = 0; attempt < kMaxDescents; ++attempt) {
    std::optional<Step> start;
    if (trust == Trust::kCache) start = shared_.cache.Find(reader_, goal, level);
    if (!start) {
      const Result<RootWord> root = co_await ReadRoot(operation);
      if (!root) co_return root.error();
      start = Step{root.value().pointer(), root.value().level(), RemotePtr(), 0, Key()};
      if (trust == Trust::kCache) start = shared_.cache.FindFrom(reader_, *start, goal, level);
    }
    Step step = *start;
    bool lost = false;
    while (step.level > level && !lost) {
      const Result<InternalNode> read = co_await ReadInternal(operation, step.node);
      if (!read && read.error().code != Code::kCorruption) co_return read.error();
      if (!read || read.value().level != step.level || goal.IsBefore(read.value().low())) {
        lost = true;
        break;
      }
      const InternalNode& node = read.value();
      Remember(step.node, node);
      if (goal.IsBeyond(node.high)) {
        if (node.sibling.is_null()) {
          lost = true;
          break;
        }
        if (IsFarOff(step) && trust == Trust::kCache) {
          trust = Trust::kNothing;
          const Result<RootWord> root = co_await ReadRoot(operation);
          if (!root) co_return root.error();
          step = Step{root.value().pointer(), root.value().level(), RemotePtr(), 0, Key()};
          continue;
        }
        ScheduleRepair(step.node, step.level);
        step = Step{node.sibling, step.level, RemotePtr(), 0, node.high.key};
      } else {
        const uint32_t index = goal.Choose(node, node.children.size());
        step = Step{node.children[index].pointer, step.level - 1, step.node, 0,
                    node.children[index].separator};
      }
      if (trust == Trust::kCache) step = shared_.cache.FindFrom(reader_, step, goal, level);
    }
    if (!lost) co_return step;
    ForgetPath(step);
    const Result<RootWord> root = co_await ReadRoot(operation);
    if (!root) co_return root.error();
    if (attempt + 1 == kMaxDescents)
      co_return CorruptNode(step.node, "an unreadable internal node");
  }
  co_return MakeError(Code::kCorruption);  // Not reached: the last attempt returns.
}

// The path was wrong: what named the node is read again next time. Without a parent that was the root word.
void Tree::ForgetPath(const Step& path) {
  if (!path.parent.is_null()) shared_.cache.Invalidate(path.parent);
  shared_.cache.Invalidate(path.node);
}

Task<Result<InternalNode>> Tree::ReadInternal(RemotePtr pointer) {
  Operation operation;
  Result<InternalNode> node =
      co_await Retried(operation, [&] { return ReadInternal(operation, pointer); });
  co_return node;
}

// 1 RT, and one for each reread.
template <typename Accept>
Task<Status> Tree::ReadNode(Operation& operation, RemotePtr pointer, LocalAddress into,
                            Accept accept) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRYV(CheckPointer(pointer, bytes));
  for (uint32_t reread = 0; reread <= kMaxRereads; ++reread) {
    if (reread == kMaxRereads) {
      BOOST_OUTCOME_CO_TRYV(co_await ReadNodeUnderLock(operation, pointer, into));
    } else {
      InlineBatch<1> batch(pointer.server());
      batch.Add(Verb::Read(pointer.offset(), bytes, into));
      co_await Execute(operation, batch);
      if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
    }
    if (accept(std::span<const std::byte>(into.data, bytes))) co_return Ok();
    ++counters_.rereads;
    co_await Pause(reread);
  }
  co_return CorruptNode(pointer, "a node that fails its checksums under its lock");
}

Task<Result<InternalNode>> Tree::ReadInternal(Operation& operation, RemotePtr pointer) {
  Result<BufferLease> buffer = Buffer(shared_.parameters.node_bytes);
  if (!buffer) co_return buffer.error();
  std::optional<InternalNode> node;
  const auto decode = [&node, pointer](std::span<const std::byte> image) {
    node = DecodeInternal(image, pointer);
    return node.has_value();
  };
  BOOST_OUTCOME_CO_TRYV(co_await ReadNode(operation, pointer, buffer.value().address(), decode));
  co_return std::move(*node);
}

Task<Result<std::vector<std::byte>>> Tree::ReadLeaf(RemotePtr pointer) {
  Operation operation;
  const Result<BufferLease> read =
      co_await Retried(operation, [&] { return ReadLeafInto(operation, pointer); });
  if (!read) co_return read.error();
  const std::byte* data = read.value().data();
  co_return std::vector<std::byte>(data, data + shared_.parameters.node_bytes);
}

// LeafView::Parse of what is returned succeeds.
Task<Result<BufferLease>> Tree::ReadLeafInto(Operation& operation, RemotePtr pointer) {
  Result<BufferLease> buffer = Buffer(shared_.parameters.node_bytes);
  if (!buffer) co_return buffer.error();
  const auto is_whole = [this, pointer](std::span<const std::byte> image) {
    return LeafView::Parse(image, pointer, shared_.geometry).has_value();
  };
  BOOST_OUTCOME_CO_TRYV(co_await ReadNode(operation, pointer, buffer.value().address(), is_whole));
  co_return std::move(buffer.value());
}

// Of a leaf read whole, all units agreeing, as it is kept (rule R3).
Task<Result<Tree::LeafEnd>> Tree::ReadLeafEnd(Operation& operation, RemotePtr pointer) {
  Result<BufferLease> buffer = Buffer(shared_.parameters.node_bytes);
  if (!buffer) co_return buffer.error();
  LeafEnd end;
  const auto find_end = [&](std::span<const std::byte> image) {
    const LeafGeometry& geometry = shared_.geometry;
    if (!IsBroken(Mutant::kR3Kept) && !LeafView::Parse(image, pointer, geometry)) return false;
    const auto group = GroupView::Parse(image.first(geometry.unit_bytes()), pointer, 0);
    const auto trailer = ParseTrailer(image.subspan(geometry.trailer_offset()), pointer);
    if (!group || !trailer || group->version() != trailer->version()) return false;
    end = {group->high(), trailer->sibling()};
    return true;
  };
  BOOST_OUTCOME_CO_TRYV(co_await ReadNode(operation, pointer, buffer.value().address(), find_end));
  co_return end;
}

// 2 RT. Nobody writes the node while its lock is held: what is read is whole, if the node is this node still. The
// caller has no turn.
Task<Status> Tree::ReadNodeUnderLock(Operation& operation, RemotePtr pointer, LocalAddress into) {
  Result<BufferLease> word = Buffer(BufferPool::kMinBytes);
  if (!word) co_return word.error();
  const LocalAddress word_at = word.value().address();
  NodeLock lock;
  BOOST_OUTCOME_CO_TRYV(AimAt(lock, pointer));
  for (;;) {
    const LockTable::Answer answer = co_await TakeTurn(lock, nullptr);
    if (answer == LockTable::Answer::kTurn) break;
    if (answer == LockTable::Answer::kClosed) {
      BOOST_OUTCOME_CO_TRYV(co_await AwaitSettled(operation, lock));
    }
  }
  const Verb read = Verb::Read(pointer.offset(), shared_.parameters.node_bytes, into);
  for (;;) {
    const Result<bool> taken = co_await TryLock(operation, lock, {&read, 1}, word_at);
    if (!taken) co_return taken.error();
    if (taken.value()) break;
    BOOST_OUTCOME_CO_TRYV(co_await BackOff(operation, lock));
  }
  co_return co_await Unlock(operation, lock, word_at);
}

}  // namespace gossamer
