// ChangeRun: does the changes of many keys, those of each key as one operation of the store.
#pragma once

#include <vector>

#include "compute/gateway/commands/value_change.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class ChangeRun {
 public:
  // Each gets its result. The vectors of `this` keep their memory for the next call.
  Task<void> Run(Session& session, std::vector<KeyChanges>& changes);
  size_t held_bytes() const {
    return modifiers_.capacity() * sizeof(KeyModifier) + places_.capacity() * sizeof(size_t) +
           results_.capacity() * sizeof(Status);
  }

 private:
  // Does what must come before `one` is done again, or behind it.
  static Task<Status> Prepare(Session& session, KeyChanges& one);

  std::vector<size_t> places_;  // of the changes that are left
  std::vector<KeyModifier> modifiers_;
  std::vector<Status> results_;
};

}  // namespace gossamer::gateway
