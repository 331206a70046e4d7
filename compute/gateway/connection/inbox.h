// Inbox: where a worker finds the clients that are to be its own.
// Inboxes: those of all workers.
//
// Thread-safety: all may be called by any thread, except Open and TakeAll, which are the worker's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "common/unique_fd.h"

namespace gossamer::gateway {

class Inbox {
 public:
  struct Arrival {
    UniqueFd socket;
    bool is_tls;
  };

  // Returns false if this process may open no more files.
  bool Open();
  // Readable once something is in the inbox, or after Wake.
  int fd() const { return wake_.get(); }
  void Wake() const;

  void Put(Arrival arrival);
  // What has arrived, the oldest first. Until the next Put or Wake, `fd` is not readable.
  std::vector<Arrival> TakeAll();

  // The worker's clients, with those in the inbox.
  std::atomic<uint64_t> clients{0};

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<Arrival> arrivals_;  // guarded by mutex_
};

class Inboxes {
 public:
  explicit Inboxes(size_t workers) : all_(workers) {}

  Inbox& operator[](size_t worker) { return all_[worker]; }
  // Counts one more client of the worker that has the fewest, and returns its inbox; null if there
  // are `most` clients. At no time are there more, however many threads call this.
  Inbox* TakePlace(uint64_t most);
  // The clients of all workers.
  uint64_t CountClients() const;

 private:
  std::deque<Inbox> all_;
  std::mutex placing_;  // between the count and the place
};

}  // namespace gossamer::gateway
