#!/usr/bin/env python3
"""gossamer-compute as its users run it: program_test.py DIRECTORY_OF_PROGRAMS.

A memory server, compute servers, and clients on sockets; each test has a directory of its own for the bootstrap.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from compute_server import BIN, ComputeServerTest, connect, encode, free_port, processor_seconds


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

    def test_a_scan_goes_on_at_another_server(self):
        self.start_memory()
        servers = [self.start_compute() for _ in range(2)]
        clients = [self.client(address) for _, address in servers]
        keys = [b"user:%06d" % i for i in range(5000)] + [b"a/prefix/longer/than/most/fences/%d" % i for i in range(5000)]
        random.Random(7).shuffle(keys)  # The order decides how many nodes, and so pages, there are.
        for key in keys:
            clients[0].socket.sendall(encode("SET", key, "v"))
            self.assertEqual(clients[0].reply(), b"+OK")
        for end in False, True:  # a server, in the middle of a scan
            found, cursor, pages = [], b"0", 0
            while pages == 0 or cursor != b"0":
                cursor, page = clients[pages % 2].ask("SCAN", cursor, "COUNT", "20")
                found += page
                pages += 1
                if end and pages == 20:
                    servers[0][0].kill()
                    servers[0][0].wait()
                    _, address = self.start_compute()
                    clients[0] = self.client(address)
            self.assertGreater(pages, 30)
            self.assertEqual(len(found), len(keys))
            self.assertEqual(set(found), set(keys))

    def test_waits_for_its_store(self):
        process = subprocess.Popen(
            [BIN / "gossamer-compute", self.bootstrap, "--redis=127.0.0.1:0", "--wait=60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, process)
        self.start_memory()
        self.assertIn("ready", process.stdout.readline())

    def test_ends_in_order_while_it_waits(self):
        for number, name in (signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT"):
            process = subprocess.Popen(
                [BIN / "gossamer-compute", self.bootstrap, "--redis=127.0.0.1:0", "--wait=60"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            self.addCleanup(self.end, process)
            self.assertIn("waiting for the store", process.stderr.readline())
            process.send_signal(number)
            _, told = process.communicate()
            self.assertEqual(process.returncode, 0)
            self.assertIn(f"stopping on {name}", told)
            self.assertEqual(told.count("\n"), 1, told)

    def test_goes_on_at_sighup(self):
        self.start_memory()
        process, address = self.start_compute()
        process.send_signal(signal.SIGHUP)
        self.assertIn("nothing is read again on SIGHUP", process.stderr.readline())
        self.assertEqual(self.client(address).ask("PING"), b"+PONG")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 0)

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
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertEqual(client.file.read(), b"")
        self.assertFalse((self.directory / "redis.sock").exists())

    def test_mode_of_a_socket(self):
        self.start_memory()
        path = self.directory / "shared.sock"
        self.start("gossamer-compute", f"--redis=unix:{path}", "--redis_socket_mode=0770")
        self.assertEqual(path.stat().st_mode & 0o7777, 0o770)
        self.assertEqual(self.client(f"unix:{path}").ask("PING"), b"+PONG")

    def test_ends_beside_clients_that_do_not(self):
        self.start_memory()
        process, address = self.start_compute()
        writer = self.client(address)
        keys = [f"key{i:06}" for i in range(20_000)]
        self.assertEqual(writer.ask("MSET", *(word for key in keys for word in (key, "value"))), b"+OK")
        silent = self.client(address)
        silent.socket.sendall(encode("KEYS", "*") * 50)
        walker = self.client(address)
        walker.socket.sendall(encode("FLUSHDB"))
        half = self.client(address)
        half.socket.sendall(encode("GET", "key")[:-3])
        piping = self.client(address)
        piping.socket.sendall(encode("GET", "none") * 1000)
        self.assertEqual(writer.ask("PING"), b"+PONG")
        process.send_signal(signal.SIGTERM)
        # Whole answers, then the end: the connection is not reset.
        answers = piping.file.read()
        self.assertEqual(answers, b"$-1\r\n" * (len(answers) // 5))
        self.assertEqual(process.wait(timeout=60), 0)

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

    def test_long_answers_that_nobody_reads_take_little_memory(self):
        self.start_memory()
        process, address = self.start_compute()
        client = self.client(address)
        self.assertEqual(client.ask("SET", "k", b"v" * (1 << 20)), b"+OK")
        silent = [self.client(address) for _ in range(6)]
        for one in silent:
            one.socket.sendall(encode("MGET", *["k"] * 240))
        for _ in range(50):
            self.assertIsNone(client.ask("GET", "absent"))
            time.sleep(0.01)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            held = int(status.split("RssAnon:")[1].split()[0]) >> 10
            self.assertLess(held, 600, "MiB; the answers have 1,440")

    def test_passwords(self):
        self.start_memory()
        secret = self.directory / "secret"
        secret.write_bytes(b"open sesame\r\n")  # as on Windows
        _, address = self.start_compute(f"--requirepass_file={secret}")
        client = self.client(address)
        self.assertEqual(client.ask("GET", "k"), b"-NOAUTH Authentication required.")
        self.assertTrue(client.ask("AUTH", "sesame").startswith(b"-WRONGPASS"))
        self.assertEqual(client.ask("AUTH", "open sesame"), b"+OK")
        self.assertIsNone(client.ask("GET", "k"))

    def test_executes_nothing_of_an_http_request(self):
        self.start_memory()
        process, address = self.start_compute()
        client = self.client(address)
        self.assertEqual(client.ask("SET", "k", "v"), b"+OK")
        for _ in range(5):
            page = self.client(address)
            page.socket.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nFLUSHALL\r\n")
            try:
                self.assertEqual(page.file.read(), b"")
            except ConnectionResetError:
                pass
        self.assertEqual(client.ask("GET", "k"), b"v")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate()[1].count("which sent POST or Host:"), 1)

    def start_limited(self, limit, *flags):
        """A compute server under `ulimit LIMIT`, with its address and that of --admin."""
        process = subprocess.Popen(
            ["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", BIN / "gossamer-compute", self.bootstrap, "--redis=127.0.0.1:0",
             "--admin=127.0.0.1:0", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        self.assertIn("ready", line, "" if line else process.stderr.read())
        return process, line.split("redis ")[1].split(",")[0], line.split("admin ")[1].strip()

    def test_raises_the_soft_limit_of_descriptors(self):
        self.start_memory()
        process, address, _ = self.start_limited("-S -n 64", "--max_clients=100")
        clients = [self.client(address) for _ in range(100)]
        for client in clients:
            self.assertEqual(client.ask("PING"), b"+PONG")
        self.assertEqual(self.client(address).file.readline(), b"-ERR max number of clients reached\r\n")
        process.send_signal(signal.SIGTERM)
        self.assertNotIn("max_clients", process.communicate()[1])

    def test_has_no_more_clients_than_descriptors(self):
        self.start_memory()
        process, address, admin = self.start_limited("-n 64", "--max_clients=100")
        first = self.client(address)
        room = int(first.ask("CONFIG", "GET", "maxclients")[1])
        self.assertTrue(0 < room < 64, room)
        clients = [first] + [self.client(address) for _ in range(room - 1)]
        for client in clients:
            self.assertEqual(client.ask("PING"), b"+PONG")
        for _ in range(100):
            refused = self.client(address)
            self.assertEqual(refused.file.readline(), b"-ERR max number of clients reached\r\n")
            refused.close()
        self.assertIn(b"\r\nrejected_connections:100\r\n", first.ask("INFO", "stats"))
        while "\ngossamer_client_rejections_total 100\n" not in self.get(admin, "/metrics"):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        told = process.communicate()[1]
        self.assertEqual(told.count(f"--max_clients is {room} in place of 100, because `ulimit -n` is 64"), 1, told)
        self.assertNotIn("no further connection can be accepted", told)

    def await_not_ready(self, admin, sentence):
        while True:
            reply = self.get(admin, "/readyz")
            if sentence in reply:
                break
            time.sleep(0.1)
        self.assertIn(" 503 ", reply.splitlines()[0])
        self.assertEqual(len(reply.split("\r\n\r\n", 1)[1].splitlines()), 1)
        self.assertIn("\ngossamer_ready 0\n", self.get(admin, "/metrics"))
        self.assertIn(sentence, json.loads(self.get(admin, "/state").split("\r\n\r\n", 1)[1])["not_ready"])

    def test_is_not_ready_while_a_memory_server_is_silent(self):
        self.start_memory()
        silent, _ = self.start_memory()
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0")
        admin = line.split("admin ")[1].strip()
        self.assertIn("\ngossamer_ready 1\n", self.get(admin, "/metrics"))
        silent.send_signal(signal.SIGSTOP)
        self.await_not_ready(admin, "memory server 1 ")
        silent.send_signal(signal.SIGCONT)
        while "\r\n\r\nready\n" not in self.get(admin, "/readyz"):
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        told = process.communicate()[1]
        self.assertEqual(told.count("not ready: memory server 1 "), 1, told)
        self.assertEqual(told.count("memory server 1 can be reached again"), 1, told)

    def test_serves_a_store_that_was_created_anew(self):
        memory, _ = self.start_memory()
        other, _ = self.start_memory()
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0")
        client = self.client(line.split("redis ")[1].split(",")[0])
        admin = line.split("admin ")[1].strip()
        self.assertEqual(client.ask("SET", "k", "v"), b"+OK")
        memory.kill()
        memory.wait()
        self.await_not_ready(admin, "memory server 0 ")
        self.assertTrue(client.ask("SET", "k", "w").startswith(b"-UNREACHABLE"))
        self.start_memory("--create=new", "--max_key_bytes=40")
        # The same connection. Nothing is refused but for the store that is gone, and nothing of it comes back.
        while (answer := client.ask("GET", "k")) is not None:
            self.assertTrue(answer.startswith(b"-UNREACHABLE"), answer)
            time.sleep(0.05)
        while "\r\n\r\nready\n" not in self.get(admin, "/readyz"):
            time.sleep(0.05)
        for i in range(1000):
            self.assertEqual(client.ask("SET", f"key{i}", "v" * (i % 300)), b"+OK")
        self.assertEqual(client.ask("DBSIZE"), 1000)
        self.assertTrue(client.ask("SET", "k" * 41, "v").startswith(b"-ERR"))
        checked = subprocess.run([BIN / "gossamer", self.bootstrap, "check"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked)
        state = json.loads(self.get(admin, "/state").split("\r\n\r\n", 1)[1])
        self.assertEqual(len(state["servers"]), 1)
        self.assertIsNone(other.poll())
        process.send_signal(signal.SIGTERM)
        told = process.communicate()[1]
        self.assertEqual(process.returncode, 0)
        self.assertEqual(told.count("not ready: memory server 0 "), 1, told)
        self.assertEqual(told.count("not ready: the store is gone"), 1, told)
        self.assertEqual(told.count("was created anew"), 1, told)

    def test_metrics(self):
        self.start_memory()
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0")
        client = self.client(line.split("redis ")[1].split(",")[0])
        for _ in range(5):
            client.ask("GET", "k")
        self.assertTrue(client.ask("GET").startswith(b"-ERR wrong number"))
        refused = 'gossamer_command_errors_total{command="get"} 1\n'
        address = line.split("admin ")[1].strip()
        self.assertIn("\r\n\r\nready\n", self.get(address, "/readyz"))
        deadline = time.monotonic() + 60
        while True:
            text = self.get(address, "/metrics")
            if refused in text or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.assertIn("200 OK", text)
        self.assertIn(refused, text)
        while True:
            state = json.loads(self.get(address, "/state").split("\r\n\r\n", 1)[1])
            # Nobody has a leaf in use before there is one.
            if state.get("servers") and state["hot_leaves"] or time.monotonic() > deadline:
                break
            client.ask("SET", "hot", "1")
        self.assertEqual(state["store"], "default")
        self.assertEqual(state["fabric"], "shm")
        self.assertGreater(state["servers"][0]["heap_bytes"], 0)
        self.assertEqual(state["hot_leaves"][0]["leaf"].split(":")[0], "0")
        self.assertEqual(state["sweeps"]["failed"], 0)

    def test_gives_back_what_a_killed_client_left(self):
        self.start_memory()
        free = self.stat("free_bytes")
        bench = subprocess.Popen(
            [BIN / "gossamer-bench", self.bootstrap, "--workload=a", "--records=1000", f"--operations={10**12}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, bench)
        while self.stat("free_bytes") == free:
            self.assertIsNone(bench.poll(), "" if bench.poll() is None else bench.stderr.read())
        bench.kill()
        bench.wait()
        while self.stat("lost_bytes") == 0:  # until the memory server has seen that it is dead
            time.sleep(0.05)
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0", "--sweep_after_s=1")
        while self.stat("lost_bytes") != 0:
            time.sleep(0.2)
        admin = line.split("admin ")[1].strip()
        # The memory is given back a little before the sweep has ended.
        while 'gossamer_sweeps_total{result="done"} 1\n' not in self.get(admin, "/metrics"):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        told = process.communicate()[1]
        self.assertEqual(told.count("that compute servers have left behind"), 1, told)

    def stat(self, field):
        """Of all memory servers together, as `gossamer stat` tells it."""
        stat = subprocess.run([BIN / "gossamer", self.bootstrap, "stat", "--json"], capture_output=True, text=True, check=True)
        return sum(server[field] for server in json.loads(stat.stdout)["servers"])

    def get(self, address, path):
        with connect(address) as admin:
            admin.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def test_lives_but_is_not_ready_before_its_store_is_there(self):
        address = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [BIN / "gossamer-compute", self.bootstrap, "--redis=127.0.0.1:0", f"--admin={address}", "--wait=60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, process)
        self.assertIn("waiting for the store", process.stderr.readline())
        self.assertIn("\r\n\r\nok\n", self.get(address, "/healthz"))
        self.assertIn("\r\n\r\nthe compute server is starting\n", self.get(address, "/readyz"))
        self.assertNotIn("command=", self.get(address, "/metrics"))
        self.start_memory()
        self.assertIn("ready", process.stdout.readline())
        self.assertIn("\r\n\r\nready\n", self.get(address, "/readyz"))

    def test_says_what_is_wrong(self):
        self.refuses(1, "there is no store", "--redis=127.0.0.1:0")
        waited = self.run_compute("--redis=127.0.0.1:0", "--wait=1")
        self.assertEqual(waited.returncode, 1)
        self.assertIn("waiting for the store", waited.stderr.splitlines()[0])
        self.assertIn("there is no store", waited.stderr.splitlines()[1])
        itself = self.directory / "flags"
        itself.write_text(f"--flagfile={itself}\n")
        for flags, sentence in (
            (["--redis=here"], "--redis: "),
            (["--redis="], "--redis: give an address"),
            (["--redis=unix:"], "--redis: the path of 'unix:' has 0 bytes: give one of 1 to 107"),
            ([f"--redis=unix:/{'x' * 107}"], "has 108 bytes: give one of 1 to 107"),
            (["--redis=127.0.0.1:7400,127.0.0.1:7400"], "--redis: 127.0.0.1:7400 is given twice"),
            (["--redis=unix:x,unix:x"], "--redis: unix:x is given twice"),
            (["--redis=0.0.0.0:0"], "set a password"),
            (["--redis=unix:/tmp/x.sock", "--redis_socket_mode=0980"], "--redis_socket_mode: give octal digits"),
            (["--redis=unix:/tmp/x.sock", "--redis_socket_mode=01777"], "--redis_socket_mode: give octal digits"),
            (["--redis=127.0.0.1:0", "--redis_socket_mode=0770"], "--redis_socket_mode: give --redis=unix:PATH"),
            (["--admin=0.0.0.0:0"], "--admin: 0.0.0.0:0 may be reached from other machines"),
            (["--client_memory=511MiB"], "--client_memory: give 512 MiB or more"),
            (["--redis=[::ffff:10.0.0.1]:0"], "set a password"),
            (["--threads=0"], "--threads: give 1 to 256"),
            (["--threads=257"], "--threads: give 1 to 256"),
            (["--threads=256", "--pin"], f"--pin: this process may use {len(os.sched_getaffinity(0))} processors"),
            (["--max_clients=0"], "--max_clients: give 1 or more"),
            (["--max_query_bytes=0"], "--max_query_bytes: give 1 KiB or more"),
            (["--max_query_bytes=1023"], "--max_query_bytes: give 1 KiB or more"),
            (["--slowlog_slower_than_us=-2"], "--slowlog_slower_than_us: "),
            (["--ready_fd=-2"], "--ready_fd: "),
            (["--requirepass_file=/nonexistent"], "--requirepass_file: cannot read /nonexistent: No such file or directory"),
            (["--requirepass_file=/dev/null"], "has no password in its first line"),
            ([f"--flagfile={itself}"], f"{itself} line 1: the flag file {itself} includes itself"),
            (["--admin=x"], "--admin: "),
            (["--ready_fd=99"], "cannot write to --ready_fd=99"),
            (["--cache_bytes=0"], "--cache_bytes: 0 is too little"),
            (["more"], "'more' is no flag"),
        ):
            with self.subTest(flags=flags):
                self.refuses(2, sentence, *flags)

    def refuses(self, status, sentence, *flags):
        """The program ends with the status, and says this in one line."""
        wrong = self.run_compute(*flags)
        self.assertEqual(wrong.returncode, status, wrong.stderr)
        self.assertEqual(wrong.stdout, "")
        self.assertIn(sentence, wrong.stderr)
        self.assertEqual(wrong.stderr.count("\n"), 1, wrong.stderr)

    def test_ports_that_are_in_use(self):
        self.start_memory()
        _, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0")
        address = line.split("redis ")[1].split(",")[0]
        admin = line.split("admin ")[1].strip()
        path = self.directory / "redis.sock"
        for threads in "--threads=1", "--threads=2":
            in_use = f"cannot listen on {address}: Address already in use; give another --redis"
            self.refuses(1, in_use, f"--redis=unix:{path},{address}", threads)
            self.assertFalse(path.exists())
            in_use = f"cannot listen on {admin}: Address already in use; give another --admin"
            self.refuses(1, in_use, f"--redis=unix:{path}", f"--admin={admin}", threads)
            self.assertFalse(path.exists())
        self.refuses(1, "cannot listen on unix:/nonexistent/x: No such file", "--redis=unix:/nonexistent/x")
        self.refuses(1, "cannot listen on unix:/etc/passwd: it exists and is not a socket", "--redis=unix:/etc/passwd")
        self.assertEqual(self.client(address).ask("PING"), b"+PONG")

    def test_an_address_of_ipv4_in_the_form_of_ipv6(self):
        self.start_memory()
        _, line = self.start("gossamer-compute", "--redis=[::ffff:127.0.0.1]:0")
        port = line.split("[::ffff:127.0.0.1]:")[1].split()[0]
        self.assertEqual(self.client(f"127.0.0.1:{port}").ask("PING"), b"+PONG")

    def test_a_port_in_use_is_told_before_it_looks_for_its_store(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = f"127.0.0.1:{other.getsockname()[1]}"
            self.refuses(1, f"cannot listen on {taken}", "--redis=127.0.0.1:0", f"--admin={taken}")
            for threads in "--threads=1", "--threads=2":
                self.refuses(1, f"cannot listen on {taken}: Address already in use; give another --redis",
                             f"--redis={taken}", threads, "--wait=60")

    def test_goes_on_without_memcached_once_it_runs(self):
        port = free_port()
        self.bootstrap = f"--bootstrap=memcached://127.0.0.1:{port}"
        gone = f"memcached at host 127.0.0.1 port {port} does not answer"
        self.refuses(1, gone, "--redis=127.0.0.1:0")
        memcached = self.start_memcached(port)
        self.start_memory("--create=new")
        _, address = self.start_compute()
        client = self.client(address)
        self.assertEqual(client.ask("SET", "k", "v"), b"+OK")
        memcached.kill()
        memcached.wait()
        self.refuses(1, gone, "--redis=127.0.0.1:0")
        self.assertEqual(client.ask("SET", "k", "w"), b"+OK")
        self.assertEqual(self.client(address).ask("GET", "k"), b"w")
        # The memory server puts the record back, and another compute server finds it.
        self.start_memcached(port)
        _, other = self.start_compute("--wait=30")
        self.assertEqual(self.client(other).ask("GET", "k"), b"w")

    def start_memcached(self, port):
        if not shutil.which("memcached"):
            self.skipTest("there is no memcached")
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        process = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-M", *user], stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        while process.poll() is None:
            try:
                connect(f"127.0.0.1:{port}").close()
                return process
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.fail(f"memcached ended: {process.stderr.read()}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
