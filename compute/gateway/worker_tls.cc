// The TLS handshakes of a worker's clients.
#include <string>

#include "compute/gateway/worker.h"

namespace gossamer::gateway {

bool Worker::ShakeHands(Client& client) {
  if (!handshakes_.MayStep()) {
    queues_.Add(client);
    return false;
  }
  switch (client.tls()->ShakeHands()) {
    case TlsSession::Handshake::kDone:
      client.may_read = true;  // OpenSSL may have read more than the handshake
      return true;
    case TlsSession::Handshake::kWaits: return false;
    case TlsSession::Handshake::kFailed: break;
  }
  // A probe that connects and leaves is no failure.
  if (const std::string& why = client.tls()->failure(); !why.empty()) {
    ++metrics_->numbers().tls_failures;
    Handshakes::LogFailure(client.fd(), why);
  }
  Drop(client);
  return false;
}

void Worker::DropLateHandshakes() {
  handshakes_.BeginRound();
  handshakes_.ForEachLate([this](int fd, uint64_t number) {
    const auto found = clients_.find(fd);
    if (found == clients_.end() || found->second->number() != number) return;
    Client& client = *found->second;
    if (!client.is_shaking_hands() || client.is_closing) return;
    ++metrics_->numbers().tls_failures;
    Handshakes::LogFailure(fd, "it has not ended in 10 s");
    Drop(client);
  });
}

}  // namespace gossamer::gateway
