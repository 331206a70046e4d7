// KeyState: a key, as the changes of a request so far have left it, and what one has done to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compute/gateway/commands/composite.h"
#include "gossamer/expiry.h"

namespace gossamer::gateway {

struct KeyState {
  std::optional<std::string> value;
  Expiry expiry;              // of At, or never; of a plain value
  uint64_t now_ms = 0;        // the store's time
  bool is_composite = false;  // `value` is a hash or a set
  // A change was refused, because the composite would be too long for one value.
  std::optional<CompositeType> wants_large = {};

  void SetPlain(std::string_view bytes) {
    value = bytes;
    is_composite = false;
  }
  void Remove() {
    value.reset();
    expiry = Expiry::Never();
    is_composite = false;
  }
};

// What of it a request that only reads looks at.
struct KeyLook {
  std::optional<std::string_view> value;
  Expiry expiry;
  uint64_t now_ms = 0;
  bool is_composite = false;

  KeyLook() = default;
  KeyLook(std::optional<std::string_view> bytes, Expiry stored, uint64_t now)
      : value(bytes), expiry(stored.OfPlain()), now_ms(now), is_composite(stored.is_composite()) {}
  explicit KeyLook(const KeyState& state)
      : value(state.value),
        expiry(state.expiry),
        now_ms(state.now_ms),
        is_composite(state.is_composite) {}
};

enum class KeyEffect : uint8_t { kNone, kTouched, kWritten };

inline constexpr std::string_view kWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

}  // namespace gossamer::gateway
