// Whether a child is there, before it gets a downlink (rule W4).
#include "compute/tree/shape/check_child.h"

#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "compute/rules/rules.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/shape/unseen_nodes.h"

namespace gossamer {

Verb ReadChild(const TreeContext& context, uint32_t level, RemotePtr child, LocalAddress into) {
  const uint32_t trailer = context.geometry().trailer_offset();
  return level == 1 ? Verb::Read(child.offset() + trailer, kTrailerBytes, into)
                    : Verb::Read(child.offset(), context.store.parameters.node_bytes, into);
}

bool ChildMatches(const TreeContext& context, const std::byte* image, uint32_t level,
                  const Key& separator, RemotePtr child) {
  const uint32_t bytes = context.store.parameters.node_bytes;
  if (level == 1) {
    const std::optional<TrailerView> trailer =
        rules::ParseTrailer({image, kTrailerBytes}, child, context.geometry());
    return trailer && rules::MayLink(trailer->frozen()) && trailer->low().Matches(separator);
  }
  const std::optional<InternalView> node = InternalView::Parse({image, bytes}, child);
  return node && rules::MayLink(node->frozen()) && node->low() == separator.view();
}

Verb ReadLockOf(const TreeContext& context, RemotePtr child, LocalAddress into) {
  const ServerInfo* const server = context.links.servers().Find(child.server());
  assert(server != nullptr);
  return Verb::FetchAdd(Space::kLockTable, LockSlotOffset(child, server->lock_table_bytes), 0,
                        into);
}

bool IsBeingMerged(LocalAddress word) {
  uint64_t bits = 0;
  std::memcpy(&bits, word.data, sizeof bits);
  return LockWord::FromWord(bits).merges();
}

// Behind the lock's CAS: from now on the child can vanish only under this parent's lock (rule W4).
// But a client that has lost the lock of the parent, as that was before it split, may still be
// merging the child on another server, where its lease is in force. The child's lock word says so,
// until the child is frozen or the client is fenced there too.
Task<Status> ParentLinker::CheckChild(Op& op, uint32_t level, const Key& separator, RemotePtr child,
                                      LockedParent& parent) {
  if (!parent.is_before_child && child.server() != parent.lock.server()) {
    InlineBatch<2> remote(child.server());
    remote.Add(ReadLockOf(context_, child, ChildWord(parent)));
    remote.Add(ReadChild(context_, level, child, ChildImage(parent)));
    co_await context_.links.Execute(op, remote);
    if (remote.status() != VerbStatus::kSuccess) {
      const Error error = Links::Unreachable(op, remote);
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      co_return error;
    }
    parent.has_child_word = true;
  }
  if (!parent.is_before_child && parent.has_child_word &&
      !rules::MayLink(IsBeingMerged(ChildWord(parent)))) {
    co_return Ok();
  }
  parent.child_is_there =
      parent.is_before_child ||
      rules::IsChildThere(ChildMatches(context_, ChildImage(parent).data, level, separator, child));
  co_return Ok();
}

// 1 RT for each server that has some of them, unless no other operation could know them before the
// lock was taken. Behind the lock's CAS, as in CheckChild (rule W4).
Task<Status> ParentLinker::CheckOthers(Op& op, uint32_t level, RemotePtr checked,
                                       Downlinks& children, LockedParent& parent) {
  if (parent.is_before_child) co_return Ok();
  const uint32_t bytes =
      level == 1 ? uint32_t{BufferPool::kMinBytes} : context_.store.parameters.node_bytes;
  Downlinks found;
  for (size_t i = 0; i < children.size();) {
    if (children[i].pointer == checked) {
      found.push_back(children[i++]);
      continue;
    }
    constexpr size_t kAtOnce = UnseenNodes::kNodesPerBatch / 2;
    InlineBatch<2 * kAtOnce> batch(children[i].pointer.server());
    Result<BufferLease> buffer = context_.links.Buffer(kAtOnce * (bytes + sizeof(uint64_t)));
    if (!buffer) {
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      co_return buffer.error();
    }
    const size_t begin = i;
    for (; i < children.size() && i - begin < kAtOnce; ++i) {
      const RemotePtr child = children[i].pointer;
      if (child == checked || child.server() != batch.server()) break;
      const LocalAddress into = buffer.value().address((i - begin) * bytes);
      const LocalAddress word_at =
          buffer.value().address(kAtOnce * bytes + (i - begin) * sizeof(uint64_t));
      batch.Add(ReadLockOf(context_, child, word_at));
      batch.Add(ReadChild(context_, level, child, into));
    }
    co_await context_.links.Execute(op, batch);
    if (batch.status() != VerbStatus::kSuccess) {
      const Error error = Links::Unreachable(op, batch);
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      co_return error;
    }
    for (size_t read = begin; read < i; ++read) {
      const std::byte* image = buffer.value().data() + (read - begin) * bytes;
      const InternalNode::Child& child = children[read];
      const LocalAddress word = batch.verbs()[2 * (read - begin)].local;
      if (!rules::MayLink(IsBeingMerged(word))) continue;
      if (rules::IsChildThere(
              ChildMatches(context_, image, level, child.separator, child.pointer))) {
        found.push_back(child);
      }
    }
  }
  children = std::move(found);
  co_return Ok();
}

}  // namespace gossamer
