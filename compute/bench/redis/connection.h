// Connection: one socket to a server of the Redis protocol, or of memcached's, with many requests
// in flight.
//
// Requests gather in a buffer until Flush. Replies come in the order of the requests, and each
// resumes the coroutine that waits for it.
//
// Thread-safety: none. Cost: no allocation for a request once the buffers have grown; a send and a
// recv for all requests that go together.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "compute/bench/redis/reply.h"

namespace gossamer::bench {

class Connection {
 public:
  // Where a reply of the server's protocol ends.
  using FindEnd = ReplyEnd (*)(std::string_view bytes);
  // `address`: unix:PATH or HOST:PORT, an IPv6 address in brackets.
  // Errors: InvalidArgument for another text; NodeUnreachable if nothing answers there.
  static Result<std::unique_ptr<Connection>> Open(const std::string& address, FindEnd find_end);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return socket_.get(); }
  size_t in_flight() const { return waiting_.size(); }
  bool has_unsent() const { return sent_ < out_.size(); }
  const std::optional<Error>& error() const { return error_; }

  // To append a request of another protocol to.
  std::string& unsent() { return out_; }
  // Adds a request of some words.
  void Begin(size_t words);
  void AddWord(std::string_view word);
  void Add(std::initializer_list<std::string_view> words) {
    Begin(words.size());
    for (const std::string_view word : words) AddWord(word);
  }

  // Awaits the reply to the request that was added last. The view is valid until the next co_await;
  // it is empty if the connection is lost.
  class Answer {
   public:
    explicit Answer(Connection& connection) : connection_(connection) {}
    bool await_ready() const { return connection_.error_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      waiter_ = waiter;
      connection_.waiting_.push_back(this);
    }
    std::string_view await_resume() const { return reply_; }

   private:
    friend class Connection;
    Connection& connection_;
    std::coroutine_handle<> waiter_;
    std::string_view reply_;
  };
  Answer Reply() { return Answer(*this); }

  // Sends what the socket takes.
  void Flush();
  // Reads what has arrived, and resumes the coroutines that wait for it. If the connection is lost,
  // it resumes all of them.
  void Receive();

 private:
  Connection(UniqueFd socket, FindEnd find_end)
      : find_end_(find_end), socket_(std::move(socket)), in_(kReadBytes) {}
  void Fail(const std::string& why);

  static constexpr size_t kReadBytes = 256 * 1024;

  const FindEnd find_end_;
  UniqueFd socket_;
  std::string out_;
  size_t sent_ = 0;
  std::vector<char> in_;
  size_t begin_ = 0;  // of what is in `in_`
  size_t end_ = 0;
  std::deque<Answer*> waiting_;
  std::optional<Error> error_;
};

}  // namespace gossamer::bench
