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
constexpr size_t kMostTogether = size_t{16} << 20;
// Of values in one part of long reads.
constexpr size_t kPartBytes = size_t{1} << 20;

}  // namespace

void Worker::StartBatch() {
  if (batch_->empty()) return;
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
  for (;;) {
    co_await batch->Read(*session_, is_short_ ? kMostUnsentWhenShort : kMostTogether, kMostKeys);
    if (!batch->has_left_out()) break;
    batch = SplitBatch(*batch);
    if (!batch->empty()) continue;
    --batches_;
    co_return;
  }
  co_await batch->Write(*session_);
  batch->Answer();
  Record(*batch, Clock::now() - begin, *metrics_, shared_.slow_log);
  --batches_;
  for (Client* client : batch->clients()) {
    // Where answers are long, few of them are enough to keep the client busy.
    client->allowance = client->unsent() > kMostUnsent
                            ? std::max<size_t>(1, client->allowance / 8)
                            : std::min(kMostRequests, 2 * client->allowance);
    Release(*client);
  }
  if (batch->HasGrown()) co_return;
  batch->Clear();
  idle_batches_.push_back(std::move(batch));
}

void Worker::Release(Client& client) {
  client.is_busy = false;
  // The answers of one pipeline leave together, though it may take several batches.
  const bool has_more = client.has_next && !is_stopping_.load(std::memory_order_relaxed);
  if (has_more && !client.is_closing && client.unsent() <= most_unsent_) return Queue(client);
  client.EndRefusedTransaction(metrics_->numbers().bytes_received);
  const bool is_connected = Send(client);
  const bool is_flooded = !client.is_authenticated && client.unsent() > kMostUnsentUnknown;
  if (!is_connected || is_flooded || (client.is_closing && client.unsent() == 0)) {
    Drop(client);
  } else if (!client.is_closing) {
    Queue(client);
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
  if (client.unsent() != 0) return;
  client.is_busy = true;
  ready_.push_back(&client);
}

void Worker::StartPart() {
  if (ready_.empty() || is_in_part_ || shared_.unsent.are_too_many()) return;
  Client& client = *ready_.front();
  ready_.pop_front();
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
  const bool has_ended =
      co_await reads.RunPart(*session_, is_short_ ? kMostUnsentWhenShort : kPartBytes);
  is_in_part_ = false;
  if (!has_ended) co_return GoOn(client);
  if (reads.is_broken()) client.is_closing = true;
  Record(reads.batch(), reads.spent(), *metrics_, shared_.slow_log);
  long_reads_.erase(&client);
  client.has_long_reads = false;
  client.allowance = std::max<size_t>(1, client.allowance / 8);
  Release(client);
}

bool Worker::Send(Client& client) {
  const size_t before = client.unsent();
  const bool is_connected = client.Send(metrics_->numbers().bytes_sent);
  if (client.counted_unsent == 0) client.behind_since = client.moved_at = now_;
  if (client.unsent() != before) client.moved_at = now_;
  shared_.unsent.Count(client, client.unsent());
  client.entry().NoteActivity(now_, client.unparsed_bytes(), client.unsent(), client.is_resp3);
  return is_connected;
}

void Worker::LookAtMemory() {
  is_short_ = shared_.unsent.are_many();
  most_unsent_ = is_short_ ? kMostUnsentWhenShort : kMostUnsent;
  if (!is_short_ || now_ < next_look_) return;
  next_look_ = now_ + kLookInterval;
  const std::chrono::milliseconds patience = shared_.options.unsent_patience;
  std::vector<Client*> slow;
  Client* slowest = nullptr;
  for (const auto& [fd, client] : clients_) {
    if (client->unsent() == 0 || client->is_busy || client->is_queued) continue;
    if (now_ - client->moved_at > patience) {
      slow.push_back(client.get());
    } else if (now_ - client->behind_since > patience &&
               (slowest == nullptr || client->unsent() > slowest->unsent())) {
      slowest = client.get();
    }
  }
  // A client that goes on reading slowly would keep memory short for all others.
  if (slow.empty() && slowest != nullptr && shared_.unsent.are_too_many()) slow.push_back(slowest);
  for (Client* client : slow) {
    LOG(WARNING) << "client " << client->entry().number() << " is disconnected: it has not taken "
                 << HumanBytes(client->unsent()) << " of answers, and memory is short";
    ++metrics_->numbers().slow_readers;
    Drop(*client);
  }
}

}  // namespace gossamer::gateway
