#include <hiredis/hiredis.h>

#include <array>
#include <cstdlib>
#include <deque>

#include "compute/research/baselines/baseline.h"

namespace gossamer::bench {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class Redis : public Baseline {
 public:
  Redis(redisContext* context, size_t value_bytes) : context_(context), value_bytes_(value_bytes) {}

  Status Start() {
    BOOST_OUTCOME_TRY(version, Info("server", "redis_version"));
    version_ = version;
    return Ok();
  }

  std::string version() const override { return version_; }
  std::string description() const override { return "pipelined over a unix socket"; }

  Status Put(std::span<const Pair> pairs) override {
    for (const Pair& pair : pairs) {
      BOOST_OUTCOME_TRYV(Append("SET", pair.key, pair.value));
    }
    return SendAndReadOlder(pairs.size());
  }
  Status Get(std::span<const std::string_view> keys) override {
    for (const std::string_view key : keys) {
      BOOST_OUTCOME_TRYV(Append("GET", key));
    }
    return SendAndReadOlder(keys.size());
  }
  Result<uint64_t> Scan(std::string_view, uint64_t) override {
    return MakeError(Code::kUnsupported, "Redis keeps no order of keys to scan");
  }
  Status Finish() override {
    while (!unanswered_.empty()) {
      BOOST_OUTCOME_TRYV(ReadOldest());
    }
    return Ok();
  }
  // Requires (unchecked): `Finish` was called.
  Result<double> CpuSeconds() override {
    double total = OwnCpuSeconds();
    for (const char* field : {"used_cpu_user", "used_cpu_sys"}) {
      BOOST_OUTCOME_TRY(seconds, Info("cpu", field));
      total += std::strtod(seconds.c_str(), nullptr);
    }
    return total;
  }
  uint64_t found() const override { return found_; }

 private:
  // A field of the server's INFO reply.
  Result<std::string> Info(const char* section, const std::string& field) {
    if (redisAppendCommand(context_.get(), "INFO %s", section) != REDIS_OK) return Broken();
    BOOST_OUTCOME_TRY(reply, NextReply());
    const std::string_view info(reply->str, reply->len);
    const size_t at = info.find("\n" + field + ":");
    if (at == std::string_view::npos) {
      return MakeError(Code::kUnsupported, "redis-server does not tell its " + field);
    }
    const std::string_view value = info.substr(at + field.size() + 2);
    return std::string(value.substr(0, value.find_first_of("\r\n")));
  }

  Error Broken() const {
    return MakeError(Code::kNodeUnreachable, std::string("redis-server: ") + context_->errstr);
  }

  template <typename... Words>
  Status Append(const Words&... words) {
    const std::array<std::string_view, sizeof...(words)> views = {words...};
    std::array<const char*, sizeof...(words)> texts;
    std::array<size_t, sizeof...(words)> lengths;
    for (size_t i = 0; i < views.size(); ++i) {
      texts[i] = views[i].data();
      lengths[i] = views[i].size();
    }
    const int appended = redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()),
                                                texts.data(), lengths.data());
    if (appended != REDIS_OK) return Broken();
    return Ok();
  }

  // Sends these commands and reads older replies while the server works on them.
  Status SendAndReadOlder(size_t commands) {
    int all_sent = 0;
    while (all_sent == 0) {
      if (redisBufferWrite(context_.get(), &all_sent) != REDIS_OK) return Broken();
    }
    unanswered_.push_back(commands);
    if (unanswered_.size() > 1) return ReadOldest();
    return Ok();
  }

  Status ReadOldest() {
    for (size_t left = unanswered_.front(); left > 0; --left) {
      BOOST_OUTCOME_TRY(reply, NextReply());
      found_ += reply->type == REDIS_REPLY_STRING && reply->len == value_bytes_;
    }
    unanswered_.pop_front();
    return Ok();
  }

  Result<Reply> NextReply() {
    void* raw = nullptr;
    if (redisGetReply(context_.get(), &raw) != REDIS_OK) return Broken();
    Reply reply(static_cast<redisReply*>(raw));
    if (reply->type == REDIS_REPLY_ERROR) {
      return MakeError(Code::kExhausted, std::string("redis-server: ") + reply->str);
    }
    return reply;
  }

  std::unique_ptr<redisContext, FreeContext> context_;
  const size_t value_bytes_;
  std::string version_;
  std::deque<size_t> unanswered_;  // for each call, its commands with unread replies
  uint64_t found_ = 0;
};

}  // namespace

Result<std::unique_ptr<Baseline>> OpenRedis(const std::string& socket, size_t value_bytes) {
  redisContext* context = redisConnectUnix(socket.c_str());
  if (context == nullptr || context->err != 0) {
    std::string why = context == nullptr ? "no memory" : context->errstr;
    if (context != nullptr) redisFree(context);
    return MakeError(Code::kNodeUnreachable, "no redis-server answers at " + socket + ": " + why);
  }
  auto redis = std::make_unique<Redis>(context, value_bytes);
  BOOST_OUTCOME_TRYV(redis->Start());
  return std::unique_ptr<Baseline>(std::move(redis));
}

}  // namespace gossamer::bench
