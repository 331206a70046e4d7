#include "compute/gateway/commands/slow_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

// As in Redis.
constexpr size_t kMostWords = 32;
constexpr size_t kMostBytes = 128;
constexpr int64_t kEntriesUnlessTold = 10;

std::vector<std::string> Cut(const std::vector<std::string_view>& words) {
  std::vector<std::string> cut;
  const size_t whole = words.size() > kMostWords ? kMostWords - 1 : words.size();
  for (size_t i = 0; i < whole; ++i) {
    cut.emplace_back(words[i].substr(0, kMostBytes));
    if (words[i].size() > kMostBytes) {
      cut.back() += fmt::format("... ({} more bytes)", words[i].size() - kMostBytes);
    }
  }
  if (whole != words.size()) {
    cut.push_back(fmt::format("... ({} more arguments)", words.size() - whole));
  }
  return cut;
}

}  // namespace

void SlowLog::set_limits(const Limits& limits) {
  const std::lock_guard lock(mutex_);
  slower_than_us_.store(limits.slower_than_us, std::memory_order_relaxed);
  most_entries_.store(limits.entries, std::memory_order_relaxed);
  if (entries_.size() > limits.entries) entries_.resize(limits.entries);
}

void SlowLog::Add(std::chrono::nanoseconds duration, const std::vector<std::string_view>& words,
                  std::string_view client_address, std::string_view client_name) {
  Entry entry{.number = 0,
              .at = std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch()),
              .duration = std::chrono::duration_cast<std::chrono::microseconds>(duration),
              .words = Cut(words),
              .client_address = std::string(client_address),
              .client_name = std::string(client_name)};
  const std::lock_guard lock(mutex_);
  entry.number = next_number_++;
  entries_.push_front(std::move(entry));
  while (entries_.size() > limits().entries) entries_.pop_back();
}

void SlowLog::AnswerEntries(size_t count, ReplyWriter& reply) const {
  count = std::min(count, entries_.size());
  reply.Array(count);
  for (size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[i];
    reply.Array(6);
    reply.Integer(static_cast<int64_t>(entry.number));
    reply.Integer(entry.at.count());
    reply.Integer(entry.duration.count());
    reply.Array(entry.words.size());
    for (const std::string& word : entry.words) reply.Bulk(word);
    reply.Bulk(entry.client_address);
    reply.Bulk(entry.client_name);
  }
}

void SlowLog::Answer(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  const std::string_view which = arguments[1];
  const std::lock_guard lock(mutex_);
  if (IsWord(which, "len")) {
    reply.Integer(static_cast<int64_t>(entries_.size()));
  } else if (IsWord(which, "reset")) {
    entries_.clear();
    reply.Ok();
  } else if (arguments.size() <= 3) {
    const std::optional<int64_t> count =
        arguments.size() == 3 ? ParseInteger(arguments[2]) : kEntriesUnlessTold;
    if (!count || *count < -1) {
      reply.Error("ERR count should be greater than or equal to -1");
    } else {
      AnswerEntries(*count == -1 ? entries_.size() : static_cast<size_t>(*count), reply);
    }
  } else {
    reply.Error(kSyntaxError);
  }
}

}  // namespace gossamer::gateway
