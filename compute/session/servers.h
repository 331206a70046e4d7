// The memory servers of an open store, as this compute server knows them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cassert>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "proto/lock_word.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"
#include "proto/store_record.h"

namespace gossamer {

struct ServerInfo {
  ServerId id{0};
  std::string address;
  uint64_t incarnation = 0;  // the incarnation that connections are made to (rule U6)
  Lease lease;               // this compute server's lease with that memory server
  uint32_t lease_ms = 0;     // a lease not renewed within this time ends; 0: it never ends
  uint64_t region_bytes = 0;
  uint64_t lock_table_bytes = 0;
  uint64_t chunk_bytes = 0;
};

// The error for an unreachable memory server, with the reason. Its remedy differs for server 0,
// which holds the root, and if `why` says that the server was restarted.
Error CannotBeReached(ServerId server, std::string_view address, std::string_view why);

// A Corruption error: `what` is at `pointer`.
Error CorruptNode(RemotePtr pointer, std::string_view what);

// The error for a memory server that was stopped and left the store's record.
Error HasLeft(ServerId server);

// Thread-safety: lookups are lock-free; servers are added or replaced, never removed. Pointers to
// memory of one that has left stay pointers to a server that does not answer.
class Servers {
 public:
  // A slot for every id that a store can assign.
  static constexpr size_t kMaxServers = kMaxMemoryServers;

  // Null if the server is not known (yet).
  // Requires: an id that a store can assign. Links checks those of pointers that were read.
  const ServerInfo* Find(ServerId id) const {
    assert(ToInteger(id) < kMaxServers);
    return by_id_[ToInteger(id)].load(std::memory_order_acquire);
  }
  // All servers that have not left, in the order added.
  std::vector<const ServerInfo*> All() const {
    const std::lock_guard lock(mutex_);
    return present_;
  }
  // Call if the store's record does not name the server any more: it never comes back.
  void NoteLeft(ServerId id) {
    const std::lock_guard lock(mutex_);
    left_.set(ToInteger(id));
    std::erase_if(present_, [id](const ServerInfo* info) { return info->id == id; });
  }
  bool HasLeft(ServerId id) const {
    const std::lock_guard lock(mutex_);
    return left_.test(ToInteger(id));
  }
  // Call if the store's record says that the server's memory outlives its process: it is to come
  // back with it, in another incarnation. It need not be known yet.
  void NoteComesBack(ServerId id) {
    const std::lock_guard lock(mutex_);
    come_back_.set(ToInteger(id));
  }
  bool ComesBack(ServerId id) const {
    const std::lock_guard lock(mutex_);
    return come_back_.test(ToInteger(id)) && !left_.test(ToInteger(id));
  }
  bool SomeComeBack() const {
    const std::lock_guard lock(mutex_);
    return (come_back_ & ~left_).any();
  }
  // Whether servers besides `id` are known.
  bool HasOther(ServerId id) const {
    return std::ranges::any_of(All(), [id](const ServerInfo* info) { return info->id != id; });
  }
  // A new server, or one that has come back. What was known of that stays valid for who holds it.
  void Add(ServerInfo info) {
    const std::lock_guard lock(mutex_);
    owned_.push_back(std::make_unique<ServerInfo>(std::move(info)));
    const ServerInfo* const added = owned_.back().get();
    by_id_[ToInteger(added->id)].store(added, std::memory_order_release);
    std::erase_if(present_, [added](const ServerInfo* known) { return known->id == added->id; });
    if (!left_.test(ToInteger(added->id))) present_.push_back(added);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ServerInfo>> owned_;
  std::vector<const ServerInfo*> present_;  // those that have not left
  std::bitset<kMaxServers> left_;
  std::bitset<kMaxServers> come_back_;
  std::array<std::atomic<const ServerInfo*>, kMaxServers> by_id_{};
};

}  // namespace gossamer
