// MissingDownlinks: where a hop to a sibling notes that the parent may have no downlink to that sibling yet (rule W6).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "proto/remote_ptr.h"

namespace gossamer {

class MissingDownlinks {
 public:
  using OnNote = std::function<void(RemotePtr left, uint32_t level)>;

  // `on_note` is called for each note from now on.
  void Listen(OnNote on_note) { on_note_ = std::move(on_note); }
  // The sibling of `left`, at `level`, was reached over `left`.
  void Note(RemotePtr left, uint32_t level) const {
    if (on_note_) on_note_(left, level);
  }

 private:
  OnNote on_note_;
};

}  // namespace gossamer
