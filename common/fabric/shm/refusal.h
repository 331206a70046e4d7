// How a memory server tells clients that it cannot admit them, even when it has no file descriptor
// for one.
//
// A spare descriptor is released to accept such a client, refuse it, and close its socket again.
//
// Thread-safety: none.
#pragma once

#include "common/fabric/shm/handles.h"
#include "common/fabric/shm/socket.h"
#include "common/status.h"

namespace gossamer::shm {

// The welcome of a client that is not accepted.
Welcome Refusal(const Error& error);
// The error of a client that no descriptor is left for. The server lives and serves others.
Error NoDescriptorHere();

class DescriptorShortage {
 public:
  // Takes the spare descriptor, unless it is held. Call once in a while: it may be impossible now.
  void HoldSpare();
  // Tells the next client in the queue that there is no file descriptor for it. Returns false if
  // that is impossible.
  bool RefuseNext(ListeningSocket& listener);
  // Tells a client that there are too few descriptors for it.
  void Refuse(const UniqueFd& socket);
  // Clients cannot be accepted, for the reason in errno. Logs the first time.
  void NoteCannotAccept();
  // A client was accepted: a later shortage is logged again.
  void NoteAccepted() { is_logged_ = false; }

 private:
  UniqueFd spare_;
  bool is_logged_ = false;
};

}  // namespace gossamer::shm
