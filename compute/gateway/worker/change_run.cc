#include "compute/gateway/worker/change_run.h"

#include <numeric>

namespace gossamer::gateway {

Task<void> ChangeRun::Run(Session& session, std::vector<KeyChanges>& changes) {
  places_.resize(changes.size());
  std::iota(places_.begin(), places_.end(), size_t{0});
  while (!places_.empty()) {
    modifiers_.clear();
    for (const size_t place : places_) {
      modifiers_.push_back({changes[place].key(), &changes[place]});
    }
    results_.assign(places_.size(), Ok());
    co_await session.AsyncMultiModify(modifiers_, results_);
    size_t left = 0;
    for (size_t i = 0; i < modifiers_.size(); ++i) {
      KeyChanges& one = changes[places_[i]];
      if (results_[i] && one.is_put_off()) {
        places_[left++] = places_[i];
      } else {
        one.SetResult(results_[i]);
      }
    }
    // Where other batches hold all that may be held, one change at a time goes on.
    if (left == places_.size()) changes[places_.back()].NeverPutOff();
    places_.resize(left);
  }
}

}  // namespace gossamer::gateway
