// ScanCursor: a cursor over a range of a store's keys. See Session::Scan.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gossamer/expiry.h"
#include "gossamer/status.h"
#include "gossamer/task.h"

namespace gossamer {

// A range that a scan with `salvage` skipped: [from, to), or everything from `from` on. The store
// may hold keys in it.
struct MissingKeys {
  std::string from;
  std::optional<std::string> to;
  Error why;
};

// Where another scan goes on.
struct ScanBookmark {
  uint64_t number = 0;  // for any client of the store: `ScanOptions::resume_at`; 1 to 2^63 - 1
  std::string key;      // the same position as `ScanOptions::from`
};

// A key that a cursor has at hand, with its value. For cursors' own use. Small, because a scan
// moves many of them.
struct ScanEntry {
  enum class Kind : uint8_t {
    kInline,  // the value is behind the key
    kReference,  // what is behind the key tells where the value is; no cursor has such an entry at hand
    kLong,       // the same of a key of which only the first bytes are known
    kAway,       // the value is another string, of which `length` is the number
  };

  const char* bytes = nullptr;  // the key
  uint32_t length = 0;          // of what is behind the key
  uint8_t key_bytes = 0;
  Kind kind = Kind::kInline;
  // 0: the leaf stores no time. Otherwise it does, and unless `kind` is kAway the time is so many
  // bytes behind the key, less one.
  uint8_t expiry_at = 0;

  std::string_view key() const { return {bytes, key_bytes}; }
  // `away`: the strings that kAway refers to.
  std::string_view Value(const std::string_view* away) const {
    return kind == Kind::kAway ? away[length] : std::string_view(bytes + key_bytes, length);
  }
  // As Expiry::FromStored takes it. `away`: the times that kAway refers to.
  uint64_t ExpiresAt(const uint64_t* away) const {
    if (expiry_at == 0) return 0;
    if (kind == Kind::kAway) return away[length];
    uint64_t ms = 0;  // has 6 bytes, the lowest first
    for (int i = 5; i >= 0; --i) {
      ms = ms << 8 | static_cast<uint8_t>(bytes[key_bytes + expiry_at - 1 + i]);
    }
    return ms;
  }
};
static_assert(sizeof(ScanEntry) == 16);

// Sees each key exactly once, in order, even if nodes split meanwhile.
//
//   auto cursor = session->Scan({.prefix = "user:"});
//   while (cursor->Next()) Use(cursor->key(), cursor->value());
//   if (!cursor->status()) return Fail(cursor->status().error().ToString());  // why it ended early
//
//   while (co_await cursor->AsyncNext()) …  // the same in a coroutine
//
// A cursor reads many keys at a time, and reads on while these are used. How many it reads follows
// from the limit and the range: state them. Without a limit it begins with few and doubles. Each
// value was the key's at some time since the scan began.
//
// A cursor may be dropped at any time, except while its AsyncNext is awaited. If its
// session ends first, Next returns false from then on, key and value are not valid any more, and
// status is InvalidArgument unless the scan had ended.
//
// Cost: a round trip for each 32 leaves (some 1,000 small records), mostly in the background.
// Nothing is copied or allocated for a key, and a key at hand costs no virtual call.
class ScanCursor {
 public:
  class Advance;

  virtual ~ScanCursor() = default;
  // Advances to the next key. Returns false at the end and on an error: see `status`.
  bool Next() {
    if (next_ == end_) Refill();
    return Step();
  }
  // `Next` for a coroutine: co_await cursor.AsyncNext(). A coroutine awaits one at a time.
  Advance AsyncNext();
  // Valid from a `Next` that returned true until the next call.
  std::string_view key() const { return next_[-1].key(); }
  std::string_view value() const { return next_[-1].Value(away_); }
  // When the key expires; it may have done so by now.
  Expiry expiry() const { return Expiry::FromStored(next_[-1].ExpiresAt(away_expiries_)); }
  virtual const Status& status() const = 0;
  // With `salvage`: the ranges skipped so far, in order.
  virtual std::span<const MissingKeys> missing() const { return {}; }
  // With `to_bookmark`, when Next has returned false without an error: where to go on; nullopt: the
  // range has ended.
  virtual std::optional<ScanBookmark> bookmark() const { return std::nullopt; }

 protected:
  // What the next calls of Next go through. All stay until Refill or the cursor's end.
  // `away_expiries`: null if no entry expires.
  void SetEntries(std::span<const ScanEntry> entries, const std::string_view* away,
                  const uint64_t* away_expiries = nullptr) {
    next_ = entries.data();
    end_ = next_ + entries.size();
    away_ = away;
    away_expiries_ = away_expiries;
  }
  // Called when the entries have been passed. Sets those that come next, or none at the end and on
  // an error.
  virtual void Refill() = 0;
  virtual Task<void> AsyncRefill() = 0;

 private:
  bool Step() {
    if (next_ == end_) return false;
    ++next_;
    return true;
  }

  const ScanEntry* next_ = nullptr;  // The current entry is before it.
  const ScanEntry* end_ = nullptr;
  const std::string_view* away_ = nullptr;
  const uint64_t* away_expiries_ = nullptr;
};

// Takes a coroutine to the cursor's next key. With a key at hand it does not suspend.
class [[nodiscard]] ScanCursor::Advance {
 public:
  explicit Advance(ScanCursor& cursor) : cursor_(cursor) {}

  bool await_ready() const { return cursor_.next_ != cursor_.end_; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    refill_ = cursor_.AsyncRefill();
    return refill_.operator co_await().await_suspend(waiter);
  }
  bool await_resume() { return cursor_.Step(); }

 private:
  ScanCursor& cursor_;
  Task<void> refill_;
};

inline ScanCursor::Advance ScanCursor::AsyncNext() { return Advance(*this); }

}  // namespace gossamer
