#include "common/admin/http_connection.h"

#include <array>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::asio::ip::tcp;

// How long, and how much, is read from a client after the last reply. A socket that is closed with
// unread bytes resets the connection, and the client may lose the reply.
constexpr std::chrono::seconds kLingerTime{1};
constexpr size_t kMaxLingerBytes = 64 << 10;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }
beast::string_view BoostView(std::string_view text) { return {text.data(), text.size()}; }

// The reply to bytes that are no request.
AdminReply ReplyTo(beast::error_code error) {
  if (error == http::error::header_limit) {
    return Sentence(431, "the header of a request must not have more than " +
                             std::to_string(kMaxHeaderBytes) + " bytes");
  }
  return Sentence(400, "this is no HTTP request (" + error.message() + ")");
}

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, const AdminContent* content, std::chrono::milliseconds timeout,
                 std::shared_ptr<void> ticket)
      : ticket_(std::move(ticket)),
        stream_(std::move(socket)),
        content_(content),
        timeout_(timeout) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    stream_.expires_after(timeout_);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->HaveRead(error); });
  }

  void WriteLast(AdminReply reply) { Write(std::move(reply), 11, false, false); }

 private:
  void HaveRead(beast::error_code error) {
    // The client has closed, or was too slow: the socket closes with the last reference.
    if (error == http::error::end_of_stream || error == beast::error::timeout) return;
    if (error.category() == http::make_error_code(http::error::bad_method).category()) {
      WriteLast(ReplyTo(error));
      return;
    }
    if (error) return;
    const auto& request = parser_->get();
    const auto length = parser_->content_length();
    if (parser_->chunked() || (length && *length != 0)) {
      WriteLast(Sentence(413, "a request must not have a body"));
      return;
    }
    Write(Answer(*content_, View(request.method_string()), View(request[http::field::host]),
                 View(request.target())),
          request.version(), request.keep_alive(), request.method() == http::verb::head);
  }

  void Write(AdminReply reply, unsigned version, bool keep_alive, bool is_head) {
    response_ = {};
    response_.version(version);
    response_.result(reply.status);
    response_.set(http::field::content_type, BoostView(reply.content_type));
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    // The page has its style and script inside, and asks this server alone.
    response_.set("Content-Security-Policy",
                  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                  "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'");
    if (!reply.allow.empty()) response_.set(http::field::allow, BoostView(reply.allow));
    response_.keep_alive(keep_alive);
    response_.content_length(reply.body.size());
    if (!is_head) response_.body() = std::move(reply.body);
    stream_.expires_after(timeout_);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](beast::error_code error, size_t) {
                        if (error) return;
                        keep_alive ? self->Read() : self->ShutDown();
                      });
  }

  void ShutDown() {
    beast::error_code ignored;
    ignored = stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTime);
    Linger();
  }

  void Linger() {
    stream_.async_read_some(boost::asio::buffer(rest_),
                            [self = shared_from_this()](beast::error_code error, size_t bytes) {
                              self->lingered_bytes_ += bytes;
                              if (!error && self->lingered_bytes_ < kMaxLingerBytes) self->Linger();
                            });
  }

  const std::shared_ptr<void> ticket_;
  beast::tcp_stream stream_;
  const AdminContent* const content_;
  const std::chrono::milliseconds timeout_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + 1024};  // with what follows a request
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> rest_{};
  size_t lingered_bytes_ = 0;
};

}  // namespace

void ServeConnection(tcp::socket socket, const AdminContent& content,
                     std::chrono::milliseconds timeout, std::shared_ptr<void> ticket) {
  std::make_shared<HttpConnection>(std::move(socket), &content, timeout, std::move(ticket))->Read();
}

void RefuseConnection(tcp::socket socket, std::string_view sentence, std::shared_ptr<void> ticket) {
  std::make_shared<HttpConnection>(std::move(socket), nullptr, kLingerTime, std::move(ticket))
      ->WriteLast(Sentence(503, sentence));
}

}  // namespace gossamer
