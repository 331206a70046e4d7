#include "compute/gateway/handshakes.h"

#include <glog/logging.h>

namespace gossamer::gateway {

void Handshakes::Begin(const Client& client) {
  begun_.push_back({Clock::now() + kPatience, client.number(), client.fd()});
}

void Handshakes::LogFailure(std::string_view why) {
  LOG_EVERY_T(WARNING, 10)
      << "a client's TLS handshake has failed: " << why
      << " (gossamer_client_tls_failures_total counts them; one in 10 s is logged)";
}

}  // namespace gossamer::gateway
