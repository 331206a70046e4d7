#include "common/fabric/shm/handshake.h"

#include <fmt/core.h>
#include <poll.h>

#include <cerrno>
#include <thread>
#include <utility>

namespace gossamer::shm {
namespace {

constexpr std::chrono::milliseconds kWait{5};

Error Refused(const std::string& address, Welcome& welcome) {
  welcome.reason.back() = '\0';
  const bool known = welcome.code != 0 && welcome.code < kCodes;
  return MakeError(known ? static_cast<Code>(welcome.code) : Code::kInvalidArgument,
                   "memory server at " + address + ": " + welcome.reason.data());
}

}  // namespace

Handshake::Handshake(std::string address, const Hello& hello, uint32_t timeout_ms)
    : address_(std::move(address)),
      hello_(hello),
      timeout_(timeout_ms),
      deadline_(Clock::now() + timeout_) {}

Status Handshake::Connect() {
  BOOST_OUTCOME_TRY(socket, ConnectSocket(address_));
  if (!socket) return Ok();
  socket_ = std::move(socket);
  // A server that has already refused does not take the hello; its answer arrives all the same.
  SendMessage(socket_, std::as_bytes(std::span(&hello_, 1)), {}, false);
  return Ok();
}

Transfer Handshake::ReceiveWelcome(size_t* bytes) {
  const auto message = std::as_writable_bytes(std::span(&welcome_, 1));
  errno = 0;
  const Transfer received = ReceiveMessage(socket_, message, bytes, &descriptors_, false);
  // A server that refuses before it has read the hello resets the connection; its answer can still
  // be read.
  if (received != Transfer::kLost || errno != ECONNRESET) return received;
  return ReceiveMessage(socket_, message, bytes, &descriptors_, false);
}

Result<ConnectState> Handshake::Step() {
  size_t bytes = 0;
  Transfer received = Transfer::kWouldBlock;
  if (!socket_) {
    BOOST_OUTCOME_TRYV(Connect());
  }
  if (socket_) received = ReceiveWelcome(&bytes);
  if (received == Transfer::kWouldBlock && Clock::now() < deadline_) {
    return ConnectState::kUnderWay;
  }
  if (received == Transfer::kWouldBlock) {
    return MakeError(Code::kNodeUnreachable,
                     fmt::format("memory server at {} does not answer within {} ms", address_,
                                 timeout_.count()));
  }
  if (received == Transfer::kLost) {
    return MakeError(Code::kNodeUnreachable,
                     "memory server at " + address_ +
                         " ends while it is connected to, or is of another version");
  }
  if (bytes != sizeof welcome_ || welcome_.magic != kMagic) {
    return MakeError(Code::kInvalidArgument, "no memory server of this version at " + address_);
  }
  if (welcome_.accepted == 0) return Refused(address_, welcome_);
  return ConnectState::kDone;
}

void Handshake::Wait() const {
  if (!socket_) return std::this_thread::sleep_for(kWait);
  pollfd waiting{socket_.get(), POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(kWait.count()));
}

}  // namespace gossamer::shm
