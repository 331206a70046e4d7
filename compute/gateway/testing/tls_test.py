#!/usr/bin/env python3
"""gossamer-compute with TLS and users, as its users run it: tls_test.py DIRECTORY_OF_PROGRAMS.

The certificates are made here, by the program openssl. Status 77 without it.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from compute_server import ComputeServerTest, connect, encode

GET_REPLY = b"$5\r\nvalue\r\n"


class Certificates:
    """An authority, and what it has signed, as NAME.pem and NAME.key."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.make_authority("ca")
        self.make("server", "ca")

    def __getattr__(self, name):
        """The path of "server_pem", "server_key", …"""
        stem, _, kind = name.rpartition("_")
        return self.directory / f"{stem}.{kind}"

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.directory)

    def make_authority(self, name):
        self.openssl("req", "-x509", *self.new_key(name), "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.pem")

    def make(self, name, authority, days=2):
        self.openssl("req", *self.new_key(name), "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial",
                     "-copy_extensions", "copy", "-days", str(days), "-out", f"{name}.pem")

    def new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]

    def client(self, authority="ca", own=None):
        context = ssl.create_default_context(cafile=self.directory / f"{authority}.pem")
        context.check_hostname = False
        if own:
            context.load_cert_chain(self.directory / f"{own}.pem", self.directory / f"{own}.key")
        return context


class TlsTest(ComputeServerTest):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="gossamer_tls_")
        cls.addClassCleanup(directory.cleanup)
        cls.certificates = Certificates(directory.name)

    def flags(self, name="server"):
        return [f"--tls_cert_file={self.certificates.directory}/{name}.pem", f"--tls_key_file={self.certificates.directory}/{name}.key"]

    def start_tls(self, *flags, name="server"):
        """Returns the process, its address with TLS, and the one without."""
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--tls=127.0.0.1:0", *self.flags(name), *flags)
        # What it logs must not fill a pipe, and is read once the process has ended.
        process.log = []
        process.reader = threading.Thread(target=lambda: process.log.extend(process.stderr))
        process.reader.start()
        words = line.replace(",", " ").split()
        return process, words[words.index("tls") + 1], words[words.index("redis") + 1]

    def end(self, process):
        if not hasattr(process, "log"):
            super().end(process)
            return
        process.kill()
        process.wait()
        process.reader.join()
        process.stdout.close()
        process.stderr.close()

    def logged(self, process, text):
        """Waits for a line of the log."""
        deadline = time.monotonic() + 120
        while not any(text in line for line in list(process.log)):
            self.assertLess(time.monotonic(), deadline, (text, process.log))
            time.sleep(0.01)

    def tls_client(self, address, **context):
        return self.client(address, self.certificates.client(**context))

    def info(self, client, section, field):
        lines = client.ask("INFO", section).decode().split("\r\n")
        return next(line.split(":")[1] for line in lines if line.startswith(field + ":"))

    def ended(self, connection):
        """Whether nothing but the end comes; a reset is an end, too."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            return not any(iter(lambda: connection.recv(65536), b""))
        return True

    # ---- Serving

    def test_both_versions_and_plain_clients_see_one_store(self):
        self.start_memory()
        _, address, plain = self.start_tls("--threads=2")
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            context = self.certificates.client()
            context.minimum_version = context.maximum_version = version
            client = self.client(address, context)
            self.assertEqual(client.ask("SET", "k", version.name), b"+OK")
            self.assertEqual(self.client(plain).ask("GET", "k"), version.name.encode())

    def test_tls_alone(self):
        self.start_memory()
        _, line = self.start("gossamer-compute", "--redis=", "--tls=127.0.0.1:0,[::1]:0", *self.flags())
        self.assertNotIn("redis", line)
        for address in line.split("tls ")[1].strip().split(","):
            client = self.client(address.replace("[::1]", "::1"), self.certificates.client())
            self.assertEqual(client.ask("PING"), b"+PONG")

    def test_redis_cli(self):
        has_tls = shutil.which("redis-cli") and b"--tls" in subprocess.run(
            ["redis-cli", "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        if not has_tls:
            self.skipTest("no redis-cli with TLS")
        self.start_memory()
        users = self.directory / "users"
        users.write_text("anna secret\n")
        _, address, _ = self.start_tls(f"--users_file={users}")
        told = subprocess.run(
            ["redis-cli", "-p", address.split(":")[1], "--tls", "--cacert", self.certificates.ca_pem, "--user", "anna", "--pass", "secret",
             "--no-auth-warning", "SET", "k", "v"], capture_output=True, text=True, timeout=60)
        self.assertEqual(told.stdout, "OK\n", told.stderr)

    def test_pipelines_and_pieces(self):
        self.start_memory()
        _, address, _ = self.start_tls("--threads=2")
        client = self.tls_client(address)
        self.assertEqual(client.ask("SET", "k", "value"), b"+OK")
        requests = encode("GET", "k") * 10_000
        # At once: the server has more in its session than the socket tells of.
        sender = threading.Thread(target=client.socket.sendall, args=[requests])
        sender.start()
        self.assertEqual(client.file.read(10_000 * len(GET_REPLY)), 10_000 * GET_REPLY)
        sender.join()
        # Byte by byte, each in a record of its own.
        for byte in encode("GET", "k"):
            client.socket.sendall(bytes([byte]))
        self.assertEqual(client.reply(), b"value")
        # Longer than many records.
        value = os.urandom(1_000_000)
        self.assertEqual(client.ask("SET", "long", value), b"+OK")
        self.assertEqual(client.ask("GET", "long"), value)

    def test_pieces_of_records(self):
        """A record that arrives in pieces, and two requests in one, by a client with the session in memory."""
        self.start_memory()
        _, address, _ = self.start_tls()
        to_client, from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self.certificates.client().wrap_bio(to_client, from_client)
        with connect(address) as connection:

            def send(step):
                for byte in from_client.read():
                    connection.sendall(bytes([byte]))
                    if step:
                        time.sleep(step)

            def until_done(function, *arguments):
                while True:
                    try:
                        return function(*arguments)
                    except ssl.SSLWantReadError:
                        send(0)
                        to_client.write(connection.recv(65536))

            until_done(session.do_handshake)
            session.write(encode("PING") + encode("PING"))
            send(0.001)
            replies = b""
            while len(replies) < 14:
                replies += until_done(session.read, 100)
            self.assertEqual(replies, b"+PONG\r\n+PONG\r\n")

    def test_answers_and_says_goodbye_when_a_client_has_no_more_requests(self):
        self.start_memory()
        process, address, _ = self.start_tls()
        client = self.tls_client(address)
        client.socket.sendall(encode("PING") + encode("QUIT"))
        # An end without close_notify would be an SSLEOFError here.
        client.socket.suppress_ragged_eofs = False
        self.assertEqual(client.file.read(), b"+PONG\r\n+OK\r\n")
        other = self.tls_client(address)
        self.assertEqual(other.ask("PING"), b"+PONG")
        other.socket.suppress_ragged_eofs = False
        process.send_signal(signal.SIGTERM)
        self.assertEqual(other.file.read(), b"")
        self.assertEqual(process.wait(timeout=120), 0)

    def test_a_slow_reader_takes_bounded_memory(self):
        self.start_memory()
        process, address, _ = self.start_tls()
        client = self.tls_client(address)
        value = b"v" * 100_000
        self.assertEqual(client.ask("SET", "k", value), b"+OK")
        before = self.resident(process)
        # Answers of 800 MB, of which at most the half may ever be there. A sanitizer keeps what was freed for a while.
        sender = threading.Thread(target=client.socket.sendall, args=[encode("GET", "k") * 8000])
        sender.start()
        # Another client is served meanwhile, and tells when the server has done what it can.
        other = self.tls_client(address)
        for _ in range(200):
            self.assertEqual(other.ask("PING"), b"+PONG")
            time.sleep(0.005)
        self.assertLess(self.resident(process) - before, 400 << 20)
        reply = b"$100000\r\n" + value + b"\r\n"
        for _ in range(8000):
            self.assertEqual(client.file.read(len(reply)), reply)
        sender.join()
        self.assertLess(self.resident(process) - before, 400 << 20)

    def resident(self, process):
        return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # ---- Refusing

    def test_a_plain_client_of_the_tls_port_ends_and_the_other_way_round(self):
        self.start_memory()
        process, address, plain = self.start_tls()
        for request in encode("PING"), b"PING\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 100:
            with self.subTest(request=request), connect(address) as connection:
                connection.sendall(request)
                connection.settimeout(120)
                with contextlib.suppress(ConnectionError):
                    self.assertNotIn(b"PONG", b"".join(iter(lambda: connection.recv(65536), b"")))
        self.logged(process, "the TLS handshake of 127.0.0.1 has failed: it does not speak TLS")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.tls_client(plain)
        self.assertEqual(self.client(plain).ask("PING"), b"+PONG")
        self.assertEqual(self.tls_client(address).ask("PING"), b"+PONG")

    def test_a_client_refuses_another_authority(self):
        self.certificates.make_authority("other")
        self.start_memory()
        process, address, plain = self.start_tls()
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.tls_client(address, authority="other")
        self.logged(process, "it refuses this server")
        self.assertEqual(self.info(self.client(plain), "clients", "connected_clients"), "1")

    def test_clients_show_certificates(self):
        certificates = self.certificates
        certificates.make_authority("stranger")
        certificates.make("friend", "ca")
        certificates.make("foe", "stranger")
        certificates.make("late", "ca", days=-1)
        self.start_memory()
        for name, sentence in ((None, "it shows no certificate"), ("foe", "its certificate is refused: "),
                               ("late", "its certificate is refused: certificate has expired")):
            process, address, _ = self.start_tls(f"--tls_ca_file={certificates.ca_pem}")
            with self.subTest(name=name):
                # By TLS 1.3 the client learns of it with the first answer.
                with self.assertRaises((ssl.SSLError, ConnectionError)):
                    self.tls_client(address, own=name).ask("PING")
                self.logged(process, sentence)
                context = certificates.client(own="friend")
                self.assertEqual(self.client(address, context).ask("PING"), b"+PONG")

    def test_a_session_goes_on_in_another_connection(self):
        """With certificates of clients, too, which OpenSSL allows only with a context of its own."""
        self.certificates.make("friend", "ca")
        self.start_memory()
        _, address, _ = self.start_tls(f"--tls_ca_file={self.certificates.ca_pem}", "--threads=2")
        context = self.certificates.client(own="friend")
        client = self.client(address, context)
        self.assertEqual(client.ask("PING"), b"+PONG")
        with context.wrap_socket(connect(address), session=client.socket.session) as again:
            self.assertTrue(again.session_reused)
            again.sendall(encode("PING"))
            self.assertEqual(again.recv(100), b"+PONG\r\n")

    def test_handshakes_that_end_halfway_leave_nothing(self):
        self.start_memory()
        process, address, plain = self.start_tls("--threads=2", "--max_clients=100")
        witness = self.client(plain)
        self.assertEqual(witness.ask("PING"), b"+PONG")
        descriptors = pathlib.Path(f"/proc/{process.pid}/fd")
        hello = self.client_hello()

        def look():
            return len(list(descriptors.iterdir())), self.info(witness, "clients", "connected_clients")

        # The server's first look at its store leaves a connection for later ones: it comes during the first handshakes, of
        # which there are as many as of those that count. Where nothing changes for a second, all have ended.
        self.leave_handshakes(address, hello, range(1500), witness)
        looks = [None] * 20
        deadline = time.monotonic() + 120
        while (set(looks) != {looks[0]} or looks[0] is None or looks[0][1] != "1") and time.monotonic() < deadline:
            time.sleep(0.05)
            looks = [*looks[1:], look()]
        before = looks[-1]
        self.leave_handshakes(address, hello, range(1500, 3000), witness)
        # Connections that wait to be accepted have no descriptor yet: both counts must settle.
        left = None
        deadline = time.monotonic() + 120
        while left != before and time.monotonic() < deadline:
            time.sleep(0.05)
            left = look()
        self.assertEqual(left, (before[0], "1"))
        self.assertEqual(self.tls_client(address).ask("PING"), b"+PONG")

    def leave_handshakes(self, address, hello, numbers, witness):
        """Connects once for each number, sends so much of a hello, and leaves; meanwhile the witness is served."""
        for number in numbers:
            try:
                with connect(address) as connection:
                    connection.sendall(hello[: number % (len(hello) + 1)])
                    if number % 3 == 0:  # a reset instead of an end
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except ConnectionError:
                pass  # there were 100 at that moment
            if number % 500 == 0:
                self.assertEqual(witness.ask("PING"), b"+PONG")

    def client_hello(self):
        sent = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            self.certificates.client().wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
        return sent.read()

    def test_a_handshake_that_does_not_go_on_gives_back_its_place(self):
        self.start_memory()
        process, address, plain = self.start_tls("--max_clients=2")
        with connect(address) as silent:
            silent.sendall(self.client_hello()[:50])
            witness = self.client(plain)
            self.assertEqual(self.info(witness, "clients", "connected_clients"), "2")
            with connect(address) as refused:
                self.assertTrue(self.ended(refused))
            silent.settimeout(60)
            self.assertTrue(self.ended(silent))
        self.logged(process, "it has not ended in 10 s")
        self.assertEqual(self.tls_client(address).ask("PING"), b"+PONG")

    def test_certificates_are_read_again_on_sighup(self):
        certificates = self.certificates
        certificates.make_authority("next")
        certificates.make("changed", "ca")
        self.start_memory()
        process, address, _ = self.start_tls(name="changed")
        client = self.tls_client(address)
        good = certificates.changed_pem.read_bytes()
        certificates.changed_pem.write_text("no certificate")
        process.send_signal(signal.SIGHUP)
        self.logged(process, "the certificate stays as it was: --tls_cert_file: ")
        self.assertEqual(self.tls_client(address).ask("PING"), b"+PONG")
        certificates.changed_pem.write_bytes(good)
        certificates.make("changed", "next")
        process.send_signal(signal.SIGHUP)
        self.logged(process, "read the certificate again")
        self.assertEqual(self.tls_client(address, authority="next").ask("PING"), b"+PONG")
        self.assertEqual(client.ask("PING"), b"+PONG")

    def test_says_what_is_wrong_before_it_listens(self):
        certificates = self.certificates
        certificates.make_authority("lone")
        certificates.make("past", "ca", days=-1)
        (certificates.directory / "text.pem").write_text("text")
        good, key = certificates.server_pem, certificates.server_key
        secret = self.directory / "secret"
        secret.write_text("secret\n")
        users = self.directory / "users"
        self.start_memory()
        for flags, sentence in (
            ([], "--tls: give --tls_cert_file and --tls_key_file, too"),
            ([f"--tls_cert_file={self.directory}/none", f"--tls_key_file={key}"], "--tls_cert_file: cannot read"),
            ([f"--tls_cert_file={certificates.text_pem}", f"--tls_key_file={key}"], "has no certificate in PEM form"),
            ([f"--tls_cert_file={certificates.past_pem}", f"--tls_key_file={certificates.past_key}"], "expired on"),
            ([f"--tls_cert_file={good}", f"--tls_key_file={certificates.text_pem}"], "has no private key in PEM form"),
            ([f"--tls_cert_file={good}", f"--tls_key_file={certificates.lone_key}"], "is not the key of the certificate"),
            ([*self.flags(), f"--tls_ca_file={key}"], "--tls_ca_file: "),
            ([*self.flags(), "--tls=unix:/tmp/x"], "a path is served without TLS"),
            ([*self.flags(), "--tls=here"], "--tls: "),
            ([*self.flags(), "--requirepass="], "--requirepass: the password is empty"),
            ([*self.flags(), "--requirepass=x", f"--requirepass_file={secret}"], "--requirepass: leave it out"),
            ([*self.flags(), f"--users_file={users}"], "--users_file: cannot read"),
        ):
            with self.subTest(flags=flags):
                wrong = self.run_compute("--tls=127.0.0.1:0", "--redis=127.0.0.1:0", *flags)
                self.assertEqual(wrong.returncode, 2, wrong.stderr)
                self.assertIn(sentence, wrong.stderr)
                self.assertEqual(wrong.stdout, "")
                self.assertEqual(wrong.stderr.count("\n"), 1, wrong.stderr)
        _, address, _ = self.start_tls()
        path = self.directory / "redis.sock"
        for threads in 1, 2:
            taken = self.run_compute(f"--redis=unix:{path}", f"--tls={address}", f"--threads={threads}", *self.flags())
            self.assertEqual(taken.returncode, 1)
            self.assertIn(f"cannot listen on {address}: Address already in use; give another --tls", taken.stderr)
            self.assertFalse(path.exists())
        everywhere = self.run_compute("--tls=0.0.0.0:0", *self.flags())
        self.assertEqual(everywhere.returncode, 2)
        self.assertIn("set a password", everywhere.stderr)

    def test_warns_of_a_key_that_others_may_read(self):
        self.certificates.make("bare", "ca")
        self.certificates.bare_key.chmod(0o644)
        self.start_memory()
        process, _, _ = self.start_tls(name="bare")
        self.logged(process, "others may read the key")

    # ---- Users

    def test_users(self):
        users = self.directory / "users"
        users.write_text(f"# of the shop\nanna open sesame\n\nberta sha256:{hashlib.sha256(b'geheim').hexdigest()}\n")
        self.start_memory()
        _, address, plain = self.start_tls(f"--users_file={users}", "--requirepass=main", "--threads=2")
        for where, context in (plain, None), (address, self.certificates.client()):
            client = self.client(where, context)
            self.assertEqual(client.ask("GET", "k"), b"-NOAUTH Authentication required.")
            for words in ["anna", "geheim"], ["nobody", "geheim"], ["berta", "open sesame"], ["geheim"], ["anna", "x" * 600]:
                self.assertEqual(client.ask("AUTH", *words), b"-WRONGPASS invalid username-password pair or user is disabled.")
            self.assertEqual(client.ask("GET", "k"), b"-NOAUTH Authentication required.")
            for name, words in ("anna", ["anna", "open sesame"]), ("berta", ["berta", "geheim"]), ("default", ["main"]):
                self.assertEqual(client.ask("AUTH", *words), b"+OK")
                self.assertEqual(client.ask("ACL", "WHOAMI"), name.encode())
            self.assertEqual(client.ask("ACL", "USERS"), [b"anna", b"berta", b"default"])
            self.assertEqual(client.ask("RESET"), b"+RESET")
            self.assertEqual(client.ask("ACL", "WHOAMI"), b"-NOAUTH Authentication required.")
            self.assertTrue(client.ask("HELLO", "2").startswith(b"-NOAUTH HELLO must be called"))
            self.assertTrue(client.ask("HELLO", "2", "AUTH", "anna", "wrong").startswith(b"-WRONGPASS"))
            self.assertIsInstance(client.ask("HELLO", "2", "AUTH", "anna", "open sesame"), list)
            self.assertEqual(client.ask("ACL", "WHOAMI"), b"anna")
        deadline = time.monotonic() + 120
        while self.info(client, "stats", "acl_access_denied_auth") != "12":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_a_client_that_has_not_logged_in_gets_no_memory(self):
        self.start_memory()
        _, _, plain = self.start_tls("--requirepass=main")
        for start, error in ((b"*11\r\n", b"multibulk"), (b"*2\r\n$16385\r\n", b"bulk")):
            client = self.client(plain)
            client.socket.sendall(start)
            self.assertEqual(client.file.read(), b"-ERR Protocol error: unauthenticated " + error + b" length\r\n")
        client = self.client(plain)
        self.assertEqual(client.ask("AUTH", "main"), b"+OK")
        self.assertEqual(client.ask("SET", "k", "v" * 100_000), b"+OK")


if __name__ == "__main__":
    if not shutil.which("openssl"):
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
