// Descents: from the root word to a node, through the cache and by READs of whole internal nodes.
#include <string>

#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A unit that stays torn for so many rereads is read under its lock.
constexpr uint32_t kMaxRereads = 24;
// A node that stays unreadable through so many fresh descents, each ending under its lock, is corrupt (rule R5).
constexpr uint32_t kMaxDescents = 4;

}  // namespace

Task<Result<RootWord>> Tree::ReadRoot() {
  Operation operation;
  const Result<RootWord> root = co_await ReadRoot(operation);
  co_return root;
}

// 1 RT. An atomic, as the word is changed by atomics (rule R7).
Task<Result<RootWord>> Tree::ReadRoot(Operation& operation) {
  Result<BufferLease> buffer = Buffer(BufferPool::kMinBytes);
  if (!buffer) co_return buffer.error();
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::FetchAdd(Space::kRegion, kRootWordOffset, 0, buffer.value().address()));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  const RootWord root = RootWord::FromWord(batch.verbs()[0].old_value());
  shared_.cache.SetRoot(root);
  co_return root;
}

Task<Result<Tree::Step>> Tree::FindLeaf(Operation& operation, KeyView key) {
  const std::optional<Step> step = shared_.cache.Find(reader_, SearchGoal::Covering(key), 0);
  if (step && step->level == 0) {
    ++counters_.cache.hits;
    co_return *step;
  }
  ++counters_.cache.misses;
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
      shared_.cache.Insert(step.node, node);
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
  Result<InternalNode> node = co_await ReadInternal(operation, pointer);
  co_return node;
}

// 1 RT, and one for each reread.
Task<Result<InternalNode>> Tree::ReadInternal(Operation& operation, RemotePtr pointer) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const Status valid = CheckPointer(pointer, bytes);
  if (!valid) co_return valid.error();
  Result<BufferLease> buffer = Buffer(bytes);
  if (!buffer) co_return buffer.error();
  const std::span<const std::byte> image(buffer.value().data(), bytes);
  for (uint32_t reread = 0; reread <= kMaxRereads; ++reread) {
    if (reread == kMaxRereads) {
      const Status read = co_await ReadNodeUnderLock(operation, pointer, buffer.value());
      if (!read) co_return read.error();
    } else {
      InlineBatch<1> batch(pointer.server());
      batch.Add(Verb::Read(pointer.offset(), bytes, buffer.value().address()));
      co_await Execute(operation, batch);
      if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    }
    std::optional<InternalNode> node = DecodeInternal(image, pointer);
    if (node) co_return std::move(*node);
    ++counters_.rereads;
    co_await Pause(reread);
  }
  co_return CorruptNode(pointer, "an internal node that fails its checksum under its lock");
}

Task<Result<std::vector<std::byte>>> Tree::ReadLeaf(RemotePtr pointer) {
  Operation operation;
  const Result<BufferLease> read = co_await ReadLeafInto(operation, pointer);
  if (!read) co_return read.error();
  const std::byte* data = read.value().data();
  co_return std::vector<std::byte>(data, data + shared_.parameters.node_bytes);
}

// 1 RT, and one for each reread. LeafView::Parse of what is returned succeeds.
Task<Result<BufferLease>> Tree::ReadLeafInto(Operation& operation, RemotePtr pointer) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const Status valid = CheckPointer(pointer, bytes);
  if (!valid) co_return valid.error();
  Result<BufferLease> buffer = Buffer(bytes);
  if (!buffer) co_return buffer.error();
  const std::span<const std::byte> image(buffer.value().data(), bytes);
  for (uint32_t reread = 0; reread <= kMaxRereads; ++reread) {
    if (reread == kMaxRereads) {
      const Status read = co_await ReadNodeUnderLock(operation, pointer, buffer.value());
      if (!read) co_return read.error();
    } else {
      InlineBatch<1> batch(pointer.server());
      batch.Add(Verb::Read(pointer.offset(), bytes, buffer.value().address()));
      co_await Execute(operation, batch);
      if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    }
    if (LeafView::Parse(image, pointer, shared_.geometry)) co_return std::move(buffer.value());
    ++counters_.rereads;
    co_await Pause(reread);
  }
  co_return CorruptNode(pointer, "a leaf that fails its checksums under its lock");
}

// 2 RT. No turn is waited for: the caller may have one, at this lock even. Nobody writes the node while its lock is
// held: what is read is whole, if the node is this node still.
Task<Status> Tree::ReadNodeUnderLock(Operation& operation, RemotePtr pointer,
                                     const BufferLease& into) {
  uint64_t slot = 0;
  const Result<LockWord> word = WordFor(pointer, slot);
  if (!word) co_return word.error();
  Result<BufferLease> old_word = Buffer(BufferPool::kMinBytes);
  if (!old_word) co_return old_word.error();
  const auto since = scheduler_.Now();
  for (uint32_t attempt = 0;; ++attempt) {
    InlineBatch<2> batch(pointer.server());
    batch.Add(Verb::CompareSwap(Space::kLockTable, slot, 0, word.value().word(),
                                old_word.value().address()));
    batch.Add(Verb::Read(pointer.offset(), shared_.parameters.node_bytes, into.address()));
    co_await Execute(operation, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    const uint64_t holder = batch.verbs()[0].old_value();
    if (holder == 0) break;
    const Status waited = co_await BackOff(operation, pointer, holder, attempt, since);
    if (!waited) co_return waited.error();
  }
  ++counters_.locks.acquired;
  const Status unlocked =
      co_await Unlock(operation, pointer, word.value(), slot, old_word.value().address());
  co_return unlocked;
}

}  // namespace gossamer
