#!/usr/bin/env python3
"""What gossamer-compute holds for clients that do not go on: memory_test.py DIRECTORY_OF_PROGRAMS.

Its resident memory, as the system counts it, stays within the bound that it states: --client_memory, and 64 MiB for each thread.
"""

import contextlib
import pathlib
import resource
import subprocess
import sys
import threading
import unittest

from compute_server import ComputeServerTest, encode

MIB = 1 << 20
CLIENT_MEMORY = 32
PER_THREAD = 64
FLAGS = (f"--client_memory={CLIENT_MEMORY}MiB", "--max_query_bytes=4MiB", "--cache_bytes=16MiB")


def status_of(process, name):
    """In MiB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


class MemoryTest(ComputeServerTest):
    def start_server(self, *flags):
        self.start_memory()
        # By a path: of a connection by TCP the system itself takes megabytes for a client that reads nothing.
        self.process, self.address = self.start_compute(f"--redis=unix:{self.directory}/redis", *flags)
        # The log is read as it comes: the server must not wait for room in its pipe.
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.other = self.client(self.address)
        self.assertEqual(self.other.ask("PING"), b"+PONG")
        self.before = status_of(self.process, "RssAnon")

    def figure(self, name):
        return int(self.other.ask("INFO").split(f"{name}:".encode())[1].split()[0])

    def send_to_all(self, clients, request):
        """As much of it as the server takes at once, from each."""
        for one in clients:
            one.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.socket.send(request)

    def watch(self, counter, also=lambda: None):
        """The largest resident memory until that counter of INFO says that clients were disconnected."""
        most = 0
        while self.figure(counter) == 0:
            also()
            most = max(most, status_of(self.process, "RssAnon") - self.before)
        return most

    def test_long_reads_that_nobody_takes(self):
        self.start_server(*FLAGS)
        value = b"v" * MIB
        self.assertEqual(self.other.ask("SET", "k", value), b"+OK")
        self.send_to_all([self.client(self.address) for _ in range(100)], encode("MGET", *["k"] * 60))
        most = self.watch("client_output_buffer_limit_disconnections", lambda: self.assertIsNone(self.other.ask("GET", "absent")))
        self.assertLess(most, CLIENT_MEMORY + PER_THREAD, "MiB; the answers have 6,000")
        # Who reads is served beside them.
        self.assertEqual(self.other.ask("MGET", *["k"] * 20), [value] * 20)
        self.assertLess(status_of(self.process, "RssAnon") - self.before, CLIENT_MEMORY + PER_THREAD)

    def check_lists(self, words, answer):
        clients = [self.client(self.address) for _ in range(32)]
        self.send_to_all(clients, encode(*words))
        most = self.watch("client_output_buffer_limit_disconnections")
        self.assertLess(most, CLIENT_MEMORY + PER_THREAD / 2, f"MiB; the answers have {32 * 3}")
        reader = self.client(self.address)
        self.assertEqual(reader.ask(*words), answer)

    def test_ranges_that_nobody_takes(self):
        self.start_server(*FLAGS)
        answer = []
        for i in range(3):
            answer += [b"%d" % i, b"v" * MIB]
            self.assertEqual(self.other.ask("SET", *answer[-2:]), b"+OK")
        self.check_lists(["GOSSAMER.SCAN"], answer)

    def test_keys_that_nobody_takes(self):
        self.start_server(*FLAGS)
        keys = [b"%0200d" % i for i in range(15_000)]
        for first in range(0, len(keys), 5000):
            self.assertEqual(self.other.ask("MSET", *(word for key in keys[first : first + 5000] for word in (key, b"v"))), b"+OK")
        self.check_lists(["KEYS", "*"], keys)

    def test_requests_that_are_not_finished(self):
        self.start_server(*FLAGS)
        # Each has almost all that a request may have: all but its end.
        request = encode(*["SET"] * 3, *[b"v" * MIB] * 3, b"v" * (MIB * 9 // 10))[:-100]
        clients = [self.client(self.address) for _ in range(20)]

        def send(one):
            with contextlib.suppress(OSError):
                one.socket.sendall(request)

        for one in clients:
            threading.Thread(target=send, args=[one], daemon=True).start()
        most = self.watch("client_query_buffer_limit_disconnections")
        self.assertLess(most, (CLIENT_MEMORY + PER_THREAD) / 2, "MiB; the requests have 78, and twice that as they grow")
        # A request of the same length that is finished is done.
        value = b"w" * (MIB - 1)
        pairs = [word for i in range(3) for word in (f"k{i}", value)]
        self.assertEqual(self.client(self.address).ask("MSET", *pairs), b"+OK")
        self.assertEqual(self.other.ask("GET", "k2"), value)

    def test_a_limit_of_the_system(self):
        self.start_server()
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (2000 * MIB, 2000 * MIB))
        self.assertEqual(self.other.ask("SET", "k", b"v" * MIB), b"+OK")
        self.send_to_all([self.client(self.address) for _ in range(300)], encode("MGET", *["k"] * 60))
        self.watch("client_output_buffer_limit_disconnections")
        self.assertEqual(self.other.ask("MGET", *["k"] * 20), [b"v" * MIB] * 20)

    def test_says_that_there_is_no_memory(self):
        self.start_memory()
        process, address = self.start_compute()
        other = self.client(address)
        self.assertEqual(other.ask("SET", "k", b"v" * MIB), b"+OK")
        most = int((status_of(process, "VmSize") + 40) * MIB)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
        self.send_to_all([self.client(address) for _ in range(100)], encode("MGET", *["k"] * 60))
        try:
            _, log = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            self.fail("the server goes on without memory")
        self.assertEqual(process.returncode, 1, log)
        self.assertIn("out of memory", log)
        self.assertIn("--client_memory", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
