// PeerQueue: messages of channels on their way from the workers to the other compute servers.
//
// While there are no peers, messages are not kept: they cost a load.
//
// Thread-safety: all calls from any thread.
// Cost of Put: a load; with peers, an allocation and a lock, and a system call if it was empty.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/unique_fd.h"
#include "compute/gateway/channels/channels.h"

namespace gossamer::gateway {

class PeerQueue {
 public:
  // Requests as peers take them: GOSSAMER.PEER PUBLISH channel message.
  using Request = std::shared_ptr<const std::string>;

  static constexpr size_t kMostBytes = size_t{16} << 20;

  // Returns false if this process may open no more files.
  bool Open();
  // From now on messages are kept, or not. Requires: it was opened.
  void KeepIf(bool has_peers);
  // Readable while there are messages. Requires: it was opened.
  int fd() const {
    assert(wake_);
    return wake_.get();
  }
  // A message is lost if there are kMostBytes already.
  void Put(ChannelKind kind, std::string_view channel, std::string_view text);
  // All messages, the oldest first.
  std::vector<Request> TakeAll();
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> keeps_{false};
  std::atomic<uint64_t> lost_{0};
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<Request> requests_;  // and the next: guarded by mutex_
  size_t bytes_ = 0;
};

}  // namespace gossamer::gateway
