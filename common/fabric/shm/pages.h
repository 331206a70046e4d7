// PageSource: where a memory server gets the pages of its queue pairs from, which it shares with
// its clients: each in a memfd of its own, or, for memory that outlives the server's process, in
// the file with that memory (KeptMemory). There the next process finds them, closes them, and
// finishes what a dead client was doing: the file descriptor of a memfd would be gone.
//
// Thread-safety: none; it belongs to the port's control thread. A source outlives its pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/memory_port.h"
#include "common/fabric/shm/handles.h"
#include "common/fabric/shm/memory.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::shm {

class PageSource {
 public:
  // Gives a page of the file back.
  struct GiveBack {
    PageSource* source;
    void operator()(QueuePairPage* page) const;
  };

  // A page, and what its client maps.
  struct Page {
    std::unique_ptr<QueuePairPage, GiveBack> kept{nullptr, {}};  // in the file,
    MemoryMapping own;                                           // or in a memfd,
    UniqueFd own_file;  // which only the client needs once it has it

    QueuePairPage* get() const {
      return kept ? kept.get() : reinterpret_cast<QueuePairPage*>(own.data());
    }
    explicit operator bool() const { return get() != nullptr; }
  };

  // `kept`: null for memfds. Otherwise it outlives the source.
  explicit PageSource(const KeptMemory* kept);

  // Closes the pages of the process before this one, and waits until no verb of their clients can
  // land any more.
  // Errors: Contended if a client has been stopped in the middle of its verbs all the time.
  Status SettleOld(const SharedMemory& memory, std::chrono::milliseconds patience);

  // A page for a client, whose process is `client` (common/process.h).
  // Errors: NodeUnreachable, as the client is told.
  Result<Page> Make(const std::string& client);
  // What to send to the client: the file descriptor, and where in the file the page begins.
  int FileOf(const Page& page) const { return page.kept ? kept_->file : page.own_file.get(); }
  uint64_t PlaceOf(const Page& page) const;

 private:
  QueuePairPage* At(size_t slot) const {
    return reinterpret_cast<QueuePairPage*>(kept_->queue_pair_pages.data() +
                                            slot * kQueuePairPageBytes);
  }

  const KeptMemory* const kept_;
  std::vector<QueuePairPage*> free_;  // of the file
};

}  // namespace gossamer::shm
