#include "compute/store/scan_cursor.h"

#include <algorithm>

namespace gossamer {
namespace {

constexpr size_t kMaxLeaves = 32;
constexpr size_t kFirstLeaves = 4;
// A leaf holds at least about this many keys, unless they are long. Sizes the first page of a
// limited scan.
constexpr uint64_t kKeysPerLeaf = 25;

// The least key above all keys that start with `prefix`; nullopt if there is none.
std::optional<std::string> PrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

}  // namespace

TreeCursor::TreeCursor(OpenSession& session, const ScanOptions& options)
    : session_(session),
      from_(options.from),
      to_(options.to),
      left_(options.limit),
      salvages_(options.salvage) {
  if (options.salvage && options.reverse) {
    status_ = MakeError(Code::kInvalidArgument, "a scan with salvage goes in ascending order");
  }
  if (!options.prefix.empty()) {
    from_ = std::max(from_, options.prefix);
    std::optional<std::string> end = PrefixEnd(options.prefix);
    if (end && (!to_ || *end < *to_)) to_ = std::move(end);
  }
  leaves_ = left_ < kMaxLeaves * kKeysPerLeaf ? left_ / kKeysPerLeaf + 2 : kFirstLeaves;
  leaves_ = std::min(leaves_, kMaxLeaves);
  position_.reverse = options.reverse;
  // A bound may be longer than any key: start at its first bytes, and end behind all keys with
  // them.
  position_.from = Key(std::string_view(from_).substr(0, kMaxKeyBytes));
  std::optional<std::string> below = to_;
  if (to_ && to_->size() > kMaxKeyBytes) below = PrefixEnd(to_->substr(0, kMaxKeyBytes));
  if (below) position_.below = HighFence::At(*below);
  ended_ = left_ == 0 || (to_ && *to_ <= from_);
}

bool TreeCursor::Next() {
  for (;;) {
    const std::optional<bool> stepped = Step();
    if (stepped) return *stepped;
    session_.RunToEnd([](TreeCursor& cursor) -> Task<bool> {
      co_await cursor.FetchPage();
      co_return true;
    }(*this));
  }
}

Task<bool> TreeCursor::AsyncNext() {
  for (;;) {
    const std::optional<bool> stepped = Step();
    if (stepped) co_return *stepped;
    co_await FetchPage();
  }
}

bool TreeCursor::IsPastEnd(std::string_view key) const {
  return position_.reverse ? key < from_ : to_ && key >= *to_;
}

std::optional<bool> TreeCursor::Step() {
  if (ended_ || !status_) return false;
  for (size_t next = started_ ? at_ + 1 : 0; next < page_.size(); ++next) {
    at_ = next;
    started_ = true;
    const std::string_view key = page_[at_].key;
    ended_ = left_ == 0 || IsPastEnd(key);
    if (ended_) return false;
    // An entry can be outside of the bounds only beside a bound longer than any key.
    if (position_.reverse ? to_ && key >= *to_ : key < from_) continue;
    --left_;
    return true;
  }
  ended_ = left_ == 0 || position_.done;
  if (ended_) return false;
  return std::nullopt;
}

Task<void> TreeCursor::FetchPage() {
  if (!fetched_) ++session_.tree().counters().of(OperationClass::kScan).operations;
  fetched_ = true;
  page_.clear();
  started_ = false;
  if (salvages_) {
    status_ = co_await FetchSalvaged();
    co_return;
  }
  status_ = co_await session_.tree().ScanLeaves(position_, leaves_, page_);
  leaves_ = std::min(leaves_ * 2, kMaxLeaves);
}

// Clips missing ranges at the scan's end: the leaf read, and so a gap, may extend beyond it.
Task<Status> TreeCursor::FetchSalvaged() {
  const Status status = co_await session_.tree().SalvageLeaf(position_, page_, salvage_);
  if (!to_) co_return status;
  if (position_.from.view() >= *to_) position_.done = true;
  std::vector<MissingKeys>& missing = salvage_.missing;
  while (!missing.empty() && missing.back().from >= *to_) missing.pop_back();
  if (!missing.empty() && (!missing.back().to || *missing.back().to > *to_)) {
    missing.back().to = *to_;
  }
  co_return status;
}

}  // namespace gossamer
