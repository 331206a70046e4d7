// SlowLog: the latest requests that took long, for SLOWLOG.
//
// Thread-safety: all calls from any thread. A request that is quick costs one comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/reply_writer.h"

namespace gossamer::gateway {

class SlowLog {
 public:
  struct Limits {
    int64_t slower_than_us = 10'000;  // negative: nothing is logged
    size_t entries = 128;
  };
  explicit SlowLog(const Limits& limits) : limits_(limits) {}

  bool IsSlow(std::chrono::nanoseconds duration) const {
    return limits_.slower_than_us >= 0 &&
           duration >= std::chrono::microseconds(limits_.slower_than_us) && limits_.entries != 0;
  }
  // `words`: the command and what it was about; long ones are cut, as Redis does it.
  void Add(std::chrono::nanoseconds duration, const std::vector<std::string_view>& words,
           std::string_view client_address, std::string_view client_name);
  // SLOWLOG GET [count] | LEN | RESET
  void Answer(const std::vector<std::string_view>& arguments, ReplyWriter& reply);

 private:
  struct Entry {
    uint64_t number;
    std::chrono::seconds at;  // since 1970
    std::chrono::microseconds duration;
    std::vector<std::string> words;
    std::string client_address;
    std::string client_name;
  };

  void AnswerEntries(size_t count, ReplyWriter& reply) const;

  const Limits limits_;
  mutable std::mutex mutex_;
  uint64_t next_number_ = 0;
  std::deque<Entry> entries_;  // the latest first
};

}  // namespace gossamer::gateway
