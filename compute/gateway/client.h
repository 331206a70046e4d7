// Client: a connection of a Redis client.
//
// Thread-safety: none; a client belongs to one worker.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/unique_fd.h"
#include "compute/gateway/client_list.h"
#include "compute/gateway/request_parser.h"
#include "compute/gateway/tls.h"
#include "compute/gateway/users.h"

namespace gossamer::gateway {

class Client {
 public:
  Client(UniqueFd socket, ClientList& list, uint64_t number, bool needs_no_password)
      : is_authenticated(needs_no_password),
        socket_(std::move(socket)),
        entry_(list, number, socket_.get()) {}

  int fd() const { return socket_.get(); }
  uint64_t number() const { return entry_.number(); }
  // Whether nobody waits for answers any more.
  bool is_lost() const { return is_gone || entry_.is_killed(); }
  ClientList::Entry& entry() { return entry_; }

  // From now on all goes through `tls`. Returns false if that is null. Requires: nothing has been received or sent.
  bool Encrypt(std::unique_ptr<TlsSession> tls) {
    tls_ = std::move(tls);
    return tls_ != nullptr;
  }
  // Null if the connection is plain.
  TlsSession* tls() { return tls_.get(); }
  // While it is, there is nothing to receive and nothing to send.
  bool is_shaking_hands() const { return tls_ && !tls_->is_established(); }

  // Bounds its requests to come: to a few small words, while it is not authenticated.
  void LimitRequests(uint64_t max_query_bytes);

  // MULTI is refused. A client that has sent more behind it, without a look at the reply, wants that to take effect as a whole or
  // not at all.
  enum class Transaction : uint8_t {
    kNone,
    kRefused,  // nothing has come behind MULTI yet: the client may be waiting for the reply
    kGoesOn,   // what comes is refused too, up to EXEC or DISCARD
  };

  enum class Read : uint8_t { kSome, kNone, kEnded };
  // Reads what has arrived, up to a bound; no request may be in flight, as those are views into what was read.
  Read Receive(uint64_t& bytes);
  // What was read and not taken yet.
  std::string_view unparsed() const { return std::string_view(in_).substr(taken_); }
  void Take(size_t bytes) { taken_ += bytes; }
  // Call before answers leave. A client that has sent nothing behind a refused MULTI reads that reply first: it knows that there is
  // no transaction.
  void EndRefusedTransaction(uint64_t& bytes_received);

  // Tells the other side that nothing more comes, and that it may close.
  void EndSending();
  // Sends what `out` has. Returns false if the connection is lost.
  bool Send(uint64_t& bytes);
  size_t unparsed_bytes() const { return in_.size() - taken_; }
  size_t unsent() const { return out.size() - sent_; }

  RequestParser parser;
  std::string out;
  size_t allowance = 64;                                 // requests that it may have in a batch
  size_t counted_unsent = 0;                             // of unsent(), in the worker's total
  std::chrono::steady_clock::time_point moved_at{};      // when it has taken some of its answers
  std::chrono::steady_clock::time_point behind_since{};  // when it had taken all for the last time
  bool is_resp3 = false;
  bool is_authenticated;
  bool may_read = true;         // something may have arrived
  bool has_hung_up = false;     // no event will tell of what comes
  bool is_gone = false;         // nobody takes answers any more
  bool is_busy = false;         // requests are in flight
  bool has_next = false;        // the next request is here, and waits for those in flight
  bool has_long_reads = false;  // which come first; nothing is received meanwhile
  bool is_queued = false;       // is in the worker's list of those to look at
  bool is_closing = false;      // once `out` is sent
  Transaction transaction = Transaction::kNone;

 private:
  // As TlsSession::Receive and Send, of the plain socket.
  TlsSession::Rest ReceivePlain(std::span<char> to, size_t& bytes);
  bool SendPlain(std::string_view from, size_t& bytes);

  UniqueFd socket_;
  ClientList::Entry entry_;          // gone before the socket is closed
  std::unique_ptr<TlsSession> tls_;  // likewise
  std::string in_;
  size_t taken_ = 0;
  size_t sent_ = 0;
};

}  // namespace gossamer::gateway
