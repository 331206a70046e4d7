// How a batch is split where reads of long values were left out: see LongReads.
#include <algorithm>
#include <span>
#include <utility>

#include "compute/gateway/batch.h"

namespace gossamer::gateway {

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

std::vector<Client*> Batch::AnswerAtOnce() {
  std::vector<Client*> answered;
  if (at_once_ == 0 || at_once_ == clients_.size()) return answered;
  std::vector<Request> rest;
  clients_.clear();
  for (const Requests requests : RequestsByClient()) {
    const bool asks = std::ranges::any_of(
        requests, [](const Request& request) { return request.command != nullptr; });
    Client* const client = requests.front().client;
    (asks ? clients_ : answered).push_back(client);
    if (asks) {
      rest.insert(rest.end(), requests.begin(), requests.end());
    } else {
      for (const Request& request : requests) AnswerOne(request);
    }
  }
  requests_ = std::move(rest);
  at_once_ = 0;
  return answered;
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

}  // namespace gossamer::gateway
