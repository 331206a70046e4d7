// SlowLog: the latest requests that took long, for SLOWLOG.
//
// Thread-safety: all calls from any thread. A request that is quick costs two comparisons.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

class SlowLog {
 public:
  struct Limits {
    int64_t slower_than_us = 10'000;  // negative: nothing is logged
    size_t entries = 128;
  };
  explicit SlowLog(const Limits& limits)
      : slower_than_us_(limits.slower_than_us), most_entries_(limits.entries) {}

  Limits limits() const {
    return {slower_than_us_.load(std::memory_order_relaxed),
            most_entries_.load(std::memory_order_relaxed)};
  }
  // What is logged already and is too much goes.
  void set_limits(const Limits& limits);

  bool IsSlow(std::chrono::nanoseconds duration) const {
    const Limits now = limits();
    const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
    return now.slower_than_us >= 0 && us >= now.slower_than_us && now.entries != 0;
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

  std::atomic<int64_t> slower_than_us_;
  std::atomic<size_t> most_entries_;
  mutable std::mutex mutex_;
  uint64_t next_number_ = 0;
  std::deque<Entry> entries_;  // the latest first
};

}  // namespace gossamer::gateway
