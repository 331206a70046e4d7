#include "common/admin/admin_server.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/admin/host_names.h"
#include "common/admin/listen_address.h"
#include "common/admin/page.h"
#include "common/start_thread.h"

namespace gossamer {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Reply = http::response<http::string_body>;

constexpr size_t kMaxHeaderBytes = 8 << 10;
// After an accept that failed, such as for lack of descriptors. The next one may fail at once, too.
constexpr std::chrono::milliseconds kAcceptPause{100};
// How long, and how much, is read from a client after the last reply. A socket that is closed with
// unread bytes resets the connection, and the client may lose the reply.
constexpr std::chrono::seconds kLingerTime{1};
constexpr size_t kMaxLingerBytes = 64 << 10;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

Reply MakeReply(unsigned status, const char* content_type, std::string body) {
  Reply reply;
  reply.result(status);
  reply.set(http::field::content_type, content_type);
  reply.body() = std::move(body);
  return reply;
}

// A reply of one sentence.
Reply Sentence(unsigned status, const std::string& sentence) {
  return MakeReply(status, "text/plain; charset=utf-8", sentence + "\n");
}

// The reply to bytes that are no request.
Reply ReplyTo(error_code error) {
  if (error == http::error::header_limit) {
    return Sentence(431, "the header of a request must not have more than " +
                             std::to_string(kMaxHeaderBytes) + " bytes");
  }
  return Sentence(400, "this is no HTTP request (" + error.message() + ")");
}

Reply ReplyAt(std::string_view path, const AdminContent& content) {
  using Json = nlohmann::ordered_json;
  if (path == "/metrics") {
    const auto families =
        content.families ? content.families() : std::vector<prometheus::MetricFamily>();
    return MakeReply(200, "text/plain; version=0.0.4; charset=utf-8",
                     prometheus::TextSerializer().Serialize(families));
  }
  if (path == "/healthz") return Sentence(200, "ok");
  if (path == "/readyz") {
    const Status ready = content.readiness ? content.readiness() : Ok();
    return ready ? Sentence(200, "ready") : Sentence(503, ready.error().message);
  }
  if (path == "/state") {
    const Json state = content.state ? content.state() : Json::object();
    // Bytes that are no UTF-8, as of keys, must not throw.
    return MakeReply(200, "application/json",
                     state.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (path == "/") return MakeReply(200, "text/html; charset=utf-8", std::string(PageHtml()));
  return Sentence(404, "nothing is here; there are /, /metrics, /healthz, /readyz and /state");
}

// What all connections of an endpoint share.
struct Endpoint {
  const AdminOptions options;
  const AdminContent content;
};

Reply Answer(const http::request<http::empty_body>& request, const Endpoint& endpoint) {
  if (!IsServedHost(View(request[http::field::host]), endpoint.options.hosts)) {
    return Sentence(403,
                    "nothing is answered under this name of a host: ask for an address, for "
                    "localhost, or for a name that the server was given (--admin_hosts)");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Reply refused = Sentence(405, "only GET and HEAD are served here");
    refused.set(http::field::allow, "GET, HEAD");
    return refused;
  }
  const std::string_view target = View(request.target());
  return ReplyAt(target.substr(0, target.find('?')), endpoint.content);
}

// One connection: requests one after the other, until an error or the time-out.
//
// Invariants: it owns itself while an operation on its socket is pending, and ends otherwise. It
// reads at most kMaxHeaderBytes for a request, and no body: a request with one is refused and the
// connection closed. A request, from the end of the last one to its last byte, takes at most
// `timeout`, and so does its reply, so that a slow client keeps a connection for a bounded time.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `endpoint` outlives the socket's executor. `ticket` is destroyed with the connection: it counts
  // connections.
  Connection(tcp::socket socket, const Endpoint& endpoint, std::shared_ptr<void> ticket)
      : ticket_(std::move(ticket)),
        stream_(std::move(socket)),
        endpoint_(endpoint),
        timeout_(endpoint.options.timeout) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    stream_.expires_after(timeout_);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->HaveRead(error); });
  }

  // Answers without waiting for a request, and closes.
  void Refuse(const std::string& sentence) {
    timeout_ = kLingerTime;
    WriteLast(Sentence(503, sentence));
  }

 private:
  void HaveRead(error_code error) {
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
    Write(Answer(request, endpoint_), request.version(), request.keep_alive(),
          request.method() == http::verb::head);
  }

  void WriteLast(Reply reply) { Write(std::move(reply), 11, false, false); }

  void Write(Reply reply, unsigned version, bool keep_alive, bool is_head) {
    reply_ = std::move(reply);
    reply_.version(version);
    reply_.set(http::field::cache_control, "no-store");
    reply_.set("X-Content-Type-Options", "nosniff");
    // The page has its style and script inside, and asks this server alone.
    reply_.set("Content-Security-Policy",
               "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
               "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'");
    reply_.keep_alive(keep_alive);
    reply_.content_length(reply_.body().size());
    if (is_head) reply_.body().clear();
    stream_.expires_after(timeout_);
    http::async_write(stream_, reply_,
                      [self = shared_from_this(), keep_alive](error_code error, size_t) {
                        if (error) return;
                        keep_alive ? self->Read() : self->ShutDown();
                      });
  }

  void ShutDown() {
    error_code ignored;
    ignored = stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTime);
    Linger();
  }

  void Linger() {
    stream_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](error_code error, size_t bytes) {
                              self->lingered_bytes_ += bytes;
                              if (!error && self->lingered_bytes_ < kMaxLingerBytes) self->Linger();
                            });
  }

  const std::shared_ptr<void> ticket_;
  beast::tcp_stream stream_;
  const Endpoint& endpoint_;
  std::chrono::milliseconds timeout_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + 1024};  // with what follows a request
  std::optional<http::request_parser<http::empty_body>> parser_;
  Reply reply_;
  std::array<char, 4096> rest_{};
  size_t lingered_bytes_ = 0;
};

class Listener final : public AdminServer {
 public:
  Listener(const AdminOptions& options, AdminContent content)
      : endpoint_{options, std::move(content)} {}

  Status Listen(ListenAddress address) {
    error_code error;
    const auto host = asio::ip::make_address(address.host, error);
    const tcp::endpoint endpoint(host, address.port);
    const auto then = [&error](auto step) {
      if (!error) error = step();
    };
    then([&] { return acceptor_.open(endpoint.protocol(), error); });
    then([&] { return acceptor_.set_option(tcp::acceptor::reuse_address(true), error); });
    if (address.is_v6) then([&] { return acceptor_.set_option(asio::ip::v6_only(true), error); });
    then([&] { return acceptor_.bind(endpoint, error); });
    then([&] { return acceptor_.listen(asio::socket_base::max_listen_connections, error); });
    uint16_t chosen_port = 0;
    if (!error) chosen_port = acceptor_.local_endpoint(error).port();
    if (error) {
      return MakeError(Code::kInvalidArgument, "cannot listen on " + address.ToString() + ": " +
                                                   error.message() + "; give another " +
                                                   endpoint_.options.flag);
    }
    address.port = chosen_port;
    address_ = address.ToString();
    return Ok();
  }

  Status Run() {
    Accept();
    BOOST_OUTCOME_TRY(thread, StartThread("serve metrics and state", [this] {
                        sigset_t all;
                        sigfillset(&all);
                        pthread_sigmask(SIG_BLOCK, &all, nullptr);
                        io_.run();
                      }));
    thread_ = std::move(thread);
    return Ok();
  }

  ~Listener() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!error) {
        Serve(std::move(socket));
        Accept();
        return;
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code) { Accept(); });
    });
  }

  void Serve(tcp::socket socket) {
    const size_t most = endpoint_.options.max_connections;
    if (connections_ >= 2 * most) return;
    // Destroyed with the connection, which is destroyed with `io_` at the latest.
    const std::shared_ptr<void> ticket(&++connections_, [](size_t* count) { --*count; });
    const auto connection = std::make_shared<Connection>(std::move(socket), endpoint_, ticket);
    if (connections_ > most) {
      connection->Refuse("too many connections; try again later");
    } else {
      connection->Read();
    }
  }

  const Endpoint endpoint_;
  size_t connections_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::thread thread_;
};

}  // namespace

Status CheckAdminAddress(std::string_view address, bool for_other_machines) {
  BOOST_OUTCOME_TRY(parsed, ParseListenAddress(address));
  if (for_other_machines || parsed.is_loopback()) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      std::string(address) +
          " may be reached from other machines, and whoever reaches it sees keys: give "
          "an address of the loopback interface, or --admin_for_other_machines, too");
}

Result<std::unique_ptr<AdminServer>> AdminServer::Start(const AdminOptions& options,
                                                        AdminContent content) {
  BOOST_OUTCOME_TRYV(CheckAdminAddress(options.address, options.for_other_machines));
  BOOST_OUTCOME_TRY(address, ParseListenAddress(options.address));
  auto listener = std::make_unique<Listener>(options, std::move(content));
  BOOST_OUTCOME_TRYV(listener->Listen(std::move(address)));
  BOOST_OUTCOME_TRYV(listener->Run());
  return std::unique_ptr<AdminServer>(std::move(listener));
}

}  // namespace gossamer
