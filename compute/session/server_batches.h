// ServerBatches: the batches of an operation that posts to several memory servers at once.
//
// One for each server, and another where one is full. They are made once and used again.
//
// Thread-safety: none; they belong to one operation. Cost: no allocation in the steady state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/fabric/work_request.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class ServerBatches {
 public:
  // Every fabric takes batches of so many verbs (Limits::max_batch_verbs).
  static constexpr uint32_t kMaxVerbs = 64;

  // For the next use. Requires (unchecked): the batches have ended.
  void Clear() { used_.clear(); }
  // A batch for `server` with room for `verbs` more. It may be another one than the last.
  Batch& For(ServerId server, size_t verbs) {
    if (!used_.empty() && HasRoom(*used_.back(), server, verbs)) [[likely]]
      return *used_.back();
    return FindOrAdd(server, verbs);
  }
  std::span<Batch* const> used() const { return used_; }

 private:
  static bool HasRoom(const Batch& batch, ServerId server, size_t verbs) {
    return batch.server() == server && batch.verbs().size() + verbs <= kMaxVerbs;
  }
  [[gnu::noinline]] Batch& FindOrAdd(ServerId server, size_t verbs) {
    const auto found = std::find_if(used_.rbegin(), used_.rend(), [&](const Batch* batch) {
      return HasRoom(*batch, server, verbs);
    });
    if (found != used_.rend()) return **found;
    if (used_.size() == batches_.size()) {
      batches_.push_back(std::make_unique<InlineBatch<kMaxVerbs>>());
    }
    used_.push_back(batches_[used_.size()].get());
    used_.back()->Reset(server);
    return *used_.back();
  }

  std::vector<std::unique_ptr<InlineBatch<kMaxVerbs>>> batches_;
  std::vector<Batch*> used_;
};

}  // namespace gossamer
