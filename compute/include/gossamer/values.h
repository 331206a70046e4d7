// Values: the results of a MultiGet, in storage that its owner uses again and again.
//
//   gossamer::Values values;               // one for many calls
//   session.MultiGet(keys, values);
//   gossamer::Result<std::string_view> first = values[0];
//
// Thread-safety: none. Cost: once it has grown, a MultiGet allocates nothing for a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/expiry.h"
#include "gossamer/status.h"

namespace gossamer {

class Values {
 public:
  size_t size() const { return slots_.size(); }
  // Of all values together.
  size_t bytes() const { return bytes_.size(); }
  // Bounds the memory that later calls take: once the values have so many bytes together, no value
  // of a value block is got any more. Values already on their way still arrive: about 4 MiB of
  // them, or 64 values in a session's first call.
  void set_most_bytes(uint64_t bytes) { most_bytes_ = bytes; }
  // Whether the last call has left keys out for that.
  bool is_full() const { return is_full_; }
  // Whether it has left out key `i`. Its result is InvalidArgument then.
  bool is_left_out(size_t i) const { return slots_[i].is_left_out; }
  // Whether key `i` is not in the store: NotFound.
  bool is_absent(size_t i) const {
    return !slots_[i].is_value && slots_[i].code == Code::kNotFound;
  }
  // The value of key `i`, valid until the next call with this object.
  // Errors: those of Session::Get.
  Result<std::string_view> operator[](size_t i) const {
    const Slot& slot = slots_[i];
    if (slot.is_value) return std::string_view(bytes_).substr(slot.at, slot.size);
    if (slot.size == 0) return MakeError(slot.code);
    return MakeError(slot.code, bytes_.substr(slot.at, slot.size));
  }

  // When key `i`, whose value is there, expires.
  Expiry expiry(size_t i) const { return slots_[i].expiry; }

  // For the store: starts anew, with `count` keys that are not found.
  void Reset(size_t count) {
    bytes_.clear();
    slots_.assign(count, Slot{});
    is_full_ = false;
  }
  bool has_room() const { return bytes_.size() < most_bytes_; }
  void LeaveOut(size_t i) {
    slots_[i] = {.is_left_out = true, .code = Code::kInvalidArgument};
    is_full_ = true;
  }
  void Set(size_t i, std::string_view value, Expiry expiry = {}) {
    slots_[i] = Append(value, true, {});
    slots_[i].expiry = expiry;
  }
  void Set(size_t i, const Result<std::string>& result, Expiry expiry = {}) {
    slots_[i] = result ? Append(result.value(), true, {})
                       : Append(result.error().message, false, result.error().code);
    slots_[i].expiry = expiry;
  }

 private:
  struct Slot {
    uint64_t at = 0;    // of the value, or of the error's message
    uint32_t size = 0;  // in bytes
    bool is_value = false;
    bool is_left_out = false;
    Code code = Code::kNotFound;
    Expiry expiry = {};
  };

  Slot Append(std::string_view bytes, bool is_value, Code code) {
    const uint64_t at = bytes_.size();
    bytes_ += bytes;
    return {.at = at,
            .size = static_cast<uint32_t>(bytes.size()),
            .is_value = is_value,
            .code = code,
            .expiry = {}};
  }

  std::string bytes_;
  std::vector<Slot> slots_;
  uint64_t most_bytes_ = std::numeric_limits<uint64_t>::max();
  bool is_full_ = false;
};

}  // namespace gossamer
