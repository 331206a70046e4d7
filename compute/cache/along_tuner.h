// AlongTuner: whether to READ blocks along with groups, by what that has brought lately.
//
// A block that was READ in vain has cost its bytes. Where more than half of them are in vain, the
// next ones are not read along, but for some now and then that tell whether that has changed.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>

namespace gossamer {

class AlongTuner {
 public:
  // Whether the next block that is known is to be read along. If so, Note follows.
  bool MayRead() {
    if (pause_ == 0) return true;
    --pause_;
    return false;
  }
  void Note(bool was_right) {
    right_ += was_right ? 1 : 0;
    if (++tried_ < kWindow) return;
    if (right_ < kWindow / 2) pause_ = kPause;
    tried_ = 0;
    right_ = 0;
  }

 private:
  static constexpr uint32_t kWindow = 64;
  static constexpr uint32_t kPause = 64 * kWindow;

  uint32_t tried_ = 0;
  uint32_t right_ = 0;
  uint32_t pause_ = 0;  // so many are not read along
};

}  // namespace gossamer
