#include "compute/tree/shape/tree_height.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "compute/lock/remote_lock.h"
#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"
#include "compute/tree/shape/parent_link.h"
#include "proto/region.h"

namespace gossamer {
namespace {

// The words that the atomics find.
constexpr size_t kTaken = 0;
constexpr size_t kReleased = 8;
constexpr size_t kRootWord = 16;
constexpr size_t kChildWord = 24;
constexpr size_t kWordBytes = BufferPool::kMinBytes;

uint64_t WordAt(LocalAddress address) {
  uint64_t word;
  std::memcpy(&word, address.data, sizeof word);
  return word;
}

}  // namespace

Task<Result<RootWord>> TreeHeight::Lock(Op& op, RemoteLock& lock, LocalAddress words) {
  lock.UseWords(words + kTaken, words + kReleased);
  lock.AimAtRootWord();
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, lock.server()));
  const LocalAddress root_at = words + kRootWord;
  const Verb read = Verb::FetchAdd(Space::kRegion, kRootWordOffset, 0, root_at);
  BOOST_OUTCOME_CO_TRYV(co_await lock.Take({&read, 1}));
  const RootWord root = RootWord::FromWord(WordAt(root_at));
  context_.cache.SetRoot(op.began.flushes, root);
  co_return root;
}

Task<Result<TreeHeight::Raised>> TreeHeight::Raise(Op& op, uint32_t level,
                                                   const InternalNode::Child& child) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRYV(context_.links.CheckReaches(op, child.pointer, bytes));
  BOOST_OUTCOME_CO_TRY(buffers, context_.links.Buffer(kWordBytes + 2 * size_t{bytes}));
  const LocalAddress words = buffers.address();
  RemoteLock lock(context_.locks, op);
  BOOST_OUTCOME_CO_TRY(old_root, co_await Lock(op, lock, words));
  if (old_root.level() + 1 != level) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    // If the tree is lower than the child, that has vanished from it.
    co_return old_root.level() < level ? Raised::kNotThere : Raised::kByAnother;
  }
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, ServerId{0}, NodeKind::kInternal);
  if (!allocated) co_return co_await lock.ReleaseAfter(allocated.error());
  const RemotePtr pointer = allocated.value().pointer();
  // The old root is the leftmost node of its level: it was the only one.
  InternalNode node;
  node.version = NodeVersion{1};
  node.level = static_cast<uint8_t>(level);
  node.children = {{Key(), old_root.pointer()}, child};
  allocated.value().Posted();
  lock.linked().Add(allocated.value().stamp());
  const Result<bool> is_there = co_await WriteAndCheck(op, pointer, node, words);
  if (!is_there) co_return co_await lock.ReleaseAfter(is_there.error());
  if (!rules::MayRaiseOver(is_there.value())) {
    allocated.value().GiveBack();
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    co_return Raised::kNotThere;
  }
  const RootWord root(pointer, level);
  const Result<std::optional<bool>> swapped =
      co_await Swap(op, lock, old_root, root, words + kRootWord);
  if (!swapped) co_return co_await lock.ReleaseAfter(swapped.error());
  // The word was changed under the lock, or it is unknown.
  static_cast<void>(co_await lock.Release());
  // Unknown: the new node may have been the root in between, so it stays.
  if (!swapped.value()) co_return Raised::kByAnother;
  if (!*swapped.value()) {
    allocated.value().GiveBack();
    co_return Raised::kByAnother;
  }
  allocated.value().Linked();
  context_.cache.Insert(op.began.flushes, pointer, node);
  context_.cache.SetRoot(op.began.flushes, root);
  co_return Raised::kByUs;
}

Task<Result<bool>> TreeHeight::WriteAndCheck(Op& op, RemotePtr pointer, const InternalNode& node,
                                             LocalAddress buffers) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const InternalNode::Child& child = node.children.back();
  const LocalAddress image = buffers + kWordBytes;
  const LocalAddress child_image = image + bytes;
  const LocalAddress child_word = buffers + kChildWord;
  EncodeInternal({image.data, bytes}, pointer, node);
  ServerBatches batches;
  Batch& write = batches.For(pointer.server(), 1);
  write.Add(Verb::Write(pointer.offset(), bytes, image));
  Batch& check = batches.For(child.pointer.server(), 2);
  check.Add(ReadLockOf(context_, child.pointer, child_word));
  check.Add(ReadChild(context_, node.level, child.pointer, child_image));
  co_await context_.links.ExecuteAll(op, batches.used());
  for (const Batch* batch : batches.used()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  co_return ChildMatches(context_, child_image.data, node.level, child.separator, child.pointer) &&
      rules::MayLink(IsBeingMerged(child_word));
}

Task<Result<bool>> TreeHeight::Lower(Op& op, RootWord root) {
  assert(root.level() != 0);
  BOOST_OUTCOME_CO_TRY(words, context_.links.Buffer(kWordBytes));
  RemoteLock lock(context_.locks, op);
  BOOST_OUTCOME_CO_TRY(present, co_await Lock(op, lock, words.address()));
  if (present != root) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    co_return false;
  }
  const Result<std::optional<RemotePtr>> child = co_await Freeze(op, lock, root);
  if (!child) co_return co_await lock.ReleaseAfter(child.error());
  if (!child.value()) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    co_return false;
  }
  const RootWord lower(*child.value(), root.level() - 1);
  const Result<std::optional<bool>> swapped =
      co_await Swap(op, lock, root, lower, words.address(kRootWord));
  if (!swapped) co_return co_await lock.ReleaseAfter(swapped.error());
  static_cast<void>(co_await lock.Release());
  const bool is_lower = swapped.value() && *swapped.value();
  if (is_lower) {
    // Nothing leads to it, and nobody writes to it.
    context_.memory.FreeNode(op, root.pointer());
    context_.cache.SetRoot(op.began.flushes, lower);
    context_.cache.Forget(root.level(), Key(), root.pointer());
  }
  co_return is_lower;
}

// The lock of the root is only tried, as that of the root word is held (rule W5). It may be the
// same.
Task<Result<std::optional<RemotePtr>>> TreeHeight::Freeze(Op& op, RemoteLock& word_lock,
                                                          RootWord root) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const std::optional<RemotePtr> none;
  BOOST_OUTCOME_CO_TRY(buffers, context_.links.Buffer(LockedBuffers::Bytes(bytes)));
  RemoteLock own(context_.locks, op);
  own.UseWords(buffers.address(LockedBuffers::kLockWord),
               buffers.address(LockedBuffers::kUnlockWord));
  BOOST_OUTCOME_CO_TRYV(own.AimAt(root.pointer()));
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, own.server()));
  const bool is_same = own.place() == word_lock.place();
  RemoteLock& lock = is_same ? word_lock : own;
  const LocalAddress image = buffers.address(LockedBuffers::kImage);
  const Verb read = Verb::Read(root.pointer().offset(), bytes, image);
  if (is_same) {
    InlineBatch<1> batch(lock.server());
    batch.Add(read);
    BOOST_OUTCOME_CO_TRYV(co_await lock.Read(batch));
  } else {
    const bool has_turn = own.TryTakeTurn() || own.TryShareTurn(word_lock);
    if (!has_turn) co_return MakeError(Code::kContended, "the lock of the root is taken");
    BOOST_OUTCOME_CO_TRY(tried, co_await own.Try({&read, 1}));
    if (tried == RemoteLock::Attempt::kRefused) {
      co_return MakeError(Code::kContended, "the lock of the root is taken");
    }
  }
  std::optional<InternalNode> node = DecodeInternal({image.data, bytes}, root.pointer());
  const bool has_one = node && node->level == root.level() && node->children.size() == 1 &&
                       node->high.infinite && node->low().empty();
  if (!has_one || node->frozen || !rules::FreezesRoot()) {
    if (!is_same) {
      BOOST_OUTCOME_CO_TRYV(co_await own.Release());
    }
    co_return has_one ? std::optional(node->children[0].pointer) : none;
  }
  node->frozen = true;
  node->version = Next(node->version);
  EncodeInternal({image.data, bytes}, root.pointer(), *node);
  InlineBatch<2> batch(lock.server());
  batch.Add(Verb::Write(root.pointer().offset(), bytes, image));
  BOOST_OUTCOME_CO_TRYV(
      co_await lock.Commit(batch, is_same ? RemoteLock::After::kKeep : RemoteLock::After::kRelease,
                           RemoteLock::NewVersion{root.pointer(), node->level, node->version}));
  co_return std::optional(node->children[0].pointer);
}

// Posted in the lock's epoch (L4), and only while what it links is ours (U4: no memory of an ended
// lease).
Task<Result<std::optional<bool>>> TreeHeight::Swap(Op& op, RemoteLock& lock, RootWord from,
                                                   RootWord to, LocalAddress word_at) {
  BOOST_OUTCOME_CO_TRYV(co_await lock.EnterEpoch());
  if (!lock.MayLink()) co_return std::optional(false);
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::CompareSwap(Space::kRegion, kRootWordOffset, from.word(), to.word(), word_at));
  co_await context_.links.Execute(op, batch);
  if (batch.status() == VerbStatus::kSuccess) {
    co_return std::optional(batch.verbs()[0].old_value() == from.word());
  }
  context_.memory.LeaveBehind();  // a root that is perhaps none any more
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Replace(op, Links::LossOf(batch)));
  BOOST_OUTCOME_CO_TRY(root, co_await context_.nodes.ReadRoot(op));
  if (root == to) co_return std::optional(true);
  co_return std::optional<bool>();
}

}  // namespace gossamer
