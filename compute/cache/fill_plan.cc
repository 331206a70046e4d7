#include "compute/cache/fill_plan.h"

namespace gossamer {

bool FillPlan::Next(NodeCache::Reader& reader, Nodes& next) {
  next.nodes.clear();
  const std::lock_guard lock(mutex_);
  if (!is_running_) {
    // Another session may have ended the pass that the caller was to work on.
    if (misses_.load() < needed_.load()) return false;
    is_running_ = true;
    looked_at_ = 0;
    level_ = cache_.root().level();
    at_ = {};
  }
  while (next.nodes.empty()) {
    if (at_.infinite) {
      if (in_flight_ != 0) return false;
      if (level_ <= 1) {
        End();
        return false;
      }
      --level_;
      at_ = HighFence::At(KeyView());
      if (!MayFillLevel(reader)) {
        End();
        return false;
      }
    }
    HighFence end;
    const uint32_t children = cache_.FindMissing(reader, at_.key, level_, next.nodes, end);
    if (children == 0) {
      End();
      return false;
    }
    looked_at_ += children;
    at_ = end;
  }
  next.level = level_;
  ++in_flight_;
  return true;
}

void FillPlan::Done() {
  const std::lock_guard lock(mutex_);
  --in_flight_;
}

bool FillPlan::MayFillLevel(NodeCache::Reader& reader) {
  uint64_t missing = 0;
  for (HighFence from = at_; !from.infinite;) {
    scratch_.clear();
    HighFence end;
    const uint32_t children = cache_.FindMissing(reader, from.key, level_, scratch_, end);
    if (children == 0) return false;
    looked_at_ += children;
    missing += scratch_.size();
    from = end;
  }
  return BytesOf(missing) <= cache_.room();
}

void FillPlan::End() {
  is_running_ = false;
  needed_.store(kMisses + looked_at_);
  misses_.store(0);
}

}  // namespace gossamer
