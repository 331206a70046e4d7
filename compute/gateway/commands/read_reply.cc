#include "compute/gateway/commands/read_reply.h"

#include "compute/gateway/commands/refusals.h"

namespace gossamer::gateway {

ReadReply::ReadReply(const Command& command, size_t keys, ValueChange* look, std::string& out,
                     bool is_resp3)
    : id_(command.id), look_(look), out_(out), begin_(out.size()), reply_(out, is_resp3) {
  if (id_ == CommandId::kMget) reply_.Array(keys);
}

void ReadReply::Refuse(std::string_view line) {
  out_.resize(begin_);
  reply_.Error(line);
  is_refused_ = true;
}

void ReadReply::Add(const Result<std::string_view>& value, Expiry expiry, uint64_t now_ms) {
  const bool is_absent = IsAbsent(value);
  if (!value && !is_absent) return Refuse(ErrorLine(value.error()));
  ++(is_absent ? absent_ : found_);
  const std::optional<std::string_view> bytes =
      is_absent ? std::nullopt : std::optional(value.value());
  if (look_ != nullptr) {
    look_->Read(KeyLook(bytes, expiry, now_ms));
    look_->Answer(reply_);
    return look_->GiveBackMemory();
  }
  if (id_ == CommandId::kExists) return;
  if (!expiry.is_composite()) return reply_.BulkOrNull(bytes);
  id_ == CommandId::kMget ? reply_.Null() : Refuse(kWrongType);
}

void ReadReply::End() {
  if (id_ == CommandId::kExists && !is_refused_) reply_.Integer(static_cast<int64_t>(found_));
}

}  // namespace gossamer::gateway
