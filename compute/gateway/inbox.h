// Inbox: where a worker finds the clients that are to be its own.
//
// Thread-safety: all may be called by any thread, except Open and TakeAll, which are the worker's.
#pragma once

#include <atomic>
#include <cstdint>
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

}  // namespace gossamer::gateway
