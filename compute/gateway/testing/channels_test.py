"""Messages of channels between compute servers, as programs."""

import os
import signal
import socket
import sys
import time
import unittest

import compute_server
from compute_server import encode, free_port


class ChannelsTest(compute_server.ComputeServerTest):
    def state(self, admin, what="/state"):
        host, port = admin.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"GET {what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            text = b""
            while piece := connection.recv(65536):
                text += piece
        return text.decode()

    def figure(self, admin, name):
        lines = [line for line in self.state(admin, "/metrics").splitlines() if line.startswith(name + " ")]
        return float(lines[0].rsplit(" ", 1)[1])

    def await_peers(self, admin, count):
        deadline = time.monotonic() + 60
        while self.figure(admin, 'gossamer_peers{state="known"}') != count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def start_server(self, *flags):
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0", *flags)
        address = line.split("redis ")[1].split(",")[0]
        return process, address, line.split("admin ")[1].split()[0]

    def subscribe(self, client, *channels):
        client.socket.sendall(encode("SUBSCRIBE", *channels))
        for channel in channels:
            self.assertEqual(client.reply()[:2], [b"subscribe", channel.encode()])

    def test_brings_messages_to_all_servers_of_the_store(self):
        self.start_memory()
        servers = [self.start_server(f"--threads={threads}") for threads in (1, 2, 1)]
        for _, _, admin in servers:
            self.await_peers(admin, 2)
        subscribers = [self.client(address) for _, address, _ in servers]
        for subscriber in subscribers:
            self.subscribe(subscriber, "c")
        publisher = self.client(servers[0][1])
        for number in range(100):
            self.assertEqual(publisher.ask("PUBLISH", "c", str(number)), 1)  # of this server's own clients
        for subscriber in subscribers:
            for number in range(100):
                self.assertEqual(subscriber.reply(), [b"message", b"c", str(number).encode()])
        # A server that is killed is missed by nobody, and one that comes gets messages.
        servers[2][0].kill()
        servers[2][0].wait()
        self.assertEqual(publisher.ask("PUBLISH", "c", "still"), 1)
        self.assertEqual(subscribers[1].reply(), [b"message", b"c", b"still"])
        _, address, admin = self.start_server()
        self.await_peers(admin, 3)  # with the dead one, for a minute
        time.sleep(1.5)  # until the others have looked
        late = self.client(address)
        self.subscribe(late, "c")
        self.assertEqual(publisher.ask("PUBLISH", "c", "new"), 1)
        self.assertEqual(late.reply(), [b"message", b"c", b"new"])
        self.assertEqual(subscribers[1].reply(), [b"message", b"c", b"new"])

    def test_leaves_the_list_and_its_messages_when_it_stops(self):
        self.start_memory()
        first, _, admin = self.start_server()
        second, _, _ = self.start_server()
        self.await_peers(admin, 1)
        second.terminate()
        self.assertEqual(second.wait(10), 0)
        self.await_peers(admin, 0)
        first.terminate()
        self.assertEqual(first.wait(10), 0)
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("peers")], [])

    def test_a_peer_that_stands_still_holds_nobody_up(self):
        self.start_memory()
        _, address, admin = self.start_server()
        silent, silent_address, silent_admin = self.start_server()
        self.await_peers(admin, 1)
        self.await_peers(silent_admin, 1)
        subscriber, publisher = self.client(address), self.client(address)
        self.subscribe(subscriber, "c")
        silent.send_signal(signal.SIGSTOP)
        message = b"m" * (1 << 20)
        for _ in range(64):  # more than the peer's socket and the link take
            self.assertEqual(publisher.ask("PUBLISH", "c", message), 1)
            self.assertEqual(subscriber.reply()[2], message)
        deadline = time.monotonic() + 60
        while self.figure(admin, 'gossamer_peer_messages_total{result="lost"}') == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        silent.send_signal(signal.SIGCONT)
        self.assertEqual(self.client(silent_address).ask("PING"), b"+PONG")

    def test_flags(self):
        self.start_memory()
        port = free_port()
        _, address, admin = self.start_server(f"--peer=unix:{self.directory}/a.sock", f"--redis=127.0.0.1:{port},unix:{self.directory}/a.sock")
        _, none, none_admin = self.start_server("--peer=none")
        _, other, other_admin = self.start_server()
        self.await_peers(admin, 1)
        self.await_peers(other_admin, 1)
        self.assertNotIn("gossamer_peers", self.state(none_admin, "/metrics"))
        subscriber, apart = self.client(address), self.client(none)
        self.subscribe(subscriber, "c")
        self.subscribe(apart, "c")
        self.assertEqual(self.client(other).ask("PUBLISH", "c", "m"), 0)
        self.assertEqual(subscriber.reply(), [b"message", b"c", b"m"])
        self.assertEqual(self.client(none).ask("PUBLISH", "c", "own"), 1)
        self.assertEqual(apart.reply(), [b"message", b"c", b"own"])
        for wrong in ("--peer=host:1", "--peer=127.0.0.1", "--peer=unix:a b"):
            done = self.run_compute(wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn("--peer: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
