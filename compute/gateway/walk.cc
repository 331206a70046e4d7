#include "compute/gateway/walk.h"

#include <charconv>
#include <memory>

#include "compute/gateway/batch.h"
#include "compute/gateway/glob.h"
#include "compute/gateway/reply_writer.h"

namespace gossamer::gateway {
namespace {

// Bounds what one reply of SCAN costs.
constexpr uint64_t kMostPerScan = 100'000;
// KEYS of more bytes than this is refused: SCAN is for that.
constexpr size_t kMostKeyBytes = size_t{64} << 20;
// No key is longer than 250 B. A long pattern with many special characters takes long to match.
constexpr size_t kMostPatternBytes = 1024;

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [behind, failure] = std::from_chars(text.begin(), text.end(), number);
  if (failure != std::errc() || behind != text.end()) return std::nullopt;
  return number;
}

Error Wrong(std::string line) { return MakeError(Code::kInvalidArgument, std::move(line)); }

}  // namespace

Result<Walk> Walk::Parse(const Command& command, const std::vector<std::string_view>& arguments,
                         const ScanPositions& positions) {
  Walk walk(command.id);
  if (command.id == CommandId::kKeys) walk.pattern_ = arguments[1];
  if (command.id == CommandId::kFlushDb) {
    const bool is_known =
        arguments.size() == 1 ||
        (arguments.size() == 2 && (IsWord(arguments[1], "sync") || IsWord(arguments[1], "async")));
    if (!is_known) return Wrong("ERR syntax error");
  }
  if (command.id == CommandId::kScan) {
    BOOST_OUTCOME_TRYV(walk.ParseScan(arguments, positions));
  }
  if (walk.pattern_.size() > kMostPatternBytes) {
    return Wrong("ERR a pattern has at most 1024 bytes here");
  }
  return walk;
}

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
Status Walk::ParseScan(const std::vector<std::string_view>& arguments,
                       const ScanPositions& positions) {
  const std::optional<uint64_t> cursor = ParseNumber(arguments[1]);
  if (!cursor) return Wrong("ERR invalid cursor");
  if (*cursor != 0) {
    std::optional<std::string> position = positions.Find(*cursor);
    if (!position) {
      return Wrong(
          "ERR this gateway has not given out that cursor, or long ago: begin again with SCAN 0");
    }
    from_ = std::move(*position);
  }
  for (size_t i = 2; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) return Wrong("ERR syntax error");
    const std::string_view value = arguments[i + 1];
    if (IsWord(arguments[i], "match")) {
      pattern_ = value;
    } else if (IsWord(arguments[i], "count")) {
      const std::optional<uint64_t> count = ParseNumber(value);
      if (!count) return Wrong("ERR value is not an integer or out of range");
      if (*count == 0) return Wrong("ERR syntax error");
      count_ = std::min(*count, kMostPerScan);
    } else if (IsWord(arguments[i], "type")) {
      is_of_no_type_ = !IsWord(value, "string");
    } else {
      return Wrong("ERR syntax error");
    }
  }
  return Ok();
}

Task<void> Walk::Run(Session& session, ScanPositions& positions, std::string& out, bool is_resp3) {
  ReplyWriter reply(out, is_resp3);
  if (id_ == CommandId::kFlushDb) {
    const RangeDeletion done = co_await session.AsyncDeleteRange(KeyRange(), {});
    if (done.status) {
      reply.Simple("OK");
    } else {
      reply.Error(ErrorLine(done.status.error()));
    }
    co_return;
  }
  ScanOptions options;
  options.keys_only = true;
  options.from = from_;
  options.prefix = LiteralPrefix(pattern_);
  // One more tells whether the scan has ended, and where it goes on.
  if (id_ == CommandId::kScan) options.limit = count_ + 1;
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  uint64_t seen = 0;
  uint64_t found = 0;
  std::string keys;
  std::string next;
  ReplyWriter list(keys, is_resp3);
  while (co_await cursor->AsyncNext()) {
    ++seen;
    if (id_ == CommandId::kDbSize) continue;
    if (id_ == CommandId::kScan && seen > count_) {
      next = cursor->key();
      break;
    }
    if (is_of_no_type_ || !MatchesGlob(pattern_, cursor->key())) continue;
    ++found;
    list.Bulk(cursor->key());
    if (keys.size() > kMostKeyBytes) {
      reply.Error("ERR the reply would be too long: use SCAN");
      co_return;
    }
  }
  if (!cursor->status()) {
    reply.Error(ErrorLine(cursor->status().error()));
    co_return;
  }
  if (id_ == CommandId::kDbSize) {
    reply.Integer(static_cast<int64_t>(seen));
    co_return;
  }
  if (id_ == CommandId::kScan) {
    reply.Array(2);
    reply.Bulk(seen > count_ ? std::to_string(positions.Add(std::move(next))) : "0");
  }
  reply.Array(found);
  out += keys;
}

}  // namespace gossamer::gateway
