// ValueModifier: a read-modify-write of one key, for Session::Modify and MultiModify.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gossamer/expiry.h"

namespace gossamer {

class ValueModifier {
 public:
  enum class Kind : uint8_t {
    kKeep,    // the key stays as it is
    kPut,     // it gets `value`
    kTouch,   // it keeps its value, whether composite or not, and gets the time of `expiry`; of an
              // absent key, the same as kKeep
    kDelete,  // it is deleted; likewise
  };
  struct Change {
    Kind kind = Kind::kKeep;
    std::string_view value{};
    Expiry expiry = Expiry::Keep();  // of kPut and kTouch
  };

  virtual ~ValueModifier() = default;

  // Says what becomes of a key that has `value` and expires as `expiry`, or is absent. `value`
  // lives during the call only.
  // What the change refers to, which is no part of `value`, lives until the next call, and until
  // the operation ends. It may be called several times for one operation: the last call counts. It
  // may be called by another thread that uses the store, but never by two at a time. It must be
  // short, since it may run under a lock, and must neither throw nor use the store.
  virtual Change Modify(std::optional<std::string_view> value, Expiry expiry) = 0;
  // Whether the value decides. If not, one that is in a block is empty, which saves reading it.
  virtual bool wants_value() const { return true; }
};

// One of many, for Session::MultiModify.
struct KeyModifier {
  std::string_view key;
  ValueModifier* modifier = nullptr;  // not null, and of this entry alone
};

}  // namespace gossamer
