// Client: a connection of a Redis client.
//
// Thread-safety: none; a client belongs to one worker.
#pragma once

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/unique_fd.h"
#include "compute/gateway/connection/client_list.h"
#include "compute/gateway/connection/client_memory.h"
#include "compute/gateway/connection/tls.h"
#include "compute/gateway/connection/users.h"
#include "compute/gateway/protocol/request_parser.h"

namespace gossamer::gateway {

class Client {
 public:
  Client(UniqueFd socket, ClientList& list, ClientMemory& memory, uint64_t number,
         bool needs_no_password)
      : is_authenticated(needs_no_password),
        socket_(std::move(socket)),
        entry_(list, number, socket_.get()),
        memory_(memory),
        requests_held_(memory, ClientMemory::Use::kRequests),
        answers_held_(memory, ClientMemory::Use::kAnswers) {}

  int fd() const { return socket_.get(); }
  uint64_t number() const { return entry_.number(); }
  // Whether nobody waits for answers any more.
  bool is_lost() const { return is_gone || entry_.is_killed(); }
  // Whether it keeps memory busy: it has not taken its answers, or not sent the rest of a request.
  bool is_behind() const { return unsent() != 0 || unparsed_bytes() != 0; }
  ClientList::Entry& entry() { return entry_; }

  // From now on all goes through `tls`. Returns false if that is null. Requires: nothing has been
  // received or sent.
  bool Encrypt(std::unique_ptr<TlsSession> tls) {
    assert(in_.empty() && out.empty());
    tls_ = std::move(tls);
    return tls_ != nullptr;
  }
  // Null if the connection is plain.
  TlsSession* tls() { return tls_.get(); }
  // While it is, there is nothing to receive and nothing to send.
  bool is_shaking_hands() const { return tls_ && !tls_->is_established(); }

  // Bounds its requests to come: to a few small words, while it is not authenticated.
  void LimitRequests(uint64_t max_query_bytes);

  // Whether there is memory for the next Receive: a request that grows long is for one client at a
  // time while memory is short.
  bool MayReceive();
  enum class Read : uint8_t { kSome, kNone, kEnded };
  // Reads what has arrived, up to a bound; no request may be in flight, as those are views into
  // what was read.
  Read Receive(uint64_t& bytes);
  // What was read and not taken yet.
  std::string_view unparsed() const { return std::string_view(in_).substr(taken_); }
  void Take(size_t bytes) {
    taken_ += bytes;
    requests_held_.EndGrowth();
  }
  // Tells the other side that nothing more comes, and that it may close.
  void EndSending();
  // Appends `pieces` to the answers, behind `out`, without a copy. `out` is empty then.
  void Append(std::deque<std::string> pieces);
  // Sends answers, up to a bound. Returns false if the connection is lost.
  bool Send(uint64_t& bytes);
  size_t unparsed_bytes() const { return in_.size() - taken_; }
  size_t unsent() const { return piece_bytes_ + out.size() - sent_; }

  // Notes whether it is behind, and since when. `has_moved`: bytes have come or left.
  void NoteProgress(std::chrono::steady_clock::time_point now, bool has_moved) {
    if (!was_behind) behind_since = moved_at = now;
    if (has_moved) moved_at = now;
    was_behind = is_behind();
  }

  // Counts what it holds. To be called when answers were added; Receive and Send do it themselves.
  void CountMemory();
  // Gives back what it holds without need. Requires (unchecked): no request is in flight.
  void GiveBack();
  // Gives back what answers have taken, once all are sent.
  void GiveBackAnswers();
  uint64_t held_bytes() const { return requests_held_.bytes() + answers_held_.bytes(); }

  RequestParser parser;
  std::string out;
  size_t allowance = 64;                                 // requests that it may have in a batch
  std::chrono::steady_clock::time_point moved_at{};      // when bytes came from it or left for it
  std::chrono::steady_clock::time_point behind_since{};  // when it last owed nothing: see is_behind
  bool is_resp3 = false;
  bool is_authenticated;
  bool may_read = true;               // something may have arrived
  bool may_send = true;               // there may be room for answers
  bool awaits_room = false;           // room for answers is an event
  bool was_behind = false;            // when its worker looked last
  bool has_hung_up = false;           // no event will tell of what comes
  bool is_gone = false;               // nobody takes answers any more
  bool is_busy = false;               // requests are in flight
  bool has_next = false;              // the next request is here, and waits for those in flight
  bool has_long_reads = false;        // which come first; nothing is received meanwhile
  bool has_short_answers = false;     // so were the last ones
  bool is_queued = false;             // is in the worker's list of those to look at
  bool is_queued_to_send = false;     // likewise, and it had much to send then
  bool is_hungry = false;             // likewise, of those to look at when there is memory
  bool is_closing = false;            // once `out` is sent
  bool has_transaction = false;       // it queues commands, or watches keys
  bool is_peer = false;               // another compute server of the store
  bool has_subscriptions = false;     // it listens to channels
  bool has_waiting_messages = false;  // of channels, which come behind what is in flight

 private:
  // As TlsSession::Receive and Send, of the plain socket.
  TlsSession::Rest ReceivePlain(std::span<char> to, size_t& bytes);
  bool SendPlain(std::string_view from, size_t& bytes);
  // Sends the rest of `from`, of which sent_ bytes are sent. Returns false if the connection is
  // lost.
  bool SendRestOf(const std::string& from, size_t& room, uint64_t& bytes);
  // Of the next Receive: bytes to ask for.
  size_t WantedBytes() const;

  UniqueFd socket_;
  ClientList::Entry entry_;          // gone before the socket is closed
  std::unique_ptr<TlsSession> tls_;  // likewise
  ClientMemory& memory_;
  ClientMemory::Holding requests_held_;
  ClientMemory::Holding answers_held_;
  std::string in_;
  size_t taken_ = 0;
  std::deque<std::string> pieces_;  // answers before those of `out`
  size_t piece_bytes_ = 0;
  size_t sent_ = 0;  // of the first piece, or of `out` if there is none
};

}  // namespace gossamer::gateway
