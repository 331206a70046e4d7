// What a batch does about reads of long values: a client that asks for many gets them in parts, and does not hold up others.
#include <algorithm>
#include <span>
#include <utility>

#include "compute/gateway/batch.h"

namespace gossamer::gateway {
namespace {

constexpr size_t kMostPartKeys = 1024;

}  // namespace

std::vector<Batch::Requests> Batch::RequestsByClient() const {
  std::vector<Requests> all;
  for (auto first = requests_.begin(); first != requests_.end();) {
    const auto end = std::find_if(first, requests_.end(), [first](const Request& request) {
      return request.client != first->client;
    });
    all.emplace_back(first, end);
    first = end;
  }
  return all;
}

size_t Batch::ReadsOf(Requests requests) {
  size_t reads = 0;
  for (const Request& request : requests) {
    if (IsRead(request)) reads += KeysOf(request);
  }
  return reads;
}

bool Batch::AsksForMany() const {
  return std::ranges::any_of(RequestsByClient(),
                             [this](Requests one) { return ReadsOf(one) > most_keys_; });
}

bool Batch::IsLong(Requests requests) const {
  if (is_unread_) return ReadsOf(requests) > most_keys_;
  for (const Request& request : requests) {
    if (!IsRead(request)) continue;
    for (size_t i = request.first; i < request.first + KeysOf(request); ++i) {
      if (values_.is_left_out(i)) return true;
    }
  }
  return false;
}

std::vector<std::unique_ptr<Batch>> Batch::Split() {
  std::vector<std::unique_ptr<Batch>> parts;
  auto others = std::make_unique<Batch>(max_key_bytes_);
  for (const Requests requests : RequestsByClient()) {
    const bool is_long = IsLong(requests);
    if (is_long) parts.push_back(std::make_unique<Batch>(max_key_bytes_));
    Batch& to = is_long ? *parts.back() : *others;
    for (const Request& request : requests) to.Take(*this, request);
  }
  parts.push_back(std::move(others));
  parts.front()->answered_ = std::move(answered_);
  parts.front()->failed_ = std::move(failed_);
  parts.front()->refused_ = std::move(refused_);
  return parts;
}

void Batch::Take(const Batch& from, const Request& request) {
  if (clients_.empty() || clients_.back() != request.client) clients_.push_back(request.client);
  Request& own = requests_.emplace_back(request);
  const auto copy = [&own, &request](const auto& source, auto& target) {
    own.first = target.size();
    const auto first = source.begin() + static_cast<ptrdiff_t>(request.first);
    target.insert(target.end(), first, first + static_cast<ptrdiff_t>(KeysOf(request)));
  };
  if (request.command == nullptr) {
    own.first = text_.size();
    text_.append(from.text_, request.first, request.count);
  } else if (request.count == kIsChange) {
    own.first = change_count_;
    NextChange() = from.changes_[request.first];
  } else if (request.command->kind == CommandKind::kPut) {
    copy(from.puts_, puts_);
  } else if (request.command->kind == CommandKind::kDelete) {
    copy(from.deletes_, deletes_);
  } else {
    copy(from.reads_, reads_);
    if (request.command->id != CommandId::kGetRange) return;
    own.count = ranges_.size();
    ranges_.push_back(from.ranges_[request.count]);
  }
}

Task<bool> Batch::RunPart(Session& session, size_t most_bytes) {
  part_begin_ = next_read_;
  if (next_read_ < reads_.size()) {
    const size_t keys = std::min(part_keys_, reads_.size() - next_read_);
    values_.set_most_bytes(most_bytes);
    co_await session.AsyncMultiGet(std::span(reads_).subspan(next_read_, keys), values_);
  }
  const bool is_read = AnswerPart();
  clients_.front()->out += part_;
  has_begun_reply_ = has_begun_reply_ || !part_.empty();
  part_.clear();
  ChoosePart(most_bytes);
  if (!is_read) co_return is_broken_;
  co_await Write(session);
  for (; next_request_ < requests_.size(); ++next_request_) AnswerOne(requests_[next_request_]);
  co_return true;
}

bool Batch::AnswerPart() {
  const size_t end = part_begin_ + (part_begin_ < reads_.size() ? values_.size() : 0);
  for (; next_request_ < requests_.size(); ++next_request_) {
    const Request& request = requests_[next_request_];
    if (request.command == nullptr) {
      part_.append(text_, request.first, request.count);
      continue;
    }
    if (!IsRead(request)) break;
    if (!reply_) {
      // A reply that begins behind others of this part is refused without them.
      clients_.front()->out += part_;
      part_.clear();
      has_begun_reply_ = false;
      reply_.emplace(ReplyTo(request, part_));
    }
    const size_t behind = request.first + KeysOf(request);
    for (; next_read_ < behind && !reply_->is_refused(); ++next_read_) {
      if (next_read_ >= end || values_.is_left_out(next_read_ - part_begin_)) return false;
      reply_->Add(values_[next_read_ - part_begin_]);
    }
    if (reply_->is_refused()) {
      failed_.push_back(request.command);
      is_broken_ = has_begun_reply_;
      if (is_broken_) {
        part_.clear();  // in the middle of an array the client would take the error for an element
        return false;
      }
    }
    next_read_ = behind;
    End(*reply_);
    reply_.reset();
  }
  return true;
}

// Whether values are long is known once some were read.
void Batch::ChoosePart(size_t most_bytes) {
  if (values_.is_full() || values_.bytes() > most_bytes) {
    part_keys_ = std::max<size_t>(1, part_keys_ / 2);
  } else if (2 * values_.bytes() <= most_bytes) {
    part_keys_ = std::min(2 * part_keys_, kMostPartKeys);
  }
}

}  // namespace gossamer::gateway
