#include "compute/gateway/worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "compute/gateway/refusals.h"
#include "compute/gateway/reply_writer.h"
#include "compute/gateway/walk.h"

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostInFlight = 64;
// How long a worker without work sleeps at most: tasks of the store go on in between.
constexpr int kIdleMs = 100;

}  // namespace

Worker::Worker(size_t number, Shared& shared, Store& store, std::vector<Listener> listeners,
               WorkerMetrics& metrics)
    : shared_(shared),
      store_(store),
      inbox_(shared.inboxes[number]),
      all_metrics_(metrics),
      acceptor_(std::move(listeners), shared.inboxes, shared.options.max_clients),
      batch_(std::make_unique<Batch>(store.parameters().max_key_bytes)) {}

Worker::~Worker() = default;

Status Worker::Open() {
  BOOST_OUTCOME_TRY(session, store_.NewSession());
  session_ = std::move(session);
  metrics_ = all_metrics_.AddWorker();
  if (!epoll_.Open() || !inbox_.Open()) {
    return MakeError(Code::kUnsupported, "this process may open no more files: raise `ulimit -n`");
  }
  if (epoll_.Watch(inbox_.fd(), EPOLLIN) && acceptor_.Open(epoll_)) return Ok();
  return MakeError(Code::kUnsupported,
                   "this user may watch no more files: raise /proc/sys/fs/epoll/max_user_watches");
}

void Worker::Stop() {
  is_stopping_.store(true, std::memory_order_release);
  inbox_.Wake();
}

void Worker::Run() {
  while (!is_stopping_.load(std::memory_order_acquire)) {
    const bool waits_for_memory = ready_.empty() || is_short_;
    const bool is_idle =
        in_flight() == 0 && queue_.empty() && waits_for_memory && session_->Poll() == 0;
    HandleEvents(is_idle ? kIdleMs : 0);
    acceptor_.Resume(epoll_);
    now_ = Clock::now();
    DropLateHandshakes();
    std::vector<Client*> queue;
    queue.swap(queue_);
    for (Client* client : queue) {
      client->is_queued = false;
      if (!client->is_busy) Collect(*client);
    }
    StartBatch();
    LookAtMemory();
    StartPart();
    for (int round = 0; round < kRoundsPerLook && in_flight() != 0; ++round) session_->Poll();
    turns_.GiveTurn();
    ReleaseWalkers();
    metrics_->PublishIfDue(now_, *session_);
  }
  acceptor_.Close(epoll_);
  Drain();
  Disconnect();
  session_->WaitAll();
  metrics_->Publish(Clock::now(), session_->counters());
  metrics_.reset();
  session_.reset();
}

void Worker::HandleEvents(int timeout_ms) {
  std::array<epoll_event, 128> events;
  for (const epoll_event& event : epoll_.Wait(events, timeout_ms)) {
    const int fd = event.data.fd;
    if (fd == inbox_.fd()) {
      Welcome();
      continue;
    }
    if (acceptor_.Accept(fd, epoll_)) continue;
    const auto found = clients_.find(fd);
    if (found == clients_.end()) continue;
    Client& client = *found->second;
    if ((event.events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0) client.has_hung_up = true;
    if ((event.events & EPOLLIN) != 0 || client.has_hung_up) client.may_read = true;
    if (client.is_busy) continue;
    if (client.unsent() != 0 && !Send(client)) {
      Drop(client);
      continue;
    }
    if (client.has_long_reads) {
      GoOn(client);
    } else {
      Queue(client);
    }
  }
}

void Worker::Welcome() {
  for (Inbox::Arrival& one : inbox_.TakeAll()) {
    const int fd = one.socket.get();
    auto client = std::make_unique<Client>(std::move(one.socket), shared_.client_list,
                                           shared_.next_number++, shared_.options.users.empty());
    client->LimitRequests(shared_.options.max_query_bytes);
    const bool can_encrypt = !one.is_tls || client->Encrypt(shared_.options.tls->NewSession(fd));
    if (one.is_tls) handshakes_.Begin(*client);
    if (!can_encrypt || !epoll_.Watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
      --inbox_.clients;
      continue;
    }
    Queue(*client);
    clients_[fd] = std::move(client);
    ++metrics_->numbers().accepted;
    metrics_->numbers().connected = clients_.size();
  }
}

void Worker::Queue(Client& client) {
  if (client.is_queued) return;
  client.is_queued = true;
  queue_.push_back(&client);
}

void Worker::Drop(Client& client) {
  // A queued client is still looked at: it is dropped there.
  if (client.is_queued || client.is_busy) {
    client.is_closing = true;
    return;
  }
  CountUnsent(client, 0);
  long_reads_.erase(&client);
  clients_.erase(client.fd());
  --inbox_.clients;
  metrics_->numbers().connected = clients_.size();
}

void Worker::Collect(Client& client) {
  if (client.entry().is_killed()) client.is_closing = true;
  if (client.is_closing) {
    Release(client);
    return;
  }
  if (client.is_shaking_hands() && !ShakeHands(client)) return;
  if (client.has_long_reads) return GoOn(client);
  if (batches_ >= kMostInFlight || client.unsent() > most_unsent()) {
    // An answer that ends, or room for answers, brings it back.
    if (client.unsent() <= most_unsent()) Queue(client);
    return;
  }
  bool has_ended = false;
  size_t count = 0;
  client.has_next = false;
  client.entry().NoteActivity(now_, client.unparsed_bytes(), client.unsent(), client.is_resp3);
  while (count < client.allowance && !client.is_closing && client.unsent() <= most_unsent()) {
    const RequestParser::Outcome outcome = client.parser.Next(client.unparsed());
    if (outcome == RequestParser::Outcome::kError) {
      batch_->AddError(client, "ERR " + client.parser.error(), nullptr);
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
      const bool is_line_in_batch = client.parser.is_line() && IsInBatch(client);
      if (client.is_busy || is_line_in_batch) break;
      continue;
    }
    if (IsInBatch(client) || !client.may_read) break;
    if (client.unparsed().size() > shared_.options.max_query_bytes) {
      batch_->AddError(client, "ERR the query is longer than this gateway allows", nullptr);
      client.is_closing = true;
      break;
    }
    const Client::Read read = client.Receive(metrics_->numbers().bytes_received);
    has_ended = read == Client::Read::kEnded;
    if (read != Client::Read::kSome) break;
  }
  if (client.is_busy) return;  // a walk
  if (IsInBatch(client)) {
    client.is_busy = true;
  } else if (has_ended && client.unsent() == 0) {
    Drop(client);
  } else if (client.is_closing || has_ended || (client.unsent() != 0 && count != 0)) {
    client.is_closing = client.is_closing || has_ended;
    Release(client);
  } else if (count == client.allowance) {
    Queue(client);
  }
}

bool Worker::CollectOne(Client& client, const std::vector<std::string_view>& arguments) {
  const bool is_in_batch = IsInBatch(client);
  const Command* const command = FindCommand(arguments[0]);
  if (client.transaction != Client::Transaction::kNone &&
      RefuseInTransaction(client, command, arguments)) {
    return true;
  }
  const bool has_subcommand =
      command != nullptr && arguments.size() > 1 && HasSubcommands(*command);
  const Subcommand* const subcommand =
      has_subcommand ? FindSubcommand(*command, arguments[1]) : nullptr;
  if (command != nullptr) {
    client.entry().NoteCommand(subcommand != nullptr ? subcommand->name : command->name);
  }
  const bool is_simple = command != nullptr && !has_subcommand;
  const bool is_right = is_simple && IsRightCount(command->arity, arguments.size());
  if (const std::string refusal =
          is_right ? std::string() : RefusalOf(command, subcommand, arguments);
      !refusal.empty()) {
    batch_->AddError(client, refusal, command);
    const bool is_multi = client.is_authenticated && IsTransaction(arguments);
    if (is_multi) client.transaction = Client::Transaction::kRefused;
    return true;
  }
  const bool needs_no_password =
      command->id == CommandId::kAuth || command->id == CommandId::kHello ||
      command->id == CommandId::kQuit || command->id == CommandId::kReset;
  if (!client.is_authenticated && !needs_no_password) {
    batch_->AddError(client, "NOAUTH Authentication required.", command);
    return true;
  }
  switch (command->kind) {
    case CommandKind::kAnswer:
      batch_->AddAnswer(client, AnswerAtOnce(client, *command, arguments), command);
      return true;
    case CommandKind::kState:
      if (is_in_batch) return false;
      RunState(client, *command, arguments);
      return true;
    case CommandKind::kWalk:
      if (is_in_batch) return false;
      if (walks_ >= kMostInFlight) {
        Queue(client);
        return false;
      }
      StartWalk(client, *command, arguments);
      return true;
    default: return batch_->Add(client, *command, arguments);
  }
}

bool Worker::RefuseInTransaction(Client& client, const Command* command,
                                 const std::vector<std::string_view>& arguments) {
  using Transaction = Client::Transaction;
  const bool is_alone = arguments.size() == 1;
  const bool leaves = command != nullptr && is_alone &&
                      (command->id == CommandId::kReset || command->id == CommandId::kQuit);
  const bool is_exec = is_alone && IsWord(arguments[0], "exec");
  const bool is_discard = is_alone && IsWord(arguments[0], "discard");
  client.transaction = leaves || is_exec || is_discard ? Transaction::kNone : Transaction::kGoesOn;
  if (leaves) return false;
  if (is_exec) {
    batch_->AddError(client, "EXECABORT Transaction discarded because of previous errors.",
                     nullptr);
  } else if (is_discard) {
    batch_->AddAnswer(client, "+OK\r\n", nullptr);
  } else {
    batch_->AddError(client, kNotExecuted, command);
  }
  return true;
}

// A client that has sent nothing behind MULTI reads the reply first: it knows that there is no transaction.
void Worker::EndRefusedTransaction(Client& client) {
  if (client.unparsed_bytes() == 0) client.Receive(metrics_->numbers().bytes_received);
  if (client.unparsed_bytes() == 0) client.transaction = Client::Transaction::kNone;
}

void Worker::RunState(Client& client, const Command& command,
                      const std::vector<std::string_view>& arguments) {
  const Clock::time_point begin = Clock::now();
  const size_t before = client.out.size();
  AnswerState(client, command, arguments);
  Record(command, Clock::now() - begin, client.out[before] == '-');
}

void Worker::Record(const Command& command, std::chrono::nanoseconds duration, bool is_error) {
  metrics_->RecordCommand(NumberOf(command), static_cast<uint64_t>(duration.count()));
  if (is_error) metrics_->RecordError(NumberOf(command));
}

// ---- Walks

void Worker::ReleaseWalkers() {
  std::vector<Client*> done;
  done.swap(done_);
  for (Client* client : done) Release(*client);
}

void Worker::StartWalk(Client& client, const Command& command,
                       const std::vector<std::string_view>& arguments) {
  Result<Walk> walk = Walk::Parse(command, arguments, shared_.positions);
  if (!walk) {
    ReplyWriter(client.out, client.is_resp3).Error(walk.error().message);
    Record(command, {}, true);
    return;
  }
  client.is_busy = true;
  ++walks_;
  session_->Spawn(RunWalk(client, std::make_unique<Walk>(std::move(walk.value())), &command,
                          {arguments.begin(), arguments.end()}));
}

Task<void> Worker::RunWalk(Client& client, std::unique_ptr<Walk> walk, const Command* command,
                           std::vector<std::string> words) {
  const Clock::time_point begin = Clock::now();
  const size_t before = client.out.size();
  co_await walk->Run(*session_, shared_.positions, turns_, client.out, client.is_resp3);
  const std::chrono::nanoseconds duration = Clock::now() - begin;
  Record(*command, duration, client.out[before] == '-');
  if (shared_.slow_log.IsSlow(duration)) {
    shared_.slow_log.Add(duration, {words.begin(), words.end()}, client.entry().address(),
                         client.entry().name());
  }
  // Released later: the walk may end at once, while the client's request is still being taken.
  --walks_;
  done_.push_back(&client);
}

}  // namespace gossamer::gateway
