// TLS for connections of clients, by OpenSSL: versions 1.2 and 1.3, without renegotiation.
//
// TlsServer has the certificate, and makes the sessions. A TlsSession is that of one connection: it
// reads and writes the connection's socket, which does not block. OpenSSL reads ahead: a session
// may hold bytes of which no event of the socket tells. So read until Receive says that there is
// nothing more.
//
// Requires (unchecked): the process ignores SIGPIPE.
// Thread-safety: TlsServer: all calls from any thread. TlsSession: none.
// Cost: a handshake takes 0.1 to 2 ms of the thread, by the kind of key. An idle session takes
// about 14 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

struct ssl_st;
struct ssl_ctx_st;

namespace gossamer::gateway {

// Files in PEM form.
struct TlsFiles {
  std::string certificate;  // the server's, then those of the authorities between it and the root
  std::string key;          // of the certificate, without a pass phrase
  std::string ca;  // if not empty: clients must show a certificate that one of these has signed
};

class TlsSession {
 public:
  ~TlsSession();  // tells the peer of the end, if it can
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class Handshake : uint8_t {
    kDone,
    kWaits,   // an event of the socket brings it on
    kFailed,  // `failure` says why
  };
  Handshake ShakeHands();
  bool is_established() const { return is_established_; }
  // Why the handshake has failed: "it does not speak TLS". Empty if the peer has left without a
  // word.
  const std::string& failure() const { return failure_; }

  enum class Rest : uint8_t {
    kMore,   // there may be more
    kNone,   // an event of the socket will tell of more
    kEnded,  // nothing comes any more
  };
  // Fills `to`, as far as bytes have arrived. Requires: is_established.
  Rest Receive(std::span<char> to, size_t& bytes);
  // Returns false if the connection is lost. Sends less than all if the socket takes no more: an
  // event tells of room. What was not sent must come first in the next call. Requires:
  // is_established.
  bool Send(std::string_view from, size_t& bytes);

 private:
  friend class TlsServer;
  explicit TlsSession(ssl_st* session) : session_(session) {}

  ssl_st* const session_;
  std::string failure_;
  bool is_established_ = false;
  bool is_broken_ = false;  // OpenSSL must not be asked again
};

class TlsServer {
 public:
  // Reads the files, and checks that the certificate can be used now. Warns if others may read the
  // key.
  // Errors: InvalidArgument: the flag and a sentence: "--tls_key_file: k.pem is not the key of the
  // certificate in c.pem".
  static Result<std::unique_ptr<TlsServer>> Load(const TlsFiles& files);

  // Reads the files again, for sessions to come. What was wrong changes nothing. Errors: those of
  // Load.
  Status Reload();

  // Of a connection that was accepted on `socket`, which outlives it. Null if there is no memory.
  std::unique_ptr<TlsSession> NewSession(int socket) const;

 private:
  explicit TlsServer(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  mutable std::mutex mutex_;  // for what follows
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace gossamer::gateway
