// One connection to an admin endpoint: requests one after the other, until an error or the
// time-out.
//
// Invariants: it owns itself while an operation on its socket is pending, and ends otherwise. It
// reads at most kMaxHeaderBytes for a request, and no body: a request with one is refused and the
// connection closed. A request, from the end of the last one to its last byte, takes at most
// `timeout`, and so does its reply, so that a slow client keeps a connection for a bounded time.
// Thread-safety: none; the thread that runs the socket's executor.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>

#include "common/admin/admin_content.h"

namespace gossamer {

inline constexpr size_t kMaxHeaderBytes = 8 << 10;

// Serves requests on `socket`. `content` must outlive the socket's executor. `ticket` is destroyed
// with the connection: it counts connections.
void ServeConnection(boost::asio::ip::tcp::socket socket, const AdminContent& content,
                     std::chrono::milliseconds timeout, std::shared_ptr<void> ticket);

// Answers 503 with `sentence` without waiting for a request, and closes.
void RefuseConnection(boost::asio::ip::tcp::socket socket, std::string_view sentence,
                      std::shared_ptr<void> ticket);

}  // namespace gossamer
