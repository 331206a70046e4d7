// Highway compiles this file once for each instruction set (it includes the file again and again),
// and picks the best that the machine has when it runs.
#include "compute/tree/key_ranks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/tree/key_ranks.cc"
#include <hwy/foreach_target.h>
// behind foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void CountLessHere(const int32_t* numbers, size_t count, int32_t* ranks) {
  const hn::CappedTag<int32_t, kRankLanes> tag;
  for (size_t first = 0; first < count; first += hn::Lanes(tag)) {
    const auto own = hn::LoadU(tag, numbers + first);
    auto less = hn::Zero(tag);
    for (size_t i = 0; i < count; ++i) {
      // A lane of a true mask is -1.
      less = hn::Sub(less, hn::VecFromMask(tag, hn::Lt(hn::Set(tag, numbers[i]), own)));
    }
    hn::StoreU(less, tag, ranks + first);
  }
}

}  // namespace
}  // namespace gossamer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer {

HWY_EXPORT(CountLessHere);

void CountLess(const int32_t* numbers, size_t count, int32_t* ranks) {
  HWY_DYNAMIC_DISPATCH(CountLessHere)(numbers, count, ranks);
}

}  // namespace gossamer
#endif
