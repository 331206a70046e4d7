#include "compute/cache/fill_plan.h"

namespace gossamer {

FillPlan::Work FillPlan::Next(NodeCache::Reader& reader, Nodes& next) {
  next.nodes.clear();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  if (!is_running_) {
    // Another session may have ended the pass that the caller was to work on.
    if (misses_.load() < needed_.load()) return {};
    is_running_ = true;
    looked_at_ = 0;
    level_ = cache_.root().level();
    at_ = {};
  }
  while (next.nodes.empty()) {
    if (at_.infinite) {
      if (works_.load(std::memory_order_acquire) != 0) return {};
      if (level_ <= 1) {
        End();
        return {};
      }
      --level_;
      at_ = HighFence::At(KeyView());
      if (!MayFillLevel(reader)) {
        End();
        return {};
      }
    }
    HighFence end;
    const uint32_t children = reader.FindMissing(at_.key, level_, next.nodes, end);
    if (children == 0) {
      End();
      return {};
    }
    looked_at_ += children;
    at_ = end;
  }
  next.level = level_;
  works_.fetch_add(1, std::memory_order_relaxed);
  return Work(this);
}

bool FillPlan::MayFillLevel(NodeCache::Reader& reader) {
  uint64_t missing = 0;
  for (HighFence from = at_; !from.infinite;) {
    scratch_.clear();
    HighFence end;
    const uint32_t children = reader.FindMissing(from.key, level_, scratch_, end);
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
