// TreeCursor: a scan that reads page by page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compute/store/open_session.h"
#include "gossamer/store.h"

namespace gossamer {

class TreeCursor final : public ScanCursor {
 public:
  TreeCursor(OpenSession& session, const ScanOptions& options);

  bool Next() override;
  Task<bool> AsyncNext() override;
  std::string_view key() const override { return page_[at_].key; }
  std::string_view value() const override { return page_[at_].value; }
  const Status& status() const override { return status_; }
  std::span<const MissingKeys> missing() const override { return salvage_.missing; }

 private:
  // Advances within the page. Returns nullopt at the page's end.
  std::optional<bool> Step();
  Task<void> FetchPage();
  Task<Status> FetchSalvaged();
  bool IsPastEnd(std::string_view key) const;

  OpenSession& session_;
  std::string from_;               // inclusive
  std::optional<std::string> to_;  // exclusive
  uint64_t left_;                  // keys still wanted
  ScanPosition position_;
  std::vector<ScannedEntry> page_;
  size_t at_ = 0;
  bool started_ = false;
  bool fetched_ = false;
  bool ended_ = false;
  size_t leaves_;  // leaves to read for the next page
  Status status_ = Ok();
  const bool salvages_;
  Salvage salvage_;
};

}  // namespace gossamer
