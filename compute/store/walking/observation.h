// Observation: tells a StoreObserver of one store, from before it is opened until it is closed.
//
// Thread-safety: none.
#pragma once

#include <memory>
#include <utility>

#include "gossamer/observer.h"

namespace gossamer {

class Observation {
 public:
  // `observer` may be null. Errors: those of StoreObserver::Begin.
  static Result<Observation> Begin(std::shared_ptr<StoreObserver> observer) {
    if (observer) {
      BOOST_OUTCOME_TRYV(observer->Begin());
    }
    return Observation(std::move(observer));
  }
  Observation() = default;
  Observation(Observation&&) = default;
  Observation& operator=(Observation&&) = default;
  ~Observation() { End(); }

  void Opened(Store& store) {
    if (observer_) observer_->Opened(store);
  }
  void End() {
    if (const std::shared_ptr<StoreObserver> observer = std::move(observer_)) observer->Ended();
  }

 private:
  explicit Observation(std::shared_ptr<StoreObserver> observer) : observer_(std::move(observer)) {}

  std::shared_ptr<StoreObserver> observer_;
};

}  // namespace gossamer
