#include "compute/gateway/worker/long_reads.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostPartKeys = 1024;

}  // namespace

Task<bool> LongReads::RunPart(Session& session, ScanPositions& positions, size_t most_bytes,
                              Values& values) {
  const Clock::time_point begin = Clock::now();
  // Between two parts, thousands of these keep none.
  std::swap(batch_->values_, values);
  const std::vector<std::string_view>& reads = batch_->reads_;
  part_begin_ = next_read_;
  if (next_read_ < reads.size()) {
    const size_t keys = std::min(part_keys_, reads.size() - next_read_);
    batch_->values_.set_most_bytes(most_bytes);
    co_await session.AsyncMultiGet(std::span(reads).subspan(next_read_, keys), batch_->values_);
    batch_->now_ms_ = session.StoreTimeMs();
    const Batch::Requests open = std::span(batch_->requests_).subspan(next_request_);
    std::vector<LargeLook> large =
        co_await batch_->FindLarge(session, open, part_begin_, part_begin_ + keys);
    co_await LargeRun::Read(session, std::move(large), positions);
  }
  const bool has_read_all = AnswerReads();
  has_begun_reply_ = has_begun_reply_ || !part_.empty();
  TakePart();
  ChooseNextPart(most_bytes);
  if (has_read_all) {
    co_await batch_->Write(session);
    for (const Batch::Request& request : std::span(batch_->requests_).subspan(next_request_))
      batch_->AnswerOne(request);
  }
  std::swap(batch_->values_, values);
  spent_ += Clock::now() - begin;
  co_return has_read_all || is_broken_;
}

void LongReads::TakePart() {
  if (client().out.empty()) {
    client().out = std::exchange(part_, {});
  } else {
    client().out += std::exchange(part_, {});
  }
}

bool LongReads::AnswerReads() {
  const Values& values = batch_->values_;
  const size_t end = part_begin_ + (part_begin_ < batch_->reads_.size() ? values.size() : 0);
  for (; next_request_ < batch_->requests_.size(); ++next_request_) {
    const Batch::Request& request = batch_->requests_[next_request_];
    if (request.command == nullptr) {
      part_.append(batch_->text_, request.first, request.count);
      continue;
    }
    if (!request.IsRead()) break;
    if (!reply_) {
      // A reply that begins behind others of this part is refused without them.
      TakePart();
      has_begun_reply_ = false;
      reply_.emplace(batch_->ReplyTo(request, part_));
    }
    const size_t behind = request.first + request.keys();
    for (; next_read_ < behind && !reply_->is_refused(); ++next_read_) {
      if (next_read_ >= end || values.is_left_out(next_read_ - part_begin_)) return false;
      const size_t i = next_read_ - part_begin_;
      reply_->Add(values[i], values.expiry(i), batch_->now_ms_);
    }
    if (reply_->is_refused()) {
      batch_->failed_.push_back(request.command);
      is_broken_ = has_begun_reply_;
      if (is_broken_) {
        part_.clear();  // in the middle of an array the client would take the error for an element
        return false;
      }
    }
    next_read_ = behind;
    batch_->End(*reply_);
    reply_.reset();
  }
  return true;
}

// Whether values are long is known once some were read.
void LongReads::ChooseNextPart(size_t most_bytes) {
  const Values& values = batch_->values_;
  if (has_large_lists_) return;
  if (values.is_full() || values.bytes() > most_bytes) {
    part_keys_ = std::max<size_t>(1, part_keys_ / 2);
  } else if (2 * values.bytes() <= most_bytes) {
    part_keys_ = std::min(2 * part_keys_, kMostPartKeys);
  }
}

}  // namespace gossamer::gateway
