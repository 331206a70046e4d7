#include "compute/gateway/worker/worker.h"

#include <glog/logging.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/text/human.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/worker/walk.h"

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostInFlight = 64;
// What a client is watched for. Room for answers only while it has some that its socket did not
// take: otherwise each answer that it reads would be an event, and wake the worker.
constexpr uint32_t kInput = EPOLLIN | EPOLLRDHUP | EPOLLET;
constexpr uint32_t kInputOrRoom = kInput | EPOLLOUT;
// Of TLS.
constexpr std::chrono::seconds kHandshakePatience{10};
constexpr int kMostHandshakes = 16;
// Looks at the sockets at a time: of thousands of clients, the last one's request does not wait for
// what the first ones want.
constexpr int kMostLooks = 64;
// Bytes that batches in flight write.
constexpr size_t kMostWriting = size_t{16} << 20;
// Of walks that read values: each has buffers for 2 MiB of them.
constexpr size_t kMostRangeWalks = 16;
// How long a worker without other work sleeps at most while clients wait for memory.
constexpr int kHungryMs = ClientQueues::kHunger.count();
// Bytes of answers to commands like COMMAND DOCS in a batch, before other clients wait for the next
// one.
constexpr size_t kMostKnown = size_t{16} << 20;
// How long a worker without work sleeps at most: tasks of the store go on in between.
constexpr int kIdleMs = 100;
// Reads of a client in one batch, with those of others, and bytes of values that such a batch
// brings: some thousands of a pipeline's values of 1 kB are not long.
constexpr size_t kMostKeys = 4096;
constexpr size_t kMostTogether = size_t{4} << 20;
// Of a worker, in flight.
constexpr size_t kMostReadingBatches = 8;
// Of values in one part of long reads.
constexpr size_t kPartBytes = size_t{1} << 20;
// Of each word of a walk, for the slow log.
constexpr size_t kMostWord = 256;
// Between two looks at the memory for clients, while it is short.
constexpr std::chrono::milliseconds kLookInterval{500};

// When a worker stops, for walks, for clients that do not read, and for clients that go on sending:
// for each as long.
constexpr std::chrono::milliseconds kStopPatience{1500};
// A client that has got all, and has sent nothing for so long, is left.
constexpr std::chrono::milliseconds kQuiet{50};
constexpr std::chrono::milliseconds kStopPause{5};
constexpr std::string_view kStopping = "ERR this compute server is stopping";
constexpr std::string_view kSwitching =
    "UNREACHABLE the store is gone, and this compute server serves the one that has its name now";

uint64_t BytesMoved(const ClientNumbers& numbers) {
  return numbers.bytes_received + numbers.bytes_sent;
}

bool NeedsNoLogin(const Command* command) {
  if (command == nullptr) return false;
  switch (command->id) {
    case CommandId::kAuth:
    case CommandId::kHello:
    case CommandId::kPeer:
    case CommandId::kQuit:
    case CommandId::kReset: return true;
    default: return false;
  }
}

// Few of many such lines.
void LogFailedHandshake(Client& client, std::string_view why) {
  std::string_view host = client.entry().address();
  // The port is of no use by the time that somebody reads the log.
  host = host.substr(0, host.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  LOG_EVERY_T(WARNING, 10)
      << "the TLS handshake of " << host << " has failed: " << why
      << " (gossamer_client_tls_failures_total counts them; one in 10 s is logged)";
}

// Ends the connection of a client whose requests may be in flight: nothing more is sent to it.
void CutOffSlowSubscriber(Client& client) {
  LOG(WARNING) << "client " << client.entry().number() << " is disconnected: it has not taken "
               << HumanBytes(client.unsent()) << " of answers and messages of its channels";
  client.is_gone = true;
  shutdown(client.fd(), SHUT_RDWR);
}

// Takes what has arrived, and forgets it. Returns whether the connection still is.
bool Discard(int fd, bool& has_got) {
  std::array<char, 16 * 1024> bytes;
  for (int times = 0; times < 64; ++times) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    has_got = true;
  }
  return true;
}

// Whether the other side has not got all that was sent to it.
bool IsOnItsWay(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

// From now on room in its socket is an event. Returns false if that is not possible.
bool AwaitRoom(Client& client, EpollSet& epoll) {
  client.awaits_room = client.awaits_room || epoll.Change(client.fd(), kInputOrRoom);
  return client.awaits_room;
}

std::unique_ptr<Batch> NewBatch(const Store& store, Shared& shared, ChangeMemory& memory,
                                LargeIds& large_ids) {
  return std::make_unique<Batch>(
      BatchContext{store.parameters().max_key_bytes, shared.scripts, memory, large_ids});
}

}  // namespace

Worker::Worker(size_t number, Shared& shared, Store& store, std::vector<Listener> listeners,
               WorkerMetrics& metrics)
    : shared_(shared),
      store_(&store),
      inbox_(shared.inboxes[number]),
      all_metrics_(metrics),
      acceptor_(std::move(listeners), shared.inboxes),
      batch_(NewBatch(store, shared, change_memory_, large_ids_)),
      subscribers_(shared.channels, shared.memory, number) {}

Worker::~Worker() = default;

Status Worker::Open() {
  BOOST_OUTCOME_TRY(session, store_->NewSession());
  session_ = std::move(session);
  metrics_ = all_metrics_.AddWorker();
  if (!epoll_.Open() || !inbox_.Open()) {
    return MakeError(Code::kUnsupported, "this process may open no more files: raise `ulimit -n`");
  }
  if (epoll_.Watch(inbox_.fd(), EPOLLIN) && acceptor_.Open(epoll_)) {
    ++shared_.acceptors;
    return Ok();
  }
  return MakeError(Code::kUnsupported,
                   "this user may watch no more files: raise /proc/sys/fs/epoll/max_user_watches");
}

void Worker::Stop() {
  is_stopping_.store(true, std::memory_order_release);
  inbox_.Wake();
}

void Worker::Run() {
  while (!is_stopping_.load(std::memory_order_acquire)) {
    if (has_next_store_.load(std::memory_order_acquire)) SwitchStore();
    const bool has_reads = !ready_.empty() || !batch_->empty();
    const bool waits_for_memory = !has_reads || shared_.memory.is_full(ClientMemory::Use::kAnswers);
    const bool is_idle = in_flight() == turns_.resting() && queues_.empty() && waits_for_memory &&
                         !subscribers_.has_deliveries() && session_->Poll() == 0;
    const bool is_waiting = queues_.are_hungry() || has_reads || turns_.resting() != 0;
    HandleEvents(!is_idle ? 0 : is_waiting ? kHungryMs : kIdleMs);
    acceptor_.Resume(epoll_);
    now_ = Clock::now();
    turn_end_ = BytesMoved(metrics_->numbers()) + kTurnBytes;
    DropLateHandshakes();
    const bool is_due = queues_.BeginTurn(now_);
    if (is_due) turns_.WakeResting();
    while (Client* const client = queues_.Next(TurnHasRoom())) {
      if (!client->is_busy) Collect(*client);
    }
    StartBatch(false);
    LookAtMemory();
    StartPart(is_due);
    PollInFlight();
    if (subscribers_.has_deliveries()) {
      subscribers_.Deliver(
          kTurnBytes, [this](Client& client) { Release(client); },
          [this](Client& client) {
            CutOffSlowSubscriber(client);
            ++metrics_->numbers().slow_readers;
            subscribers_.End(client);
            Drop(client);
          });
    }
    metrics_->PublishIfDue(now_, *session_);
  }
  acceptor_.Close(epoll_);
  --shared_.acceptors;
  End();
  session_->WaitAll();
  metrics_->Publish(Clock::now(), session_->counters());
  metrics_.reset();
  session_.reset();
}

bool Worker::TurnHasRoom() const { return BytesMoved(metrics_->numbers()) < turn_end_; }

void Worker::PollInFlight() {
  const Clock::time_point end = Clock::now() + kRoundsTime;
  for (int round = 0; round < kMostRounds && in_flight() != 0; ++round) {
    session_->Poll();
    if (Clock::now() >= end) break;
  }
  if (turns_.must_end()) turns_.WakeResting();
  turns_.GiveTurn();
  std::vector<Client*> done;
  done.swap(done_);
  for (Client* client : done) Release(*client);
}

void Worker::HandleEvents(int timeout_ms) {
  const auto handle = [this](const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == inbox_.fd()) return Welcome();
    if (acceptor_.Accept(fd, epoll_, shared_.options.max_clients, metrics_->numbers().rejected)) {
      return;
    }
    const auto found = clients_.find(fd);
    if (found == clients_.end()) return;
    Client& client = *found->second;
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) client.is_gone = true;
    if (client.is_gone || (event.events & EPOLLRDHUP) != 0) client.has_hung_up = true;
    if ((event.events & EPOLLIN) != 0 || client.has_hung_up) client.may_read = true;
    client.may_send = true;
    if ((event.events & EPOLLOUT) != 0 && client.unsent() == 0 && !client.is_shaking_hands()) {
      client.awaits_room = !epoll_.Change(fd, kInput);
    }
    if (!client.is_busy) queues_.Add(client);
  };
  std::array<epoll_event, 128> events;
  for (int times = 0; times < kMostLooks; ++times) {
    const std::span<const epoll_event> found = epoll_.Wait(events, times == 0 ? timeout_ms : 0);
    std::ranges::for_each(found, handle);
    if (found.size() < events.size()) return;
  }
}

void Worker::Welcome() {
  for (Inbox::Arrival& one : inbox_.TakeAll()) {
    const int fd = one.socket.get();
    auto client =
        std::make_unique<Client>(std::move(one.socket), shared_.client_list, shared_.memory,
                                 shared_.next_number++, shared_.options.users.empty());
    client->LimitRequests(shared_.options.max_query_bytes);
    const bool can_encrypt = !one.is_tls || client->Encrypt(shared_.options.tls->NewSession(fd));
    if (one.is_tls) {
      handshakes_.push_back({Clock::now() + kHandshakePatience, client->number(), fd});
    }
    // A handshake may have to send.
    client->awaits_room = one.is_tls;
    if (!can_encrypt || !epoll_.Watch(fd, one.is_tls ? kInputOrRoom : kInput)) {
      --inbox_.clients;
      continue;
    }
    queues_.Add(*client);
    clients_[fd] = std::move(client);
    ++metrics_->numbers().accepted;
    metrics_->numbers().connected = clients_.size();
  }
}

void Worker::Drop(Client& client) {
  // A queued client is still looked at: it is dropped there.
  if (client.is_queued || client.is_busy || client.is_hungry) {
    client.is_closing = true;
    return;
  }
  long_reads_.erase(&client);
  transactions_.End(client);
  subscribers_.End(client);
  clients_.erase(client.fd());
  --inbox_.clients;
  metrics_->numbers().connected = clients_.size();
}

bool Worker::ShakeHands(Client& client) {
  if (handshake_steps_++ >= kMostHandshakes) {
    queues_.Add(client);
    return false;
  }
  switch (client.tls()->ShakeHands()) {
    case TlsSession::Handshake::kDone:
      client.may_read = true;  // OpenSSL may have read more than the handshake
      return true;
    case TlsSession::Handshake::kWaits: return false;
    case TlsSession::Handshake::kFailed: break;
  }
  // A probe that connects and leaves is no failure.
  if (const std::string& why = client.tls()->failure(); !why.empty()) {
    ++metrics_->numbers().tls_failures;
    LogFailedHandshake(client, why);
  }
  Drop(client);
  return false;
}

void Worker::DropLateHandshakes() {
  handshake_steps_ = 0;
  while (!handshakes_.empty() && handshakes_.front().deadline <= now_) {
    const Handshake late = handshakes_.front();
    handshakes_.pop_front();
    const auto found = clients_.find(late.fd);
    if (found == clients_.end() || found->second->number() != late.number) continue;
    Client& client = *found->second;
    if (!client.is_shaking_hands() || client.is_closing) continue;
    ++metrics_->numbers().tls_failures;
    LogFailedHandshake(client, "it has not ended in 10 s");
    Drop(client);
  }
}

// ---- Requests

void Worker::Collect(Client& client) {
  // Requests before the one that ends the connection are done all the same.
  if (client.has_long_reads && !client.entry().is_killed()) return GoOn(client);
  if (client.entry().is_killed()) client.is_closing = true;
  if (client.is_closing) {
    Release(client);
    return;
  }
  if (client.is_shaking_hands() && !ShakeHands(client)) return;
  if (client.unsent() != 0) {
    if (!Send(client)) return Drop(client);
    if (client.unsent() > most_unsent_) return;  // room for answers brings it back
  }
  if (batches_ >= kMostInFlight || batch_->known_bytes() > kMostKnown) return queues_.Add(client);
  bool has_ended = false;
  bool has_received = false;
  size_t count = 0;
  const size_t known_before = batch_->known_bytes();
  client.has_next = false;
  client.entry().NoteActivity(now_, client.unparsed_bytes(), client.unsent(), client.is_resp3);
  while (count < client.allowance && !client.is_closing && client.unsent() <= most_unsent_ &&
         batch_->known_bytes() - known_before <= most_unsent_) {
    const RequestParser::Outcome outcome = client.parser.Next(client.unparsed());
    if (outcome == RequestParser::Outcome::kError) {
      batch_->AddRefusal(client, "ERR " + client.parser.error(), nullptr);
      client.is_closing = true;
      break;
    }
    if (outcome == RequestParser::Outcome::kRequest) {
      // CollectOne may leave it for later.
      if (!client.parser.arguments().empty() && !CollectOne(client, client.parser.arguments())) {
        client.has_next = true;
        break;
      }
      client.Take(client.parser.consumed());
      ++count;
      // The words of a line are gone with the next request.
      const bool is_line_in_batch = client.parser.is_line() && batch_->EndsWith(client);
      if (client.is_busy || is_line_in_batch) break;
      continue;
    }
    if (batch_->EndsWith(client) || !client.may_read) break;
    if (client.unparsed().size() > shared_.options.max_query_bytes) {
      batch_->AddRefusal(client, "ERR the query is longer than this gateway allows", nullptr);
      client.is_closing = true;
      break;
    }
    if (has_received && !TurnHasRoom()) {
      queues_.Add(client);
      break;
    }
    if (!client.MayReceive()) {
      queues_.AddHungry(client);
      break;
    }
    const Client::Read read = client.Receive(metrics_->numbers().bytes_received);
    has_ended = read == Client::Read::kEnded;
    has_received = true;
    if (read == Client::Read::kSome) client.NoteProgress(now_, true);
    // TLS may have to send before it receives more.
    if (read == Client::Read::kNone && client.may_read) AwaitRoom(client, epoll_);
    if (read != Client::Read::kSome) break;
  }
  if (count != 0 && client.unsent() == 0) client.was_behind = false;  // it goes on
  if (client.is_busy) return;                                         // a walk
  if (!batch_->EndsWith(client) && client.unparsed_bytes() == 0) client.GiveBack();
  if (batch_->EndsWith(client)) {
    client.is_busy = true;
  } else if (has_ended && client.unsent() == 0) {
    Drop(client);
  } else if (client.is_closing || has_ended || (client.unsent() != 0 && count != 0)) {
    client.is_closing = client.is_closing || has_ended;
    Release(client);
  } else if (count == client.allowance) {
    queues_.Add(client);
  }
}

bool Worker::CollectOne(Client& client, const std::vector<std::string_view>& arguments) {
  const bool is_in_batch = batch_->EndsWith(client);
  const Command* const command = FindCommand(arguments[0]);
  if (command == nullptr && IsOfHttp(arguments[0])) {
    LogHttp(client.entry().address());
    client.is_closing = true;
    return true;
  }
  const bool has_subcommand =
      command != nullptr && arguments.size() > 1 && HasSubcommands(*command);
  const Subcommand* const subcommand =
      has_subcommand ? FindSubcommand(*command, arguments[1]) : nullptr;
  if (command != nullptr) {
    client.entry().NoteCommand(subcommand != nullptr ? subcommand->name : command->name);
  }
  if (!client.is_authenticated && !NeedsNoLogin(command)) {
    batch_->AddRefusal(client, "NOAUTH Authentication required.", command);
    return true;
  }
  const bool is_simple = command != nullptr && !has_subcommand;
  const bool is_right = is_simple && IsRightCount(command->arity, arguments.size()) &&
                        !HasReservedKey(*command, arguments);
  if (const std::string refusal =
          is_right ? std::string() : RefusalOf(command, subcommand, arguments);
      !refusal.empty()) {
    batch_->AddRefusal(client, refusal, command);
    transactions_.Spoil(client);
    return true;
  }
  if (client.has_subscriptions && !client.is_resp3 && !IsForSubscribers(*command)) {
    batch_->AddRefusal(client, RefusalOfSubscriber(*command, subcommand), command);
    transactions_.Spoil(client);
    return true;
  }
  if (subcommand != nullptr && IsHelp(*subcommand)) {
    batch_->AddAnswer(client, HelpOn(*command), command);
    return true;
  }
  if ((client.has_transaction || command->kind == CommandKind::kTransaction) &&
      transactions_.Collect(client, *command, arguments, shared_.options.max_query_bytes,
                            *batch_)) {
    return true;
  }
  switch (command->kind) {
    case CommandKind::kAnswer:
      batch_->AddAnswer(client, AnswerAtOnce(client, *command, arguments), command);
      return true;
    case CommandKind::kState:
      if (is_in_batch) return false;
      AnswerState(client, *command, arguments);
      return true;
    case CommandKind::kTransaction:
    case CommandKind::kWalk:
      if (is_in_batch) return false;
      if (walks_ >= kMostInFlight ||
          (command->id == CommandId::kScanRange && range_walks_ >= kMostRangeWalks)) {
        if (!Send(client)) client.is_closing = true;
        queues_.Add(client);
        return false;
      }
      StartWalk(client, *command, arguments);
      return true;
    default:
      if (command->is_write && writing_ + batch_->write_bytes() > kMostWriting) {
        if (!is_in_batch) queues_.Add(client);
        return false;
      }
      return batch_->Add(client, *command, arguments);
  }
}

// ---- Batches

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
    batch_ = NewBatch(*store_, shared_, change_memory_, large_ids_);
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
  batch->Record(Clock::now() - begin, *metrics_, shared_.slow_log);
  --batches_;
  for (Client* client : batch->clients()) {
    client->has_short_answers = client->unsent() <= ClientQueues::kLittle;
    // Where answers are long, few of them are enough to keep the client busy.
    client->allowance = client->unsent() > kMostUnsent
                            ? std::max<size_t>(1, client->allowance / 8)
                            : std::min(kMostRequests, 2 * client->allowance);
    Release(*client);
  }
  if (idle_batches_.size() >= batch->MostIdle()) co_return;
  batch->Clear();
  idle_batches_.push_back(std::move(batch));
}

void Worker::Release(Client& client) {
  client.is_busy = false;
  if (client.has_waiting_messages && !client.has_long_reads) subscribers_.GiveWaiting(client);
  client.CountMemory();
  // The answers of one pipeline leave together, though it may take several batches.
  const bool has_more = client.has_next && !is_stopping_.load(std::memory_order_relaxed);
  if (has_more && !client.is_closing && client.unsent() <= most_unsent_) return queues_.Add(client);
  // Many batches may end in one turn: long answers leave in the next ones.
  if (client.unsent() > ClientQueues::kLittle && !TurnHasRoom()) return queues_.Add(client);
  const bool is_connected = Send(client);
  const bool is_flooded = !client.is_authenticated && client.unsent() > kMostUnsentUnknown;
  if (!is_connected || is_flooded || (client.is_closing && client.unsent() == 0)) {
    Drop(client);
  } else if (client.is_closing) {
    return;  // once its answers are sent
  } else if (client.may_read || client.unparsed_bytes() != 0) {
    queues_.Add(client);
  } else {
    client.GiveBack();  // an event brings it back
  }
}

bool Worker::Send(Client& client) {
  const uint64_t before = metrics_->numbers().bytes_sent;
  const bool is_connected = client.Send(metrics_->numbers().bytes_sent);
  client.NoteProgress(now_, metrics_->numbers().bytes_sent != before);
  client.entry().NoteActivity(now_, client.unparsed_bytes(), client.unsent(), client.is_resp3);
  if (!is_connected || client.unsent() == 0) return is_connected;
  if (!client.may_send) return AwaitRoom(client, epoll_);
  queues_.Add(client);  // nothing else would bring it back
  return true;
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
      *session_, shared_.positions, is_short_ ? kMostUnsentWhenShort : kPartBytes, part_values_);
  is_in_part_ = false;
  client.has_short_answers = has_ended && client.unsent() <= ClientQueues::kLittle;
  if (!has_ended) co_return GoOn(client);
  if (reads.is_broken()) client.is_closing = true;
  reads.batch().Record(reads.spent(), *metrics_, shared_.slow_log);
  long_reads_.erase(&client);
  client.has_long_reads = false;
  client.allowance = std::max<size_t>(1, client.allowance / 8);
  Release(client);
}

// ---- Walks

void Worker::StartWalk(Client& client, const Command& command,
                       const std::vector<std::string_view>& arguments) {
  Errand errand;
  Status parsed = Ok();
  const auto take = [&parsed](auto& to, auto result) {
    using One = typename std::remove_reference_t<decltype(to)>::element_type;
    if (result) to = std::make_unique<One>(std::move(result.value()));
    if (!result) parsed = result.error();
  };
  if (KeyMove::Has(command.id)) {
    take(errand.move, KeyMove::Parse(command, arguments));
  } else if (command.kind == CommandKind::kWalk) {
    take(errand.walk, Walk::Parse(command, arguments, shared_.positions,
                                  [&client] { return client.is_lost(); }));
  }
  if (!parsed) {
    ReplyWriter(client.out, client.is_resp3).Error(parsed.error().message);
    metrics_->RecordCommand(NumberOf(command), {}, true);
    return;
  }
  client.is_busy = true;
  ++walks_;
  if (command.id == CommandId::kScanRange) ++range_walks_;
  std::vector<std::string> words;
  for (const std::string_view word : arguments) words.emplace_back(word.substr(0, kMostWord));
  session_->Spawn(RunWalk(client, std::move(errand), &command, std::move(words)));
}

Task<void> Worker::RunWalk(Client& client, Errand errand, const Command* command,
                           std::vector<std::string> words) {
  const Clock::time_point begin = Clock::now();
  const size_t before = client.out.size();
  LongList list(shared_.memory);
  if (errand.move != nullptr) {
    ClientMemory::Holding held(shared_.memory, ClientMemory::Use::kRequests);
    held.Set(errand.move->held_bytes());
    co_await errand.move->Run(*session_, client.out, client.is_resp3);
  } else if (errand.walk != nullptr) {
    co_await errand.walk->Run(*session_, shared_.positions, turns_, client.out, list,
                              client.is_resp3);
  } else {
    const auto answer = [&](const Command& one, const std::vector<std::string_view>& arguments) {
      return AnswerAtOnce(client, one, arguments);
    };
    co_await transactions_.Run(client, *command, words, *session_, shared_.scripts,
                               store_->parameters().max_key_bytes, answer);
  }
  const std::chrono::nanoseconds duration = Clock::now() - begin;
  const bool is_error = client.out.size() > before && client.out[before] == '-';
  client.Append(list.TakePieces());
  metrics_->RecordCommand(NumberOf(*command), duration, is_error);
  const std::optional<uint64_t> keys =
      errand.walk == nullptr ? std::nullopt : errand.walk->key_count();
  if (keys) shared_.key_count.store(static_cast<int64_t>(*keys), std::memory_order_relaxed);
  if (shared_.slow_log.IsSlow(duration)) {
    shared_.slow_log.Add(duration, {words.begin(), words.end()}, client.entry().address(),
                         client.entry().name());
  }
  // Released later: the walk may end at once, while the client's request is still being taken.
  --walks_;
  if (command->id == CommandId::kScanRange) --range_walks_;
  done_.push_back(&client);
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

// ---- The end, or another store: what it has taken is answered, and clients get the answers

std::future<void> Worker::Use(Store& store, std::unique_ptr<Session> session) {
  const std::lock_guard guard(next_store_mutex_);
  next_store_.emplace(NextStore{&store, std::move(session), {}});
  has_next_store_.store(true, std::memory_order_release);
  inbox_.Wake();
  return next_store_->is_used.get_future();
}

// Nothing of the store before lives on: batches have the new one's parameters, and an operation in
// flight never goes over to it.
void Worker::SwitchStore() {
  std::optional<NextStore> next;
  {
    const std::lock_guard guard(next_store_mutex_);
    next.swap(next_store_);
    has_next_store_.store(false, std::memory_order_relaxed);
  }
  turns_.EndAll(kSwitching);
  while (in_flight() != 0 || !batch_->empty()) {
    StartBatch(true);
    PollInFlight();
  }
  turns_.LetGoOn();
  session_->WaitAll();
  session_ = std::move(next->session);
  store_ = next->store;
  batch_ = NewBatch(*store_, shared_, change_memory_, large_ids_);
  idle_batches_.clear();
  shared_.key_count.store(-1, std::memory_order_relaxed);
  next->is_used.set_value();
}

void Worker::End() {
  subscribers_.EndAll();
  // Also answers that wait for the rest of their pipeline, which is not done any more.
  const auto send_queued = [this] {
    queues_.BeginTurn(Clock::now());
    while (Client* const client = queues_.Next(true)) {
      if (client->is_busy) continue;
      if (client->has_long_reads) {
        GoOn(*client);
      } else if (!Send(*client)) {
        Drop(*client);
      }
    }
  };
  send_queued();
  const Clock::time_point end_of_walks = Clock::now() + kStopPatience;
  const auto has_long_reads = [&] { return !long_reads_.empty() && Clock::now() < end_of_walks; };
  while (in_flight() != 0 || !batch_->empty() || has_long_reads()) {
    StartBatch(true);
    StartPart(true);
    PollInFlight();
    HandleEvents(0);
    send_queued();
    if (Clock::now() > end_of_walks) turns_.EndAll(kStopping);
  }
  const auto has_unsent = [](const auto& client) { return client.second->unsent() != 0; };
  const Clock::time_point deadline = Clock::now() + kStopPatience;
  while (Clock::now() < deadline && std::ranges::any_of(clients_, has_unsent)) {
    HandleEvents(10);
    send_queued();
  }

  // Closing a connection on which something has arrived that nobody has read would reset it, and
  // the client would lose answers.
  const Clock::time_point end_of_sending = Clock::now() + kStopPatience;
  Clock::time_point last_news = Clock::now();
  while (Clock::now() < end_of_sending) {
    bool has_news = false;
    // Other workers may still accept connections, and give them to this one: these are ended like
    // the others.
    const bool may_come = shared_.acceptors.load(std::memory_order_acquire) != 0;
    Welcome();
    for (const auto& [fd, client] : clients_) client->EndSending();
    std::erase_if(clients_, [&](const auto& client) { return !Discard(client.first, has_news); });
    const auto is_on_its_way = [](const auto& client) { return IsOnItsWay(client.first); };
    has_news = has_news || std::ranges::any_of(clients_, is_on_its_way);
    if (has_news) last_news = Clock::now();
    std::this_thread::sleep_for(kStopPause);
    const bool is_quiet = clients_.empty() || Clock::now() - last_news >= kQuiet;
    if (is_quiet && !may_come) break;
  }
  clients_.clear();
}

}  // namespace gossamer::gateway
