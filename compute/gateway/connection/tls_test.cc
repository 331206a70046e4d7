// Sessions of a TlsServer, with a client of OpenSSL at the other end of a pair of sockets, and a
// gateway that serves them.
#include "compute/gateway/connection/tls.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "common/unique_fd.h"

namespace gossamer::gateway {
namespace {

// A certificate that its own key has signed, in files. `days`: how long it is good.
struct SelfSigned {
  explicit SelfSigned(const std::string& stem, int days = 1)
      : files{stem + ".pem", stem + ".key", {}} {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * 86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME* const name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    if (FILE* const file = fopen(files.certificate.c_str(), "w")) {
      PEM_write_X509(file, certificate);
      fclose(file);
    }
    if (FILE* const file = fopen(files.key.c_str(), "w")) {
      PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
      fclose(file);
      chmod(files.key.c_str(), 0600);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~SelfSigned() {
    unlink(files.certificate.c_str());
    unlink(files.key.c_str());
  }
  SelfSigned(const SelfSigned&) = delete;
  SelfSigned& operator=(const SelfSigned&) = delete;

  const TlsFiles files;
};

std::string TestPath(const std::string& name) {
  return testing::TempDir() + "tls_" + std::to_string(getpid()) + "_" + name;
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    std::signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    server_socket_ = UniqueFd(pair[0]);
    client_socket_ = UniqueFd(pair[1]);
    server_ = std::move(TlsServer::Load(own_.files).value());
    session_ = server_->NewSession(server_socket_.get());
    client_context_ = SSL_CTX_new(TLS_client_method());
    client_ = SSL_new(client_context_);
    SSL_set_fd(client_, client_socket_.get());
    SSL_set_connect_state(client_);
  }
  ~TlsTest() override {
    SSL_free(client_);
    SSL_CTX_free(client_context_);
  }

  void ShakeHands() {
    for (int i = 0; i < 10 && !session_->is_established(); ++i) {
      SSL_do_handshake(client_);
      ASSERT_NE(session_->ShakeHands(), TlsSession::Handshake::kFailed) << session_->failure();
    }
    ASSERT_EQ(SSL_do_handshake(client_), 1);
    ASSERT_TRUE(session_->is_established());
  }
  // What one call of Receive with room for `room` bytes brings.
  std::string Receive(size_t room, TlsSession::Rest& rest) {
    std::string text(room, '\0');
    size_t bytes = 0;
    rest = session_->Receive(text, bytes);
    text.resize(bytes);
    return text;
  }

  const SelfSigned own_{TestPath("own")};
  UniqueFd server_socket_;
  UniqueFd client_socket_;
  std::unique_ptr<TlsServer> server_;
  std::unique_ptr<TlsSession> session_;
  SSL_CTX* client_context_ = nullptr;
  SSL* client_ = nullptr;
};

TEST_F(TlsTest, SaysThatThereIsMoreUntilItHasAskedTheSocket) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  // One record, of which the session takes all from the socket at once.
  ASSERT_EQ(SSL_write(client_, "0123456789", 10), 10);
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(4, rest), "0123");
  EXPECT_EQ(rest, TlsSession::Rest::kMore);
  EXPECT_EQ(Receive(4, rest), "4567");
  EXPECT_EQ(rest, TlsSession::Rest::kMore);
  EXPECT_EQ(Receive(4, rest), "89");
  EXPECT_EQ(rest, TlsSession::Rest::kNone);
  EXPECT_EQ(Receive(4, rest), "");
  EXPECT_EQ(rest, TlsSession::Rest::kNone);
}

TEST_F(TlsTest, FillsOneBufferFromManyRecords) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  for (int i = 0; i < 5; ++i) ASSERT_EQ(SSL_write(client_, "ab", 2), 2);
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(100, rest), "ababababab");
  EXPECT_EQ(rest, TlsSession::Rest::kNone);
}

TEST_F(TlsTest, WhatCameBeforeTheEndComesFirst) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  ASSERT_EQ(SSL_write(client_, "last", 4), 4);
  // Without close_notify, as many clients do.
  client_socket_ = UniqueFd();
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(100, rest), "last");
  EXPECT_EQ(rest, TlsSession::Rest::kMore);
  EXPECT_EQ(Receive(100, rest), "");
  EXPECT_EQ(rest, TlsSession::Rest::kEnded);
}

TEST_F(TlsTest, StillSendsAfterTheClientHasNoMoreRequests) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  SSL_shutdown(client_);
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(100, rest), "");
  EXPECT_EQ(rest, TlsSession::Rest::kEnded);
  size_t sent = 0;
  EXPECT_TRUE(session_->Send("answer", sent));
  EXPECT_EQ(sent, 6U);
  std::array<char, 10> got{};
  EXPECT_EQ(SSL_read(client_, got.data(), got.size()), 6);
  // And says that it ends itself.
  session_.reset();
  EXPECT_EQ(SSL_read(client_, got.data(), got.size()), 0);
  EXPECT_EQ(SSL_get_error(client_, 0), SSL_ERROR_ZERO_RETURN);
}

TEST_F(TlsTest, GoesOnWithWhatTheSocketDidNotTake) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  std::string answers(4 << 20, '\0');
  for (size_t i = 0; i < answers.size(); ++i) answers[i] = static_cast<char>(i * 7 / 3);
  size_t sent = 0;
  std::string got;
  while (got.size() < answers.size()) {
    // From another address each time, as the buffer of a client that grows.
    const std::string moved = answers.substr(sent);
    size_t bytes = 0;
    ASSERT_TRUE(session_->Send(moved, bytes));
    sent += bytes;
    std::string piece(100'000, '\0');
    const int read = SSL_read(client_, piece.data(), static_cast<int>(piece.size()));
    if (read > 0) got.append(piece, 0, static_cast<size_t>(read));
  }
  EXPECT_EQ(sent, answers.size());
  EXPECT_TRUE(got == answers);
}

TEST_F(TlsTest, ChangesKeysWhenTheClientAsks) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  TlsSession::Rest rest{};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(SSL_key_update(client_, SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_write(client_, "x", 1), 1);
    EXPECT_EQ(Receive(10, rest), "x");
    size_t sent = 0;
    EXPECT_TRUE(session_->Send("y", sent));
    char got = 0;
    EXPECT_EQ(SSL_read(client_, &got, 1), 1);
    EXPECT_EQ(got, 'y');
  }
}

TEST_F(TlsTest, IsBrokenByBytesThatAreNoRecord) {
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  const std::string noise(100, 'n');
  ASSERT_GT(write(client_socket_.get(), noise.data(), noise.size()), 0);
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(100, rest), "");
  EXPECT_EQ(rest, TlsSession::Rest::kEnded);
  size_t sent = 0;
  EXPECT_FALSE(session_->Send("answer", sent));
}

TEST_F(TlsTest, SaysWhyAHandshakeFailed) {
  const std::string plain = "*1\r\n$4\r\nPING\r\n";
  ASSERT_GT(write(client_socket_.get(), plain.data(), plain.size()), 0);
  EXPECT_EQ(session_->ShakeHands(), TlsSession::Handshake::kFailed);
  EXPECT_EQ(session_->failure(), "it does not speak TLS");
  EXPECT_EQ(session_->ShakeHands(), TlsSession::Handshake::kFailed);
}

TEST_F(TlsTest, RefusesVersionsOfOld) {
  SSL_set_security_level(client_, 0);
  SSL_set_min_proto_version(client_, TLS1_VERSION);
  SSL_set_max_proto_version(client_, TLS1_1_VERSION);
  SSL_do_handshake(client_);
  EXPECT_EQ(session_->ShakeHands(), TlsSession::Handshake::kFailed);
  EXPECT_EQ(session_->failure(), "it speaks no TLS that is as new as version 1.2");
}

TEST_F(TlsTest, DoesNotRenegotiate) {
  SSL_set_max_proto_version(client_, TLS1_2_VERSION);
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  ASSERT_EQ(SSL_renegotiate(client_), 1);
  SSL_do_handshake(client_);
  TlsSession::Rest rest{};
  EXPECT_EQ(Receive(100, rest), "");
  EXPECT_LE(SSL_do_handshake(client_), 0);
}

TEST_F(TlsTest, AProbeThatLeavesIsNoFailure) {
  client_socket_ = UniqueFd();
  EXPECT_EQ(session_->ShakeHands(), TlsSession::Handshake::kFailed);
  EXPECT_EQ(session_->failure(), "");
}

TEST_F(TlsTest, LeavingInTheMiddleIsOne) {
  SSL_do_handshake(client_);
  ASSERT_EQ(session_->ShakeHands(), TlsSession::Handshake::kWaits);
  client_socket_ = UniqueFd();
  EXPECT_EQ(session_->ShakeHands(), TlsSession::Handshake::kFailed);
  EXPECT_EQ(session_->failure(), "it has left in the middle");
}

TEST_F(TlsTest, SessionsOutliveAReload) {
  ASSERT_TRUE(server_->Reload());
  ASSERT_NO_FATAL_FAILURE(ShakeHands());
  unlink(own_.files.key.c_str());
  EXPECT_FALSE(server_->Reload());
  EXPECT_NE(server_->NewSession(server_socket_.get()), nullptr);
}

TEST_F(TlsTest, LoadsNothingThatCannotBeUsed) {
  const SelfSigned past(TestPath("past"), -1);
  const auto expired = TlsServer::Load(past.files);
  ASSERT_FALSE(expired);
  EXPECT_NE(expired.error().message.find("expired on"), std::string::npos);
  const SelfSigned other(TestPath("other"));
  TlsFiles files = own_.files;
  files.key = other.files.key;
  const auto mixed = TlsServer::Load(files);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().message, "--tls_key_file: " + files.key +
                                       " is not the key of the certificate in " +
                                       files.certificate + ": give the one that belongs to it");
  files = own_.files;
  files.ca = own_.files.key;
  const auto no_authority = TlsServer::Load(files);
  ASSERT_FALSE(no_authority);
  EXPECT_TRUE(no_authority.error().message.starts_with("--tls_ca_file: "))
      << no_authority.error().message;
}

}  // namespace
}  // namespace gossamer::gateway
