#include "compute/tree/shape/check_child.h"

#include <cassert>
#include <cstring>

#include "compute/rules/rules.h"

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

}  // namespace gossamer
