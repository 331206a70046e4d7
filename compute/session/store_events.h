// StoreEvents: what the shared parts of an open store meet that the store acts on. The store
// implements it once, and passes it to each part as that is made.
//
// What is not overridden does nothing, and finds no server: for a part without a store.
//
// Thread-safety: any session's thread calls them.
#pragma once

#include "common/status.h"
#include "compute/session/links.h"

namespace gossamer {

class StoreEvents {
 public:
  virtual ~StoreEvents() = default;

  // Makes a memory server known that joined after the store was opened.
  virtual SearchState FindServer(ServerSearch& search) {
    search.found = MakeError(Code::kNodeUnreachable, "a server that is not known");
    return SearchState::kEnded;
  }
  // Memory servers have become nearly full, or refuse memory. Perhaps under the allocator's mutex.
  virtual void OnShortage() {}
  // A lock is orphaned, while no other one is.
  virtual void OnFirstOrphan() {}
  // A node is noted for a merge, while no other one is.
  virtual void OnFirstMerge() {}
  // A session is about to close its endpoint: replaces lost queue pairs of the store's own.
  virtual void TendLinks() {}
};

}  // namespace gossamer
