// Batches of a worker, and long reads, which go on by themselves in parts.
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/text/human.h"
#include "compute/gateway/records.h"
#include "compute/gateway/worker.h"

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookInterval{500};
// Reads of a client in one batch, with those of others, and bytes of values that such a batch brings: some thousands of a pipeline's
// values of 1 kB are not long.
constexpr size_t kMostKeys = 4096;
constexpr size_t kMostTogether = size_t{4} << 20;
// Of a worker, in flight.
constexpr size_t kMostReadingBatches = 8;
constexpr size_t kMostIdleBatches = 8;
// Of values in one part of long reads.
constexpr size_t kPartBytes = size_t{1} << 20;

}  // namespace

void Worker::StartBatch(bool is_last) {
  for (Client* const client : batch_->AnswerAtOnce()) {
    client->allowance = std::min(kMostRequests, 2 * client->allowance);
    Release(*client);
  }
  // Meanwhile it takes more requests. While memory is full, long reads wait. They would for ever if
  // later reads kept it so: the next part comes first then.
  const bool is_full = !is_last && shared_.memory.is_full(ClientMemory::Use::kAnswers);
  part_is_next_ = !is_last && (part_is_next_ || (is_full && !ready_.empty()));
  const bool are_too_many = reading_batches_ == kMostReadingBatches;
  const bool must_wait = batch_->reads() && (are_too_many || is_full || part_is_next_);
  if (batch_->empty() || must_wait) return;
  std::unique_ptr<Batch> batch = std::move(batch_);
  if (idle_batches_.empty()) {
    batch_ = std::make_unique<Batch>(store_->parameters().max_key_bytes);
  } else {
    batch_ = std::move(idle_batches_.back());
    idle_batches_.pop_back();
  }
  ++batches_;
  session_->Spawn(RunBatch(std::move(batch)));
}

Task<void> Worker::RunBatch(std::unique_ptr<Batch> batch) {
  const Clock::time_point begin = Clock::now();
  ClientMemory::Holding held(shared_.memory, ClientMemory::Use::kRequests);
  ClientMemory::Holding values_held(shared_.memory, ClientMemory::Use::kAnswers);
  for (;;) {
    held.Set(batch->held_bytes());
    ++reading_batches_;
    co_await batch->Read(*session_, is_short_ ? kMostUnsentWhenShort : kMostTogether, kMostKeys);
    --reading_batches_;
    if (!batch->has_left_out()) break;
    batch = SplitBatch(*batch);
    if (!batch->empty()) continue;
    --batches_;
    co_return;
  }
  values_held.Set(batch->value_bytes());
  const size_t write_bytes = batch->write_bytes();
  writing_ += write_bytes;
  co_await batch->Write(*session_);
  writing_ -= write_bytes;
  batch->Answer();
  values_held.Set(0);
  Record(*batch, Clock::now() - begin, *metrics_, shared_.slow_log);
  --batches_;
  for (Client* client : batch->clients()) {
    client->has_short_answers = client->unsent() <= ClientQueues::kLittle;
    // Where answers are long, few of them are enough to keep the client busy.
    client->allowance = client->unsent() > kMostUnsent
                            ? std::max<size_t>(1, client->allowance / 8)
                            : std::min(kMostRequests, 2 * client->allowance);
    Release(*client);
  }
  if (batch->HasGrown() || idle_batches_.size() == kMostIdleBatches) co_return;
  batch->Clear();
  idle_batches_.push_back(std::move(batch));
}

void Worker::Release(Client& client) {
  client.is_busy = false;
  client.CountMemory();
  // The answers of one pipeline leave together, though it may take several batches.
  const bool has_more = client.has_next && !is_stopping_.load(std::memory_order_relaxed);
  if (has_more && !client.is_closing && client.unsent() <= most_unsent_) return queues_.Add(client);
  client.EndRefusedTransaction(metrics_->numbers().bytes_received);
  // Many batches may end in one turn: long answers leave in the next ones.
  if (client.unsent() > ClientQueues::kLittle && !TurnHasRoom()) return queues_.Add(client);
  const bool is_connected = Send(client);
  const bool is_flooded = !client.is_authenticated && client.unsent() > kMostUnsentUnknown;
  if (!is_connected || is_flooded || (client.is_closing && client.unsent() == 0)) {
    Drop(client);
  } else if (!client.is_closing) {
    queues_.Add(client);
  }
}

// ---- Long reads

std::unique_ptr<Batch> Worker::SplitBatch(Batch& batch) {
  std::vector<std::unique_ptr<Batch>> parts = batch.Split();
  std::unique_ptr<Batch> others = std::move(parts.back());
  parts.pop_back();
  for (std::unique_ptr<Batch>& part : parts) {
    Client& client = *part->clients().front();
    client.has_long_reads = true;
    long_reads_.emplace(&client, std::move(part));
    GoOn(client);
  }
  return others;
}

void Worker::GoOn(Client& client) {
  client.is_busy = false;
  if (!Send(client)) return Drop(client);
  if (client.unsent() != 0) return;  // room for answers brings it back
  // Those that wait for the next part would hold the memory that they wait for.
  client.GiveBackAnswers();
  client.is_busy = true;
  ready_.Add(client);
}

void Worker::StartPart(bool is_due) {
  // What has been read is sent first, or it would pile up. But long reads go on all the same.
  const bool may_start = part_is_next_ || is_due || !queues_.has_answers();
  if (ready_.empty() || is_in_part_ || !may_start) return;
  if (shared_.memory.is_full(ClientMemory::Use::kAnswers)) return;
  part_is_next_ = false;
  Client& client = ready_.Take();
  if (client.is_lost()) {
    client.is_busy = false;
    client.is_closing = true;
    return Release(client);
  }
  is_in_part_ = true;
  session_->Spawn(RunPart(client));
}

Task<void> Worker::RunPart(Client& client) {
  LongReads& reads = long_reads_.at(&client);
  const bool has_ended = co_await reads.RunPart(
      *session_, is_short_ ? kMostUnsentWhenShort : kPartBytes, part_values_);
  is_in_part_ = false;
  client.has_short_answers = has_ended && client.unsent() <= ClientQueues::kLittle;
  if (!has_ended) co_return GoOn(client);
  if (reads.is_broken()) client.is_closing = true;
  Record(reads.batch(), reads.spent(), *metrics_, shared_.slow_log);
  long_reads_.erase(&client);
  client.has_long_reads = false;
  client.allowance = std::max<size_t>(1, client.allowance / 8);
  Release(client);
}

bool Worker::Send(Client& client) {
  const uint64_t before = metrics_->numbers().bytes_sent;
  const bool is_connected = client.Send(metrics_->numbers().bytes_sent);
  client.NoteProgress(now_, metrics_->numbers().bytes_sent != before);
  client.entry().NoteActivity(now_, client.unparsed_bytes(), client.unsent(), client.is_resp3);
  // Nothing else would bring it back.
  if (is_connected && client.unsent() != 0 && client.may_send) queues_.Add(client);
  return is_connected;
}

// ---- Memory

void Worker::LookAtMemory() {
  using Use = ClientMemory::Use;
  is_short_ = shared_.memory.is_short(Use::kAnswers);
  most_unsent_ = is_short_ ? kMostUnsentWhenShort : kMostUnsent;
  const bool are_requests_short = shared_.memory.is_short(Use::kRequests);
  if ((!is_short_ && !are_requests_short) || now_ < next_look_) return;
  next_look_ = now_ + kLookInterval;
  const bool is_full = shared_.memory.is_full(Use::kAnswers) ||
                       shared_.memory.is_full(Use::kRequests) || queues_.are_hungry() ||
                       turns_.resting() != 0;
  const std::chrono::milliseconds patience = shared_.options.patience;
  std::vector<Client*> slow;
  std::vector<Client*> small;
  Client* slowest = nullptr;
  for (const auto& [fd, one] : clients_) {
    Client& client = *one;
    if (client.is_busy || client.is_queued || client.is_hungry) continue;
    if (!client.is_behind()) client.GiveBack();
    if (!client.is_behind()) continue;
    if (client.held_bytes() < kMostUnsentWhenShort) {
      if (now_ - client.moved_at > patience) small.push_back(&client);
    } else if (now_ - client.moved_at > (is_full ? patience / 10 : patience)) {
      slow.push_back(&client);
    } else if (now_ - client.behind_since > patience &&
               (slowest == nullptr || client.held_bytes() > slowest->held_bytes())) {
      slowest = &client;
    }
  }
  // A client that goes on slowly would keep memory short for all others.
  if (slow.empty() && slowest != nullptr && is_full) slow.push_back(slowest);
  // Thousands of them may hold it all.
  if (slow.empty() && is_full) slow = std::move(small);
  for (Client* client : slow) {
    const bool is_reader = client->unsent() != 0;
    LOG(WARNING) << "client " << client->entry().number() << " is disconnected: it has not "
                 << (is_reader ? "taken " : "sent the rest of a request of which ")
                 << HumanBytes(is_reader ? client->unsent() : client->unparsed_bytes())
                 << (is_reader ? " of answers" : " are here")
                 << ", and the memory for clients (--client_memory) is short";
    ++(is_reader ? metrics_->numbers().slow_readers : metrics_->numbers().slow_senders);
    Drop(*client);
  }
}

}  // namespace gossamer::gateway
