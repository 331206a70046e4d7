#include "compute/gateway/worker/walk.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/worker/key_sampler.h"

namespace gossamer::gateway {
namespace {

// Bounds of ranges are cut: more of them makes no difference, as keys are shorter.
constexpr size_t kMostBoundBytes = 1024;
static_assert(kMaxKeyBytes < kMostBoundBytes);

constexpr std::string_view kString = "string";  // a type

// With leading zeros, as Redis takes cursors.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [behind, failure] = std::from_chars(text.begin(), text.end(), number);
  if (failure != std::errc() || behind != text.end()) return std::nullopt;
  return number;
}

// Answers with an error in place of a list.
void Refuse(std::string_view line, ReplyWriter& reply, LongList& list) {
  list.Clear();
  reply.Error(line);
}

Task<void> AnswerRandomKey(Session& session, WalkTurns& turns, ReplyWriter& reply) {
  // It learns how many keys there are, and so is kept.
  static thread_local KeySampler sampler;
  ScanOptions range;
  range.to = kReserved;
  const Result<std::optional<std::string>> key = co_await sampler.Draw(session, turns, range);
  key ? reply.BulkOrNull(key.value()) : reply.Error(ErrorLine(key.error()));
}

}  // namespace

Result<Walk> Walk::Parse(const Command& command, const std::vector<std::string_view>& arguments,
                         const ScanPositions& positions, std::function<bool()> is_unwanted) {
  Walk walk(command.id, std::move(is_unwanted));
  switch (command.id) {
    case CommandId::kFlushDb: {
      const bool is_known = arguments.size() == 1 ||
                            (arguments.size() == 2 &&
                             (IsWord(arguments[1], "sync") || IsWord(arguments[1], "async")));
      if (!is_known) return Refusal(kSyntaxError);
      break;
    }
    case CommandId::kScanRange:
    case CommandId::kDeleteRange: {
      BOOST_OUTCOME_TRYV(walk.ParseRange(arguments));
      break;
    }
    case CommandId::kScan: {
      BOOST_OUTCOME_TRYV(walk.ParseScan(arguments, positions));
      break;
    }
    case CommandId::kKeys: walk.pattern_ = arguments[1]; break;
    default: break;
  }
  if (walk.pattern_.size() > kMostPatternBytes) return Refusal(kPatternTooLong);
  if (!walk.range_.to || *walk.range_.to > kReserved) walk.range_.to = kReserved;
  return walk;
}

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
Status Walk::ParseScan(const std::vector<std::string_view>& arguments,
                       const ScanPositions& positions) {
  const std::optional<uint64_t> cursor = ParseNumber(arguments[1]);
  if (!cursor) return Refusal(kInvalidCursor);
  range_.limit = 10;
  range_.to_bookmark = true;
  positions.GoOnAt(*cursor, range_);
  for (size_t i = 2; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) return Refusal(kSyntaxError);
    const std::string_view value = arguments[i + 1];
    if (IsWord(arguments[i], "match")) {
      pattern_ = value;
    } else if (IsWord(arguments[i], "count")) {
      const std::optional<int64_t> count = ParseInteger(value);
      if (!count) return Refusal(kNoInteger);
      if (*count < 1) return Refusal(kSyntaxError);
      range_.limit = std::min(static_cast<uint64_t>(*count), kMostPerScan);
    } else if (IsWord(arguments[i], "type")) {
      type_ = value;
      std::ranges::transform(type_, type_.begin(), LowerCase);
    } else {
      return Refusal(kSyntaxError);
    }
  }
  return Ok();
}

// [FROM key] [TO key] [PREFIX bytes], and of a scan [LIMIT n] [REV]
Status Walk::ParseRange(const std::vector<std::string_view>& arguments) {
  const bool is_scan = id_ == CommandId::kScanRange;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (is_scan && IsWord(option, "rev")) {
      range_.reverse = true;
      continue;
    }
    if (++i == arguments.size()) return Refusal(kSyntaxError);
    if (IsWord(option, "from")) {
      range_.from = arguments[i].substr(0, kMostBoundBytes);
    } else if (IsWord(option, "to")) {
      range_.to = arguments[i].substr(0, kMostBoundBytes);
    } else if (IsWord(option, "prefix")) {
      range_.prefix = arguments[i].substr(0, kMostBoundBytes);
    } else if (is_scan && IsWord(option, "limit")) {
      const std::optional<uint64_t> limit = ParseNumber(arguments[i]);
      if (!limit) return Refusal(kNoInteger);
      range_.limit = *limit;
    } else {
      return Refusal(kSyntaxError);
    }
  }
  return Ok();
}

bool Walk::Lists(std::string_view key, std::string_view value, bool is_composite) const {
  if (!MatchesGlob(pattern_, key)) return false;
  if (type_ == kString) return !is_composite;
  return type_.empty() || TypeName(value, is_composite) == type_;
}

Task<void> Walk::DeleteRange(Session& session, WalkTurns& turns, ReplyWriter& reply) const {
  const RangeDeletion done =
      co_await session.AsyncDeleteRange(KeyRange(range_.from, range_.to, range_.prefix),
                                        [&turns](uint64_t) { return !turns.must_end(); });
  if (!done.status) {
    reply.Error(ErrorLine(done.status.error()));
  } else if (turns.must_end()) {
    reply.Error(std::string(turns.end_error()) + "; it has deleted " +
                std::to_string(done.deleted) + " keys");
  } else if (id_ == CommandId::kFlushDb) {
    reply.Ok();
  } else {
    reply.Integer(static_cast<int64_t>(done.deleted));
  }
}

Task<void> Walk::Run(Session& session, ScanPositions& positions, WalkTurns& turns, std::string& out,
                     LongList& list, bool is_resp3) {
  ReplyWriter reply(out, is_resp3);
  switch (id_) {
    case CommandId::kFlushDb:
    case CommandId::kDeleteRange: co_return co_await DeleteRange(session, turns, reply);
    case CommandId::kRandomKey: co_return co_await AnswerRandomKey(session, turns, reply);
    default: co_return co_await List(session, positions, turns, reply, list, is_resp3);
  }
}

// DBSIZE, KEYS and SCAN; and GOSSAMER.SCAN, which lists keys and values in turn
Task<void> Walk::List(Session& session, ScanPositions& positions, WalkTurns& turns,
                      ReplyWriter& reply, LongList& list, bool is_resp3) {
  const bool has_values = id_ == CommandId::kScanRange;
  // The first byte of a composite value tells its type.
  range_.keys_only = !has_values && (type_.empty() || type_ == kString);
  if (!has_values) range_.prefix = LiteralPrefix(pattern_);
  const std::unique_ptr<ScanCursor> cursor = session.Scan(range_);
  uint64_t seen = 0;
  uint64_t found = 0;
  WalkTurns::Slice slice(turns);
  while (co_await cursor->AsyncNext()) {
    const std::string_view key = cursor->key();
    const std::string_view value = cursor->value();  // empty if keys alone are read
    const bool is_composite = cursor->expiry().is_composite();
    if (slice.IsOver(value.size())) {
      co_await slice.Next();
      if (is_unwanted_()) co_return list.Clear();
    }
    if (turns.must_end()) co_return Refuse(turns.end_error(), reply, list);
    ++seen;
    if (id_ == CommandId::kDbSize) continue;
    if (!has_values && !Lists(key, value, is_composite)) continue;
    for (const std::string_view one : {key, value}) {
      if (list.IsTooLong(one.size())) {
        co_return Refuse(has_values ? "ERR the reply would be too long: use LIMIT"
                                    : "ERR the reply would be too long: use SCAN",
                         reply, list);
      }
      while (!list.MakeRoom(one.size())) {
        co_await slice.Rest();
        if (is_unwanted_() || turns.must_end()) co_return Refuse(turns.end_error(), reply, list);
      }
      ++found;
      ReplyWriter(list.piece(), is_resp3).Bulk(one);
      if (!has_values) break;
    }
  }
  if (!cursor->status()) {
    const Error& error = cursor->status().error();
    const bool is_wrong = range_.resume_at != 0 && error.code == Code::kInvalidArgument;
    co_return Refuse(is_wrong ? std::string(kInvalidCursor) : ErrorLine(error), reply, list);
  }
  if (id_ == CommandId::kDbSize) {
    key_count_ = seen;
    reply.Integer(static_cast<int64_t>(seen));
    co_return;
  }
  if (id_ == CommandId::kScan) {
    std::optional<ScanBookmark> next = cursor->bookmark();
    reply.Array(2);
    reply.Bulk(next ? std::to_string(next->number) : "0");
    if (next) positions.Add(next->number, std::move(next->key));
  }
  reply.Array(found);
}

}  // namespace gossamer::gateway
