// MissingDownlinks: a hop to a sibling notes here that the parent may lack its downlink (rule W6).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class MissingDownlinks {
 public:
  using OnNote = std::function<void(RemotePtr left, uint32_t level, const Key& low)>;

  // Calls `on_note` for each note from now on.
  void Listen(OnNote on_note) { on_note_ = std::move(on_note); }
  // A hop led from `left`, at `level`, to its sibling. `left` starts at `low`.
  void Note(RemotePtr left, uint32_t level, const Key& low) const {
    if (on_note_) on_note_(left, level, low);
  }

 private:
  OnNote on_note_;
};

}  // namespace gossamer
