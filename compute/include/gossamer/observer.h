// StoreObserver: something that watches a store from its opening to its closing, such as the
// metrics of gossamer/metrics.h.
//
//   options.observer = gossamer::ServeMetrics({.address = "127.0.0.1:7402"});
//   auto store = gossamer::Store::Open(options);
//
// An observer watches one store at a time.
#pragma once

#include "gossamer/status.h"

namespace gossamer {

class Store;

class StoreObserver {
 public:
  virtual ~StoreObserver() = default;

  // A store is about to be opened. If this fails, that is the error of `Store::Open`, and nothing
  // else is called. Otherwise `Ended` is called in the end.
  virtual Status Begin() = 0;
  // It is open. `store` may be used, by any thread, until `Ended` returns.
  virtual void Opened(Store& store) = 0;
  // It is about to be closed, or could not be opened. Called by the thread that does that.
  virtual void Ended() = 0;
};

}  // namespace gossamer
