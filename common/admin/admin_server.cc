#include "common/admin/admin_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <thread>
#include <utility>

#include "common/admin/http_connection.h"
#include "common/admin/listen_address.h"
#include "common/start_thread.h"

namespace gossamer {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// After an accept that failed, such as for lack of descriptors. The next one may fail at once, too.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class AdminServer::Listener {
 public:
  Listener(const AdminOptions& options, AdminContent content)
      : content_(std::move(content)),
        timeout_(options.timeout),
        max_connections_(options.max_connections),
        flag_(options.flag) {}

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
                                                   error.message() + "; give another " + flag_);
    }
    address.port = chosen_port;
    address_text_ = address.ToString();
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

  ~Listener() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  const std::string& address() const { return address_text_; }

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
    if (connections_ >= 2 * max_connections_) return;
    // Destroyed with the connection, which is destroyed with `io_` at the latest.
    const std::shared_ptr<void> ticket(&++connections_, [](size_t* count) { --*count; });
    if (connections_ > max_connections_) {
      RefuseConnection(std::move(socket), "too many connections; try again later", ticket);
    } else {
      ServeConnection(std::move(socket), content_, timeout_, ticket);
    }
  }

  const AdminContent content_;
  const std::chrono::milliseconds timeout_;
  const size_t max_connections_;
  const std::string flag_;
  size_t connections_ = 0;
  std::string address_text_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::thread thread_;
};

Status CheckAdminAddress(std::string_view address, bool for_other_machines) {
  BOOST_OUTCOME_TRY(parsed, ParseListenAddress(address));
  if (for_other_machines || parsed.is_loopback()) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      std::string(address) +
          " may be reached from other machines, and whoever reaches it sees keys: give "
          "an address of the loopback interface, or --admin_for_other_machines, too");
}

AdminServer::AdminServer(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}
AdminServer::~AdminServer() = default;

const std::string& AdminServer::address() const { return listener_->address(); }

Result<std::unique_ptr<AdminServer>> AdminServer::Start(const AdminOptions& options,
                                                        AdminContent content) {
  BOOST_OUTCOME_TRYV(CheckAdminAddress(options.address, options.for_other_machines));
  BOOST_OUTCOME_TRY(address, ParseListenAddress(options.address));
  content.hosts = options.hosts;
  auto listener = std::make_unique<Listener>(options, std::move(content));
  BOOST_OUTCOME_TRYV(listener->Listen(std::move(address)));
  BOOST_OUTCOME_TRYV(listener->Run());
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(listener)));
}

}  // namespace gossamer
