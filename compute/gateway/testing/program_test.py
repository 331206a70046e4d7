#!/usr/bin/env python3
"""gossamer-compute as its users run it: program_test.py DIRECTORY_OF_PROGRAMS.

A memory server, compute servers, and clients on sockets; each test has a directory of its own for the bootstrap.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest

from compute_server import BIN, ComputeServerTest, processor_seconds


class ProgramTest(ComputeServerTest):
    def test_what_one_server_writes_another_reads(self):
        self.start_memory()
        first, address = self.start_compute("--threads=2", "--pin")
        _, other = self.start_compute()
        self.assertEqual(self.client(address).ask("SET", "k", "v"), b"+OK")
        self.assertEqual(self.client(other).ask("GET", "k"), b"v")
        # One of them dies; the other goes on.
        first.send_signal(signal.SIGKILL)
        first.wait()
        client = self.client(other)
        self.assertEqual(client.ask("SET", "k", "w"), b"+OK")
        self.assertEqual(client.ask("GET", "k"), b"w")
        _, again = self.start_compute()
        self.assertEqual(self.client(again).ask("GET", "k"), b"w")

    def test_waits_for_its_store(self):
        process = subprocess.Popen(
            [BIN / "gossamer-compute", self.bootstrap, "--redis=127.0.0.1:0", "--wait=60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, process)
        self.start_memory()
        self.assertIn("ready", process.stdout.readline())

    def test_ends_in_order(self):
        self.start_memory()
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        process = subprocess.Popen(
            [BIN / "gossamer-compute", self.bootstrap, f"--redis=unix:{self.directory}/redis.sock", f"--ready_fd={write}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[write],
        )
        self.addCleanup(self.end, process)
        os.close(write)
        self.assertEqual(os.read(read, 10), b"READY\n")
        client = self.client(f"unix:{self.directory}/redis.sock")
        self.assertEqual(client.ask("PING"), b"+PONG")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertEqual(client.file.read(), b"")
        self.assertFalse((self.directory / "redis.sock").exists())

    def test_an_idle_server_hardly_uses_a_processor(self):
        self.start_memory()
        process, address = self.start_compute("--threads=2")
        client = self.client(address)
        self.assertEqual(client.ask("PING"), b"+PONG")
        before = processor_seconds(process)
        time.sleep(2)
        self.assertEqual(client.ask("PING"), b"+PONG")
        # Counts of clock ticks, not a time limit: a loop that spins would use two seconds for each thread.
        self.assertLess(processor_seconds(process) - before, 1.0)

    def test_passwords(self):
        self.start_memory()
        secret = self.directory / "secret"
        secret.write_text("open sesame\n")
        _, address = self.start_compute(f"--requirepass_file={secret}")
        client = self.client(address)
        self.assertEqual(client.ask("GET", "k"), b"-NOAUTH Authentication required.")
        self.assertTrue(client.ask("AUTH", "sesame").startswith(b"-WRONGPASS"))
        self.assertEqual(client.ask("AUTH", "open sesame"), b"+OK")
        self.assertIsNone(client.ask("GET", "k"))

    def test_metrics(self):
        self.start_memory()
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0")
        client = self.client(line.split("redis ")[1].split(",")[0])
        for _ in range(5):
            client.ask("GET", "k")
        host, port = line.split("admin ")[1].strip().rsplit(":", 1)
        deadline = time.monotonic() + 20
        while True:
            with socket.create_connection((host, int(port))) as admin:
                admin.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
            if 'command="get"' in text or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.assertIn("200 OK", text)
        self.assertIn('command="get"', text)

    def test_says_what_is_wrong(self):
        nothing = self.run_compute("--redis=127.0.0.1:0")
        self.assertEqual(nothing.returncode, 1)
        self.assertIn("there is no store", nothing.stderr)
        for flags, sentence in (
            (["--redis=here"], "--redis: "),
            (["--redis="], "--redis: give an address"),
            (["--threads=0"], "--threads: give 1 to 256"),
            (["--requirepass_file=/nonexistent"], "has no password in its first line"),
            (["--admin=x"], "--admin: "),
            (["more"], "'more' is no flag"),
        ):
            with self.subTest(flags=flags):
                wrong = self.run_compute(*flags)
                self.assertEqual(wrong.returncode, 2, wrong.stderr)
                self.assertIn(sentence, wrong.stderr)
        self.start_memory()
        _, address = self.start_compute()
        taken = self.run_compute(f"--redis={address}")
        self.assertEqual(taken.returncode, 1)
        self.assertIn(f"cannot listen on {address}: Address already in use", taken.stderr)
        everywhere = self.run_compute("--redis=0.0.0.0:0")
        self.assertEqual(everywhere.returncode, 1)
        self.assertIn("set a password", everywhere.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
