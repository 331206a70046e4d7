// Client: a connection of a Redis client.
//
// Thread-safety: none; a client belongs to one worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/unique_fd.h"
#include "compute/gateway/client_list.h"
#include "compute/gateway/request_parser.h"

namespace gossamer::gateway {

class Client {
 public:
  Client(UniqueFd socket, ClientList& list, uint64_t number, bool needs_no_password)
      : is_authenticated(needs_no_password),
        socket_(std::move(socket)),
        entry_(list, number, socket_.get()) {}

  int fd() const { return socket_.get(); }
  uint64_t number() const { return entry_.number(); }
  ClientList::Entry& entry() { return entry_; }

  enum class Read : uint8_t { kSome, kNone, kEnded };
  // Reads what has arrived, up to a bound; no request may be in flight, as those are views into what was read.
  Read Receive(uint64_t& bytes);
  // What was read and not taken yet.
  std::string_view unparsed() const { return std::string_view(in_).substr(taken_); }
  void Take(size_t bytes) { taken_ += bytes; }

  // Sends what `out` has. Returns false if the connection is lost.
  bool Send(uint64_t& bytes);
  size_t unparsed_bytes() const { return in_.size() - taken_; }
  size_t unsent() const { return out.size() - sent_; }

  RequestParser parser;
  std::string out;
  size_t allowance = 64;  // requests that it may have in a batch
  bool is_resp3 = false;
  bool is_authenticated;
  bool may_read = true;      // something may have arrived
  bool has_hung_up = false;  // no event will tell of what comes
  bool is_busy = false;      // requests are in flight
  bool is_queued = false;    // is in the worker's list of those to look at
  bool is_closing = false;   // once `out` is sent

 private:
  UniqueFd socket_;
  ClientList::Entry entry_;  // gone before the socket is closed
  std::string in_;
  size_t taken_ = 0;
  size_t sent_ = 0;
};

}  // namespace gossamer::gateway
