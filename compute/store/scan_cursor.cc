#include "compute/store/scan_cursor.h"

#include <utility>

#include "compute/tree/read/scan_bookmark.h"
#include "compute/tree/tree.h"

namespace gossamer {

TreeCursor::TreeCursor(OpenSession& session, const ScanOptions& options) : session_(&session) {
  if (options.salvage && options.reverse) {
    status_ = MakeError(Code::kInvalidArgument, "a scan with salvage goes in ascending order");
  }
  const bool uses_bookmarks = options.to_bookmark || options.resume_at != 0;
  if (uses_bookmarks && (options.reverse || options.salvage)) {
    status_ = MakeError(Code::kInvalidArgument,
                        "a scan with bookmarks goes in ascending order, and without salvage");
  }
  if (options.resume_at != 0 && !bookmark::IsPossible(options.resume_at)) {
    status_ = MakeError(Code::kInvalidArgument, "no scan has given that bookmark");
  }
  std::optional<ScanRange> range = RangeOf(options.from, options.to, options.prefix);
  if (range && options.limit != 0) {
    range->reverse = options.reverse;
    range->keys_only = options.keys_only;
    if (options.salvage) range->wanted = ScanRange::Wanted::kProbable;
    scan_ = session.tree().scanner().Open(std::move(*range), options.limit);
    scan_->resume_at = options.resume_at;
    scan_->to_bookmark = options.to_bookmark;
  }
  if (options.salvage) salvager_.emplace(session.tree().context(), session.tree().scanner());
  session.Add(*this);
}

void TreeCursor::Detach() {
  if (session_ == nullptr) return;
  if (scan_ != nullptr) session_->tree().scanner().Close(std::move(scan_));
  std::exchange(session_, nullptr)->Remove(*this);
}

void TreeCursor::EndWithSession() {
  SetEntries({}, nullptr);
  if (status_ && scan_ != nullptr && !has_ended_) {
    status_ = MakeError(Code::kInvalidArgument, "the session of this cursor has ended");
  }
  Detach();
}

void TreeCursor::Refill() {
  while (!SetNextEntries()) session_->RunToEnd(Fetch());
}

Task<void> TreeCursor::AsyncRefill() {
  while (!SetNextEntries()) co_await Fetch();
}

bool TreeCursor::SetNextEntries() {
  SetEntries({}, nullptr);
  if (!status_ || scan_ == nullptr) return true;
  const Scanner::State state = session_->tree().scanner().Advance(*scan_);
  if (state == Scanner::State::kReady) {
    SetEntries(Scanner::Take(*scan_), scan_->page.away.data(), scan_->page.away_expiries.data());
  }
  has_ended_ = state == Scanner::State::kEnded;
  return state != Scanner::State::kWaits;
}

Task<void> TreeCursor::Fetch() {
  Tree& tree = session_->tree();
  if (!has_begun_) ++tree.counters().of(OperationClass::kScan).operations;
  has_begun_ = true;
  if (salvager_) {
    status_ = co_await salvager_->SalvageLeaf(*scan_);
  } else {
    status_ = co_await tree.scanner().Fetch(*scan_);
  }
}

}  // namespace gossamer
