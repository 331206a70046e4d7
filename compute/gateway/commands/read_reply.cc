#include "compute/gateway/commands/read_reply.h"

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/commands/value_change.h"

namespace gossamer::gateway {

ReadReply::ReadReply(const Command& command, size_t keys, std::pair<int64_t, int64_t> range,
                     std::string& out, bool is_resp3)
    : id_(command.id), range_(range), out_(out), begin_(out.size()), reply_(out, is_resp3) {
  if (id_ == CommandId::kMget) reply_.Array(keys);
}

void ReadReply::Refuse(std::string_view line) {
  out_.resize(begin_);
  reply_.Error(line);
  is_refused_ = true;
}

void ReadReply::Add(const Result<std::string_view>& value) {
  // InvalidArgument: a key that the store does not take, so it is not there either.
  const bool is_absent = !value && (value.error().code == Code::kNotFound ||
                                    value.error().code == Code::kInvalidArgument);
  if (!value && !is_absent) return Refuse(ErrorLine(value.error()));
  ++(is_absent ? absent_ : found_);
  switch (id_) {
    case CommandId::kExists: break;
    case CommandId::kStrlen:
      reply_.Integer(is_absent ? 0 : static_cast<int64_t>(value.value().size()));
      break;
    case CommandId::kGetRange:
      reply_.Bulk(is_absent ? std::string_view()
                            : RangeOf(value.value(), range_.first, range_.second));
      break;
    case CommandId::kType: reply_.Simple(is_absent ? "none" : "string"); break;
    default: reply_.BulkOrNull(is_absent ? std::nullopt : std::optional(value.value()));
  }
}

void ReadReply::End() {
  if (id_ == CommandId::kExists && !is_refused_) reply_.Integer(static_cast<int64_t>(found_));
}

}  // namespace gossamer::gateway
