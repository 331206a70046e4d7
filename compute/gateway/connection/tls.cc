// Hot path: Receive and Send do not allocate, but for what OpenSSL does.
#include "compute/gateway/connection/tls.h"

#include <glog/logging.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>
#include <vector>

#include "common/text/text_file.h"

namespace gossamer::gateway {
namespace {

struct Freer {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename Type>
using Owned = std::unique_ptr<Type, Freer>;
using Certificates = std::vector<Owned<X509>>;

constexpr const char* kCertificateFlag = "--tls_cert_file: ";
constexpr const char* kKeyFlag = "--tls_key_file: ";
constexpr const char* kCaFlag = "--tls_ca_file: ";

Error Wrong(const char* flag, const std::string& sentence) {
  ERR_clear_error();
  return MakeError(Code::kInvalidArgument, flag + sentence);
}

// What OpenSSL says of its last failure: "ee key too small".
std::string LastReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "no reason given" : reason;
}

Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Asks for no pass phrase: a server has nobody who would type one.
int NoPassPhrase(char* /*buffer*/, int /*size*/, int /*is_new*/, void* /*data*/) { return -1; }

// At least one certificate.
Result<Certificates> ReadCertificates(const char* flag, const std::string& path) {
  const Result<TextFile> file = ReadTextFile(path);
  if (!file) return Wrong(flag, file.error().message);
  const Owned<BIO> reader = Reader(file.value().text);
  Certificates found;
  ERR_clear_error();
  while (X509* const one = PEM_read_bio_X509(reader.get(), nullptr, NoPassPhrase, nullptr)) {
    found.emplace_back(one);
  }
  const bool is_at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (is_at_end && !found.empty()) {
    ERR_clear_error();
    return found;
  }
  return Wrong(flag, is_at_end ? path +
                                     " has no certificate in PEM form: give a file with -----BEGIN "
                                     "CERTIFICATE-----"
                               : path + " has a damaged certificate (" + LastReason() +
                                     "): write the file again");
}

std::string DateOf(const ASN1_TIME* time) {
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(writer.get(), time);
  char* text = nullptr;
  const auto bytes = BIO_get_mem_data(writer.get(), &text);
  return {text, static_cast<size_t>(bytes)};
}

Status UseCertificate(SSL_CTX* context, const std::string& path) {
  BOOST_OUTCOME_TRY(chain, ReadCertificates(kCertificateFlag, path));
  X509* const own = chain.front().get();
  const ASN1_TIME* const end = X509_get0_notAfter(own);
  const ASN1_TIME* const begin = X509_get0_notBefore(own);
  if (X509_cmp_current_time(end) < 0) {
    return Wrong(kCertificateFlag,
                 "the certificate in " + path + " expired on " + DateOf(end) + ": have it renewed");
  }
  if (X509_cmp_current_time(begin) > 0) {
    return Wrong(kCertificateFlag, "the certificate in " + path + " is good from " + DateOf(begin) +
                                       " on only: wait for that, or set the clock");
  }
  bool is_used = SSL_CTX_use_certificate(context, own) == 1;
  for (size_t i = 1; is_used && i < chain.size(); ++i) {
    is_used = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  }
  if (is_used) return Ok();
  return Wrong(kCertificateFlag, "OpenSSL refuses the certificate in " + path + " (" +
                                     LastReason() + "): give another one");
}

Status UseKey(SSL_CTX* context, const TlsFiles& files) {
  const Result<TextFile> file = ReadTextFile(files.key);
  if (!file) return Wrong(kKeyFlag, file.error().message);
  const Owned<BIO> reader = Reader(file.value().text);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassPhrase, nullptr));
  if (!key) {
    return Wrong(kKeyFlag, files.key +
                               " has no private key in PEM form without a pass phrase: "
                               "make one with `openssl pkey`");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Wrong(kKeyFlag, files.key + " is not the key of the certificate in " +
                               files.certificate + ": give the one that belongs to it");
  }
  if ((file.value().mode & (S_IRWXG | S_IRWXO)) != 0) {
    LOG(WARNING) << "others may read the key in " << files.key
                 << ": take that from them (chmod 0600)";
  }
  return Ok();
}

Status AskForCertificates(SSL_CTX* context, const std::string& path) {
  BOOST_OUTCOME_TRY(authorities, ReadCertificates(kCaFlag, path));
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const Owned<X509>& one : authorities) {
    if (X509_STORE_add_cert(store, one.get()) != 1 ||
        SSL_CTX_add_client_CA(context, one.get()) != 1) {
      return Wrong(kCaFlag, "OpenSSL refuses a certificate in " + path + " (" + LastReason() +
                                "): give another one");
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return Ok();
}

Result<std::shared_ptr<SSL_CTX>> MakeContext(const TlsFiles& files) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return Wrong("--tls: ", "OpenSSL cannot be used (" + LastReason() + ")");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Each request has its length or its end of line in it, so that nobody gains by cutting a
  // connection: an end without close_notify, as many clients have it, is an end.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Partial writes may go on from another address, as buffers of answers grow. Idle connections
  // keep no buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context.get(), 1);
  // Clients keep their sessions in tickets: a store of sessions would be memory and a lock that all
  // workers share.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  constexpr std::string_view kName = "gossamer";
  SSL_CTX_set_session_id_context(
      context.get(), reinterpret_cast<const unsigned char*>(kName.data()), kName.size());
  BOOST_OUTCOME_TRYV(UseCertificate(context.get(), files.certificate));
  BOOST_OUTCOME_TRYV(UseKey(context.get(), files));
  if (!files.ca.empty()) {
    BOOST_OUTCOME_TRYV(AskForCertificates(context.get(), files.ca));
  }
  return context;
}

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

Result<std::unique_ptr<TlsServer>> TlsServer::Load(const TlsFiles& files) {
  std::unique_ptr<TlsServer> server(new TlsServer(files));
  BOOST_OUTCOME_TRYV(server->Reload());
  return server;
}

Status TlsServer::Reload() {
  BOOST_OUTCOME_TRY(context, MakeContext(files_));
  const std::lock_guard guard(mutex_);
  context_ = std::move(context);
  return Ok();
}

std::unique_ptr<TlsSession> TlsServer::NewSession(int socket) const {
  std::shared_ptr<SSL_CTX> context;
  {
    const std::lock_guard guard(mutex_);
    context = context_;
  }
  SSL* const made = SSL_new(context.get());  // keeps the context
  if (made == nullptr) return nullptr;
  std::unique_ptr<TlsSession> session(new TlsSession(made));
  if (SSL_set_fd(made, socket) != 1) return nullptr;
  SSL_set_accept_state(made);
  // A long answer is several records, each a packet: the last one must not wait for the peer's word
  // on the others.
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return session;
}

// ---- A connection

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
