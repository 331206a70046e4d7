// TreeCursor: a cursor over what a Scanner hands out, a leaf's entries at a time.
//
// Keys and values are views into what was read. A cursor may outlive its session, which ends it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compute/store/open_session.h"
#include "compute/store/walking/salvager.h"
#include "compute/tree/read/scan.h"
#include "gossamer/store.h"

namespace gossamer {

class TreeCursor final : public ScanCursor {
 public:
  TreeCursor(OpenSession& session, const ScanOptions& options);
  TreeCursor(const TreeCursor&) = delete;
  TreeCursor& operator=(const TreeCursor&) = delete;
  ~TreeCursor() override { Detach(); }

  const Status& status() const override { return status_; }
  std::span<const MissingKeys> missing() const override {
    return salvager_ ? salvager_->missing() : std::span<const MissingKeys>();
  }
  std::optional<ScanBookmark> bookmark() const override {
    return scan_ == nullptr ? std::nullopt : scan_->bookmark;
  }

  // Ends the cursor, because its session ends.
  void EndWithSession();

 private:
  void Refill() override;
  Task<void> AsyncRefill() override;
  // Sets the entries that come next, if any do. Returns false if they must be fetched first.
  bool SetNextEntries();
  Task<void> Fetch();
  // Gives back what belongs to the session.
  void Detach();

  OpenSession* session_;
  std::unique_ptr<Scan> scan_;  // null: nothing to scan, or the session has ended
  bool has_begun_ = false;
  bool has_ended_ = false;  // with all keys seen
  Status status_ = Ok();
  std::optional<Salvager> salvager_;  // of a scan with salvage
};

}  // namespace gossamer
