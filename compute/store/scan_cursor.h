// TreeCursor: a cursor over what a Scanner hands out, a leaf's entries at a time.
//
// Keys and values are views into what was read. A cursor may outlive its session, which ends it.
#pragma once

#include <span>
#include <string>

#include "compute/store/open_session.h"
#include "gossamer/store.h"

namespace gossamer {

class TreeCursor final : public ScanCursor {
 public:
  TreeCursor(OpenSession& session, const ScanOptions& options);
  TreeCursor(const TreeCursor&) = delete;
  TreeCursor& operator=(const TreeCursor&) = delete;
  ~TreeCursor() override { Detach(); }

  bool Next() override;
  Task<bool> AsyncNext() override;
  std::string_view key() const override { return next_[-1].key(); }
  std::string_view value() const override { return scan_->page.ValueOf(next_[-1]); }
  const Status& status() const override { return status_; }
  std::span<const MissingKeys> missing() const override { return salvage_.missing; }

  // Ends the cursor, because its session ends.
  void EndWithSession();

 private:
  // Advances to the next entry that is at hand. nullopt: what comes next must be fetched.
  std::optional<bool> Step();
  Task<void> Fetch();
  Task<Status> FetchSalvaged();
  // Gives back what belongs to the session.
  void Detach();

  OpenSession* session_;
  Scan* scan_ = nullptr;  // null: nothing to scan, or the session has ended
  // Entries that are at hand. The current one is before `next_`.
  const ScanEntry* next_ = nullptr;
  const ScanEntry* end_ = nullptr;
  bool has_begun_ = false;
  Status status_ = Ok();
  const bool salvages_;
  Salvage salvage_;
};

}  // namespace gossamer
