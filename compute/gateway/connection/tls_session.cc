// A connection's encryption. Hot path: Receive and Send do not allocate, but for what OpenSSL does.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include "compute/gateway/connection/tls.h"

namespace gossamer::gateway {
namespace {

// Why the handshake of `session` has failed, from OpenSSL's list of this thread's errors.
std::string WhyItFailed(const SSL* session) {
  const unsigned long error = ERR_peek_error();
  const char* const reason = ERR_reason_error_string(error);
  std::string text = reason == nullptr ? "no reason given" : reason;
  switch (ERR_GET_REASON(error)) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH: return "it does not speak TLS";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW: return "it speaks no TLS that is as new as version 1.2";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return "it shows no certificate";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return std::string("its certificate is refused: ") +
             X509_verify_cert_error_string(SSL_get_verify_result(session));
    default: break;
  }
  // Reasons above this one are alerts of the peer.
  if (ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET) return "it refuses this server: " + text;
  return text;
}

int IntSize(size_t bytes) {
  return static_cast<int>(std::min<size_t>(bytes, std::numeric_limits<int>::max()));
}

}  // namespace

TlsSession::~TlsSession() {
  if (is_established_ && !is_broken_) {
    ERR_clear_error();
    SSL_shutdown(session_);  // sends close_notify; nobody waits for the peer's
  }
  ERR_clear_error();
  SSL_free(session_);
}

TlsSession::Handshake TlsSession::ShakeHands() {
  if (is_broken_) return Handshake::kFailed;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_);
  if (result == 1) {
    is_established_ = true;
    return Handshake::kDone;
  }
  const int error = SSL_get_error(session_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return Handshake::kWaits;
  is_broken_ = true;
  if (error == SSL_ERROR_SSL) {
    failure_ = WhyItFailed(session_);
  } else if (BIO_number_read(SSL_get_rbio(session_)) != 0) {
    failure_ = "it has left in the middle";
  }
  ERR_clear_error();
  return Handshake::kFailed;
}

TlsSession::Rest TlsSession::Receive(std::span<char> to, size_t& bytes) {
  assert(is_established());
  if (is_broken_) return Rest::kEnded;
  ERR_clear_error();
  size_t filled = 0;
  Rest rest = Rest::kMore;
  while (filled < to.size() && rest == Rest::kMore) {
    const int got = SSL_read(session_, to.data() + filled, IntSize(to.size() - filled));
    if (got > 0) {
      filled += static_cast<size_t>(got);
      continue;
    }
    const int error = SSL_get_error(session_, got);
    if (error == SSL_ERROR_WANT_READ) {
      rest = Rest::kNone;
    } else if (error == SSL_ERROR_WANT_WRITE) {
      break;  // there is more: it must be asked for once there is room for a message of the protocol
    } else {
      is_broken_ = error != SSL_ERROR_ZERO_RETURN;
      // What has arrived before the end comes first.
      rest = filled != 0 ? Rest::kMore : Rest::kEnded;
      break;
    }
  }
  ERR_clear_error();
  bytes = filled;
  return rest;
}

bool TlsSession::Send(std::string_view from, size_t& bytes) {
  assert(is_established());
  if (is_broken_) return from.empty();
  ERR_clear_error();
  while (bytes < from.size()) {
    const int done = SSL_write(session_, from.data() + bytes, IntSize(from.size() - bytes));
    if (done > 0) {
      bytes += static_cast<size_t>(done);
      continue;
    }
    const int error = SSL_get_error(session_, done);
    if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) break;
    is_broken_ = true;
    ERR_clear_error();
    return false;
  }
  return true;
}

}  // namespace gossamer::gateway
