#!/usr/bin/env python3
"""The program `gossamer` as a person runs it, on real memory servers: program_test.py BIN_DIRECTORY.

Bad input of every kind must give one clear sentence, the right exit status, and leave the data as it was.
"""

import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
import unittest

from programs import PATIENCE_SECONDS, Bench, Outcome, escaped, free_port

BIN_DIR = "build/bin"
MAX_VALUE = 1 << 20


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.bench = Bench(BIN_DIR)
        self.addCleanup(self.bench.__exit__)

    def gossamer(self, *words, stdin=b"", status=0, err=None):
        outcome = self.bench.run(*words, stdin=stdin)
        self.assertEqual(outcome.status, status, f"{words}: {outcome}")
        if err is not None:
            self.assertRegex(outcome.err, err, f"{words}")
        return outcome

    def dump(self):
        return self.gossamer("dump").out

    def check(self):
        report = json.loads(self.gossamer("check", "--json").out)
        self.assertTrue(report["ok"], report)
        return report


class GoodInput(ProgramTest):
    def test_one_key(self):
        self.bench.memory()
        self.assertEqual(self.gossamer("put", "key", "a value").out, b"")
        self.assertEqual(self.gossamer("get", "key").out, b"a value\n")
        self.assertEqual(json.loads(self.gossamer("get", "--json", "key").out),
                         {"key": "key", "value": "a value"})
        self.gossamer("delete", "key")
        self.gossamer("get", "key", status=1, err='^gossamer: the key "key" is absent\n$')
        self.gossamer("delete", "key", status=1, err="absent")
        self.gossamer("put", "--", "-dash", "-5")
        self.assertEqual(self.gossamer("get", "--", "-dash").out, b"-5\n")
        self.gossamer("put", "", "of the empty key")
        self.assertEqual(self.gossamer("get", "").out, b"of the empty key\n")

    def test_bytes_that_are_no_text(self):
        self.bench.memory()
        self.gossamer("put", b"\xff\xfe", b"\x80")
        self.assertEqual(self.gossamer("get", b"\xff\xfe").out, b"\x80\n")
        self.gossamer("put", "--escaped", r"\x00k\x00", r"a\x00b\nc")
        self.assertEqual(self.gossamer("get", "--escaped", r"\x00k\x00").out, b"a\\x00b\\nc\n")
        self.gossamer("load", "-", stdin=b"nul\0raw\tv\0\n\\x00esc\t\\x00\n")
        self.assertEqual(self.gossamer("get", "--escaped", r"nul\x00raw").out, b"v\\x00\n")
        lines = [json.loads(line) for line in self.gossamer("scan", "--json").out.splitlines()]
        self.assertEqual(lines[-1], {"key": "\\xff\\xfe", "key_encoding": "escaped",
                                     "value": "\\x80", "value_encoding": "escaped"})
        self.assertEqual(lines[0]["key"], "\0esc")
        self.assertEqual(lines[1], {"key": "\0k\0", "value": "a\0b\nc"})

    def test_dump_and_load_round_trip(self):
        seed = random.SystemRandom().randrange(1 << 32)
        rng = random.Random(seed)
        self.bench.memory("128MiB")
        expected = {}
        for i in range(3000):
            length = rng.randrange(80) if i % 100 else rng.choice([0, 4095, 4097, 200_000])
            expected[rng.randbytes(rng.randrange(251))] = rng.randbytes(length)
        expected[b"greatest"] = rng.randbytes(MAX_VALUE)
        text = b"".join(escaped(k) + b"\t" + escaped(v) + b"\n" for k, v in expected.items())
        report = json.loads(self.gossamer("load", "--json", "--threads=2",
                                          self.bench.file("load", text)).out)
        self.assertEqual((report["loaded"], report["inserted"]), (len(expected), len(expected)),
                         f"seed {seed}")
        dumped = self.dump()
        self.gossamer("load", "--store=second", "-", stdin=dumped, status=1, err="there is no")
        self.bench.memory("128MiB", "--store=second")
        self.gossamer("load", "--store=second", "-", stdin=dumped)
        self.assertEqual(self.gossamer("dump", "--store=second").out, dumped, f"seed {seed}")
        keys = [line.split(b"\t")[0] for line in dumped.splitlines()]
        self.assertEqual(len(keys), len(expected))
        self.assertEqual(self.check()["keys"], len(expected))
        self.assertEqual(self.gossamer("get", "greatest").out, expected[b"greatest"] + b"\n")

    def test_scan(self):
        self.bench.memory()
        keys = [b"key%05d" % i for i in range(5000)]
        self.gossamer("load", "-", stdin=b"".join(k + b"\t" + k[3:] + b"\n" for k in keys))
        scan = lambda *flags: self.gossamer("scan", "--keys_only", *flags).out.split()
        self.assertEqual(scan(), keys)
        self.assertEqual(scan("--reverse"), keys[::-1])
        self.assertEqual(scan("--from=key00100", "--to=key00300"), keys[100:300])
        self.assertEqual(scan("--prefix=key012"), keys[1200:1300])
        self.assertEqual(scan("--prefix=key012", "--reverse", "--limit=3"), keys[1299:1296:-1])
        self.assertEqual(scan("--from=z"), [])
        self.assertEqual(self.gossamer("scan", "--limit=1").out, b"key00000\t00000\n")

    def test_later_line_wins(self):
        self.bench.memory()
        text = b"".join(b"key%d\t%d\n" % (i % 7, i) for i in range(20_000))
        out = self.gossamer("load", "--threads=3", "-", stdin=text).out
        self.assertRegex(out, rb"^loaded 20,000 lines in .*: 7 inserted, 19,993 overwritten\n$")
        self.assertEqual(self.dump(), b"".join(b"key%d\t%d\n" % (i % 7, i)
                                               for i in sorted(range(19_993, 20_000), key=lambda i: i % 7)))

    def test_prompt_on_a_pipe(self):
        self.bench.memory()
        outcome = self.gossamer(stdin=b"# comment\nput a 'b c'\nget a\nscan --limit=5\n\nquit\nget zz\n")
        self.assertEqual(outcome.out, b"stored\nb c\na\tb c\n")
        self.assertEqual(outcome.err, "")
        outcome = self.gossamer(stdin=b"get absent\nnonsense\nget a --json\nload -\n", status=1)
        self.assertEqual(outcome.out, b'{"key":"a","value":"b c"}\n')
        self.assertEqual(len(outcome.err.splitlines()), 3, outcome)

    def test_each_line_of_a_pipe_is_answered_before_the_next_is_read(self):
        self.bench.memory()
        prompt = self.bench.start()
        for line, answer in ((b"put a b", b"stored"), (b"get a", b"b"), (b"help", b"gossamer"),
                             (b"--version", b"gossamer"), (b"get --help", b"gossamer")):
            with self.subTest(line=line):
                prompt.stdin.write(line + b"\n")
                prompt.stdin.flush()
                ready, _, _ = select.select([prompt.stdout], [], [], PATIENCE_SECONDS / 10)
                self.assertTrue(ready, "no answer")
                self.assertTrue(os.read(prompt.stdout.fileno(), 1 << 16).startswith(answer))
        prompt.communicate(timeout=PATIENCE_SECONDS)

    def test_waits_for_a_store(self):
        self.gossamer("--wait=0", "put", "k", "v", status=1, err="^gossamer: there is no store")
        self.gossamer("--wait=1", "put", "k", "v", status=1,
                      err="^gossamer: waiting for the store: there is no store .*\ngossamer: there is no store .*\n$")
        waits = self.bench.start("--wait=100000", "put", "k", "v")
        self.assertRegex(waits.stderr.readline(), b"^gossamer: waiting for the store: there is no store 'default'")
        server = self.bench.memory()
        out, err = waits.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual((waits.returncode, out), (0, b""), err)
        self.assertEqual(self.gossamer("--wait=100", "get", "k").err, "", "a store that is there needs no wait")
        server.stop(signal.SIGKILL)
        waits = self.bench.start("--wait=100000", "get", "k")
        self.assertRegex(waits.stderr.readline(), b"^gossamer: waiting for the store: server 0 .* is dead")
        self.bench.memory()
        waits.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(waits.returncode, 1, "the new store does not have the key")
        waits = self.bench.start("--store=another", "--wait=100000")
        waits.stderr.readline()
        waits.send_signal(signal.SIGINT)
        waits.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(waits.returncode, -signal.SIGINT)

    def test_a_value_goes_through_files(self):
        self.bench.memory()
        value = bytes(range(256)) * 100
        self.gossamer("put", "k", f"--value_file={self.bench.file('in', value)}")
        path = f"{self.bench.directory}/out"
        self.assertEqual(self.gossamer("get", "k", f"--output={path}").out, b"")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), value)
        self.assertEqual(self.gossamer("get", "k", "--output=-").out, value)
        self.gossamer("get", "k", "--output=-", "--json", status=2)

    def test_raw_lines_have_no_escapes(self):
        self.bench.memory()
        lines = b"C:\\temp\\new\tD:\\\nends in \\\t\\x41\n"
        self.gossamer("load", "-", stdin=lines, status=1, err="line 1: byte 15: ")
        self.gossamer("load", "--raw", "-", stdin=lines)
        self.assertEqual(self.gossamer("get", "C:\\temp\\new").out, b"D:\\\n")
        self.assertEqual(self.gossamer("get", "ends in \\").out, b"\\x41\n")

    def test_stat_and_check_show_all_servers(self):
        self.bench.memory()
        self.bench.memory()
        text = b"".join(b"key%d\n" % i for i in range(20_000))
        self.gossamer("load", "-", stdin=text)
        stat = json.loads(self.gossamer("stat", "--json").out)
        self.assertEqual([server["server_id"] for server in stat["servers"]], [0, 1])
        self.assertRegex(self.gossamer("stat").out, rb"store default .* on fabric shm, \d levels, .*keys")
        self.assertAlmostEqual(stat["keys"] / 20_000, 1, delta=0.1)
        report = self.check()
        self.assertEqual(report["keys"], 20_000)
        self.assertEqual([server["server_id"] for server in report["nodes_per_server"]], [0, 1])
        self.assertTrue(all(server["nodes"] > 0 for server in report["nodes_per_server"]), report)
        self.assertRegex(self.gossamer("check").out, rb"^store default: no problem found\n")

    def test_the_memory_that_size_asks_for_holds_the_records(self):
        words = (
            "size", "--json", "--records=60000", "--key_bytes=10", "--value_bytes=40", "--consecutive_keys"
        )
        size = json.loads(self.gossamer(*words, "--store=none").out)  # no store is needed
        program, memory, *flags = size["command"].split()
        self.assertEqual(program, "gossamer-memory")
        self.bench.memory(memory.removeprefix("--memory="), *flags)
        records = [b"user%06d\t%040d\n" % (i, i) for i in range(60_000)]
        random.shuffle(records)
        self.gossamer("load", "-", stdin=b"".join(records))
        best = size["choices"][size["recommended"]]
        live = self.check()["memory"][0]["live_bytes"]
        self.assertAlmostEqual(live / best["used_bytes"], 1, delta=0.1, msg=f"{live}, {best}")
        at_prompt = self.gossamer(stdin=" ".join(words).encode() + b"\nget user000007\n").out
        again = json.loads(at_prompt.splitlines()[0])
        self.assertEqual(again["command"], size["command"])
        self.assertEqual(at_prompt.splitlines()[1], b"%040d" % 7)
        self.gossamer("size", "--records=9", "--key_bytes=1", "--value_bytes=0")
        self.gossamer("size", "--records=9", "--key_bytes=1", status=2, err="--value_bytes=V is missing")

    def test_memcached(self):
        memcached = self.bench.memcached()
        url = f"memcached://127.0.0.1:{memcached.port}"
        self.bench.memory("64MiB", bootstrap=url)
        self.gossamer(f"--bootstrap={url}", "put", "k", "v")
        self.assertEqual(self.gossamer(f"--bootstrap={url}", "get", "k").out, b"v\n")
        self.bench.started.remove(memcached)
        memcached.stop()
        self.gossamer(f"--bootstrap={url}", "get", "k", status=1, err="^gossamer: memcached at .*does not answer")


class BadInput(ProgramTest):
    def test_one_sentence_and_nothing_lost(self):
        self.bench.memory()
        self.gossamer("put", "kept", "value")
        before = self.dump()
        long_key = "k" * 251
        too_long = self.bench.file("too_long", b"v" * (MAX_VALUE + 1))
        down = f"--bootstrap=memcached://127.0.0.1:{free_port()}"
        cases = [
            (["--no_such_flag", "get", "k"], 2, "there is no flag --no_such_flag"),
            (["get", "k", "--limti=3"], 2, "did you mean --limit"),
            (["get", "k", "--limit=3"], 2, "`get` takes no --limit"),
            (["scan", "--limit=abc"], 2, "--limit=abc does not fit"),
            (["nonsense"], 2, "there is no command 'nonsense'"),
            (["get"], 2, "write: gossamer get KEY"),
            (["get", "a", "b"], 2, "write: gossamer get KEY"),
            (["put", "k"], 2, "write a value"),
            (["load"], 2, "write: gossamer load FILE"),
            (["load", "f", "--threads=0"], 2, "--threads must be 1 to"),
            (["load", "f", "--on_error=panic"], 2, "--on_error is stop or skip"),
            (["--fabric=tcp", "get", "k"], 2, "give --fabric=shm or --fabric=verbs"),
            (["--cache_bytes=many", "get", "k"], 2, "is not a size"),
            (["--connection_timeout_ms=0", "get", "k"], 2, "--connection_timeout_ms=0: give 1 to 3600000"),
            (["--bootstrap=nonsense", "get", "k"], 2, "--bootstrap=dir:PATH"),
            (["--store=a/b", "get", "k"], 2, "store name"),
            (["--escaped", "put", "k", "\\x4"], 2, "byte 1: .*cut off"),
            (["put", long_key, "v"], 1, "251"),
            (["get", long_key], 1, "251"),
            (["put", "kept", f"--value_file={too_long}"], 1, "1 MiB"),
            (["put", "kept", "--value_file=/absent"], 1, "No such file"),
            (["load", "/absent"], 1, "No such file"),
            (["load", "/"], 1, "is a directory"),
            (["--store=absent", "get", "k"], 1, "there is no .*absent.*gossamer-memory"),
            ([down, "get", "k"], 1, "memcached at .*does not answer"),
        ]
        for words, status, sentence in cases:
            with self.subTest(words=[word[:60] for word in words]):
                outcome = self.bench.run(*words)
                self.assertEqual(outcome.status, status, outcome)
                self.assertRegex(outcome.err, sentence)
                self.assertEqual(len(outcome.err.splitlines()), 1, f"not one sentence: {outcome}")
                self.assertTrue(outcome.err.startswith("gossamer: "), outcome)
                self.assertEqual(outcome.out, b"")
        self.assertEqual(self.dump(), before)
        self.check()

    def test_json_errors_are_json(self):
        self.bench.memory()
        for words, code in [(["get", "absent"], "NotFound"), (["put", "k" * 251, "v"], "InvalidArgument"),
                            (["--store=absent", "stat"], "NotFound")]:
            outcome = self.gossamer("--json", *words, status=1)
            self.assertEqual(json.loads(outcome.out)["error"]["code"], code)

    @unittest.skipIf(os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"),
                     "this machine has an RDMA device")
    def test_no_rdma_device(self):
        self.bench.memory()
        self.gossamer("put", "kept", "value")
        self.gossamer("--fabric=verbs", "get", "kept", status=1, err="^gossamer: no RDMA device on this machine")
        self.assertEqual(self.dump(), b"kept\tvalue\n")

    def test_a_reader_that_may_not_map_the_memory(self):
        if re.search("build-[at]san", BIN_DIR):
            self.skipTest("a sanitizer reserves terabytes of addresses")
        self.bench.memory("512MiB")
        self.gossamer("put", "k", "v")
        limited = subprocess.run(["sh", "-c", 'ulimit -v 400000 && exec "$@"', "sh", *self.bench.command(["get", "k", "--json"])],
                                 capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        outcome = Outcome(limited.returncode, limited.stdout, limited.stderr)
        self.assertEqual(outcome.status, 1, outcome)
        self.assertEqual(json.loads(outcome.out)["error"]["code"], "NoResources", outcome)
        self.assertRegex(outcome.err, r"^gossamer: server 0 .*mapping \d+ bytes.*raise `ulimit -v` by \d+\)\n$")
        self.gossamer("get", "k")

    def test_a_damaged_region_header(self):
        server = self.bench.memory()
        self.gossamer("put", "k", "v")
        descriptors = [f"/proc/{server.process.pid}/fd/{name}" for name in os.listdir(f"/proc/{server.process.pid}/fd")]
        [memory] = [path for path in descriptors if "gossamer-region" in os.readlink(path)]
        region = open(memory, "r+b", buffering=0)
        self.addCleanup(region.close)
        header = os.pread(region.fileno(), 64, 0)
        for at, sentence in ((0, "not a Gossamer region"), (40, "region header does not match its checksum")):
            damaged = bytearray(header)
            damaged[at] ^= 1
            os.pwrite(region.fileno(), damaged, 0)
            outcome = self.gossamer("get", "k", "--json", status=1, err=f"^gossamer: server 0 .*: server 0, offset 0: {sentence}")
            self.assertEqual(json.loads(outcome.out)["error"]["code"], "Corruption", outcome)
            os.pwrite(region.fileno(), header, 0)
            self.gossamer("get", "k")

    def test_load_files_with_a_bad_line(self):
        self.bench.memory()
        self.gossamer("put", "kept", "value")
        cases = [
            (b"a\t1\nb\t2\nc\t3\\", 3, "line 3: byte 4: .*cut off"),
            (b"a\t1\nb\t2\nc\t3\\x4", 3, "line 3: byte 4: .*cut off"),
            (b"a\t1\nb\t2\nc\\q\td\ne\n", 3, "line 3: byte 2: .*write"),
            (b"a\t1\nb\t2\n" + b"k" * 251 + b"\tv\ne\n", 3, "line 3: a key of 251 B is too long"),
            (b"a\t1\nb\t2\nc\t" + b"v" * (MAX_VALUE + 1) + b"\ne\n", 3, "line 3: a value of 1,048,577 B"),
            (b"a\t1\nb\t2\nc\t" + b"v" * (5 << 20) + b"\ne\n", 3, "line 3: the line is longer"),
        ]
        for content, line, sentence in cases:
            with self.subTest(sentence=sentence):
                path = self.bench.file("bad", content)
                outcome = self.gossamer("load", path, status=1, err=sentence)
                self.assertRegex(outcome.err, f"2 lines of .* were loaded; to go on behind the bad line: "
                                              f"gossamer load --from_line={line + 1} {path} "
                                              r"\(--on_error=skip passes over every bad line\)\n")
                self.assertEqual(self.dump(), b"a\t1\nb\t2\nkept\tvalue\n")
                # The advised command works, and loads the lines after the bad one.
                self.gossamer("load", f"--from_line={line + 1}", path)
                self.bench.run("delete", "e")
                self.gossamer("delete", "a")
                self.gossamer("delete", "b")
        path = self.bench.file("bad", b"a\t1\n\\q\nb\t2\n")
        self.gossamer("load", "--on_error=skip", path, status=1, err="line 2 skipped: byte 1")
        self.assertEqual(self.dump(), b"a\t1\nb\t2\nkept\tvalue\n")
        self.check()

    def test_a_load_in_order_leaves_room_for_keys_in_between(self):
        self.bench.memory()
        live = lambda: sum(server["live_bytes"] for server in self.check()["memory"])
        self.gossamer("load", "-", stdin=b"".join(b"key%07d\tvalue\n" % i for i in range(0, 100_000, 2)))
        before = live()
        self.gossamer("load", "-", stdin=b"".join(b"key%07d\tvalue\n" % (i * 7919 % 100_000 | 1) for i in range(500)))
        self.assertLess(live(), 1.1 * before)

    def test_last_line_without_newline_is_loaded(self):
        self.bench.memory()
        self.gossamer("load", "-", stdin=b"a\t1\nb\t2", err="does not end in a newline")
        self.assertEqual(self.dump(), b"a\t1\nb\t2\n")


class Trouble(ProgramTest):
    def test_memory_full_keeps_what_is_stored_and_goes_on(self):
        self.bench.memory("4MiB")
        value = "v" * 15
        count = 300_000
        path = self.bench.file("load", "".join(f"key{i:07}\t{value}\n" for i in range(1, count + 1)).encode())
        outcome = self.gossamer("load", path, status=1)
        match = re.search(r"([\d,]+) lines of .* were loaded; to go on: gossamer load --from_line=(\d+)",
                          outcome.err)
        self.assertIsNotNone(match, outcome)
        loaded, resume = int(match[1].replace(",", "")), int(match[2])
        self.assertGreaterEqual(loaded, resume - 1)
        self.assertEqual("(may put some lines again)" in outcome.err, loaded > resume - 1, outcome)
        self.assertGreater(resume, 1000)
        dumped = self.dump().decode().splitlines()
        self.assertEqual(len(dumped), loaded)
        self.assertEqual(dumped[:resume - 1], [f"key{i:07}\t{value}" for i in range(1, resume)])
        self.assertEqual(self.check()["keys"], loaded)
        # A full store still reads, overwrites and deletes.
        self.gossamer("get", "key0000001")
        self.gossamer("put", "key0000001", "new")
        self.gossamer("delete", "key0000002")
        # With more memory, the load resumes where it ended.
        self.bench.memory("64MiB")
        self.gossamer("load", f"--from_line={resume}", path)
        self.assertEqual(self.check()["keys"], count - 1)

    def test_interrupted_load_says_where_to_go_on(self):
        self.bench.memory()
        load = self.bench.start("load", "-")
        load.stdin.write(b"".join(b"key%d\n" % i for i in range(1000)))
        load.stdin.flush()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.bench.run("get", "key999").status != 0:
            self.assertLess(time.monotonic(), deadline, "lines wait for the end of the pipe")
        load.send_signal(signal.SIGINT)
        out, err = load.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(load.returncode, 130, err)
        self.assertRegex(out, rb"^loaded 1,000 lines")
        self.assertRegex(err, rb"stopped by a signal\n.*--from_line=1001 -\n")
        self.assertEqual(self.check()["keys"], 1000)

    def test_dump_salvages_what_can_be_reached(self):
        self.bench.memory()
        second = self.bench.memory()
        keys = [b"key%06d" % i for i in range(20_000)]
        lines = [key + b"\t" + (b"v" * (100 if i % 10 == 0 else 8)) + b"\n" for i, key in enumerate(keys)]
        self.gossamer("load", "-", stdin=b"".join(lines))
        address = json.loads(self.gossamer("stat", "--json").out)["servers"][1]["address"]
        prompt = self.bench.start()
        prompt.stdin.write(b"dump --salvage\nput opened yes\n")
        prompt.stdin.flush()
        whole = b"".join(prompt.stdout.readline() for _ in lines)
        self.assertEqual(whole, b"".join(lines))
        self.assertEqual(prompt.stdout.readline(), b"stored\n")
        second.stop(signal.SIGKILL)
        out, err = prompt.communicate(b"dump --salvage --json\n", timeout=PATIENCE_SECONDS)
        self.assertEqual(prompt.returncode, 1, err)
        self.assertEqual(err.count(b": memory server 1 at " + address.encode() + b" cannot be reached"), 1, err)
        self.assertLess(err.count(b"\n"), 30, err)
        objects = [json.loads(line) for line in out.splitlines()]
        dumped = [f"{one['key']}\t{one['value']}\n".encode() for one in objects if "key" in one]
        missing = []
        for low, high in [(one["missing"]["from"], one["missing"].get("to")) for one in objects if "missing" in one]:
            alone = high == low + "\0"
            missing.append((low.encode() if alone else b"", low.encode(), (high or "").encode()))
        self.assertGreater(len(missing), 10)
        self.assertTrue(set(dumped) <= {*lines, b"opened\tyes\n"})
        self.assertGreater(len(dumped), 1000)
        self.assertLess(len(dumped), len(lines) - 1000)
        # Each key is either returned or in a missing range, never both.
        there = {line.split(b"\t")[0] for line in dumped}
        alone = {key for key, _, _ in missing if key}
        ranges = sorted((low, high) for key, low, high in missing if not key)
        at = 0
        for key in keys:
            while at < len(ranges) and ranges[at][1] and key >= ranges[at][1]:
                at += 1
            is_missing = key in alone or (at < len(ranges) and ranges[at][0] <= key)
            self.assertNotEqual(key in there, is_missing, key)

    def test_a_store_that_has_lost_a_server_is_repaired(self):
        self.bench.memory()
        second = self.bench.memory()
        pairs = {f"key{i:06d}": "v" * (100 if i % 10 == 0 else 8) for i in range(20_000)}
        lines = "".join(f"{key}\t{value}\n" for key, value in pairs.items()).encode()
        self.gossamer("load", "-", stdin=lines)
        second.stop(signal.SIGKILL)
        self.gossamer("repair", status=1, err="memory server 1")  # it may come back
        self.bench.memory("64MiB", "--forget_dead")
        salvaged = self.gossamer("dump", "--salvage", status=1).out
        dry = json.loads(self.gossamer("repair", "--dry_run", "--json").out)
        self.assertEqual(dry["lost_servers"], [1])
        self.assertGreater(dry["lost_leaves"], 100)
        self.gossamer("dump", status=1)
        self.gossamer("delete", "--all", status=1)
        self.gossamer("load", "-", stdin=salvaged)  # what was deleted just now
        done = json.loads(self.gossamer("repair", "--json").out)
        self.assertEqual(done["ranges"], dry["ranges"])
        self.assertEqual(self.dump(), salvaged)
        self.assertEqual(self.check()["keys"], done["keys"])
        self.assertIn(b"nothing is lost", self.gossamer("repair").out)
        self.gossamer("load", "-", stdin=lines)
        self.assertEqual(self.dump(), lines)
        self.gossamer("delete", "--all")
        self.assertEqual(self.check()["keys"], 0)

    def test_dump_salvages_without_the_root(self):
        root = self.bench.memory()
        self.bench.memory()
        lines = [b"key%06d\tv%d\n" % (i, i) for i in range(20_000)]
        self.gossamer("load", "-", stdin=b"".join(lines))
        root.stop(signal.SIGKILL)
        self.gossamer("dump", status=1, err="server 0")
        outcome = self.gossamer("dump", "--salvage", status=1, err="memory server 0 is lost")
        found = outcome.out.splitlines(keepends=True)
        self.assertTrue(set(found) <= set(lines))
        self.assertGreater(len(found), 5000)
        self.assertEqual(found, sorted(found))
        self.assertLess(outcome.err.count("\n"), 10)

    def test_killed_load_leaves_a_valid_store(self):
        self.bench.memory()
        load = self.bench.start("load", "-")
        load.stdin.write(b"".join(b"key%d\n" % i for i in range(100_000)))
        load.kill()
        load.communicate(timeout=PATIENCE_SECONDS)
        self.gossamer("put", "after", "the kill")
        self.assertEqual(self.gossamer("get", "after").out, b"the kill\n")

    def test_server_that_died_is_an_error_in_bounded_time(self):
        server = self.bench.memory()
        self.gossamer("put", "k", "v")
        server.stop(signal.SIGKILL)
        for words in (["get", "k"], ["put", "k", "v"], ["scan"], ["check"], ["stat"]):
            outcome = self.gossamer(*words, status=1)
            self.assertRegex(outcome.err, "^gossamer: .*(server|store)")



class BenchOnAStoreThatRuns(ProgramTest):
    def gossamer_bench(self, *flags):
        """Without --bootstrap: the default directory, which this test sets."""
        done = subprocess.run([f"{BIN_DIR}/gossamer-bench", "--records=100", "--operations=100", *flags],
                              capture_output=True, timeout=PATIENCE_SECONDS, check=False,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.bench.directory})
        return Outcome(done.returncode, done.stdout, done.stderr)

    def test_keys_of_a_person_are_left_alone_unless_the_store_is_named(self):
        self.bench.bootstrap = f"dir:{self.bench.directory}/gossamer"
        self.bench.memory()
        self.gossamer("put", "kept", "value")
        for flags in ([], ["--phase=load"], ["--phase=run", "--workload=a"]):
            with self.subTest(flags=flags):
                outcome = self.gossamer_bench(*flags)
                self.assertEqual(outcome.status, 2, outcome)
                self.assertRegex(outcome.err, "^gossamer-bench: the store 'default' has keys, .*--store=default.*--local")
                self.assertEqual(outcome.out, b"")
        self.assertEqual(self.dump(), b"kept\tvalue\n")
        # Reading is harmless.
        self.assertRegex(self.gossamer_bench("--phase=run").err, "fewer than --records=100")
        self.assertEqual(self.gossamer_bench("--store=default").status, 0)
        self.assertEqual(self.check()["keys"], 101)

    def test_an_empty_store_needs_no_name(self):
        self.bench.bootstrap = f"dir:{self.bench.directory}/gossamer"
        self.bench.memory()
        outcome = self.gossamer_bench()
        self.assertEqual(outcome.status, 0, outcome)
        self.assertEqual(self.gossamer_bench(f"--bootstrap={self.bench.bootstrap}").status, 0)


class Streams(ProgramTest):
    """Standard streams that are closed or accept no data."""

    def shell(self, command, *words):
        """Runs `command` in a shell, with the words as "$@"."""
        done = subprocess.run(["sh", "-c", command, "sh", *words], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE_SECONDS, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def closed(self, redirection, *words):
        return self.shell(f'"$@" {redirection}', *self.bench.command(words))

    def test_closed_standard_input_is_a_sentence(self):
        self.bench.memory()
        for words in ([], ["load", "-"], ["put", "k", "--value_file=-"]):
            with self.subTest(words=words):
                outcome = self.closed("<&-", *words)
                self.assertEqual(outcome.status, 1, outcome)
                self.assertRegex(outcome.err, "^gossamer: .*standard input.*: it is closed\n")
        self.assertEqual(self.closed("<&-", "put", "k", "v").status, 0)
        self.assertEqual(self.closed("<&-", "get", "k").out, b"v\n")

    def test_closed_standard_output_and_error(self):
        self.bench.memory()
        self.assertEqual(self.closed(">&-", "put", "k", "v").status, 0)
        outcome = self.closed(">&-", "get", "k")
        self.assertEqual((outcome.status, outcome.err),
                         (1, "gossamer: cannot write to standard output: it is closed\n"))
        self.assertEqual(self.closed("2>&-", "get", "k").out, b"v\n")
        self.assertEqual(self.closed("<&- 2>&-", "get", "absent").status, 1)
        self.check()

    def test_a_value_from_a_pipe_that_does_not_block(self):
        self.bench.memory()
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        put = subprocess.Popen(self.bench.command(["put", "k", "--value_file=-"]), stdin=read_fd,
                               stderr=subprocess.PIPE)
        os.close(read_fd)
        self.assertRaises(subprocess.TimeoutExpired, put.wait, 0.5)
        os.write(write_fd, b"late")
        os.close(write_fd)
        self.assertEqual(put.communicate(timeout=PATIENCE_SECONDS)[1], b"")
        self.assertEqual(self.gossamer("get", "k").out, b"late\n")

    def test_a_memory_server_serves_with_closed_streams(self):
        command = ["sh", "-c", '"$@" <&- >&- 2>&- & echo $!', "sh", f"{BIN_DIR}/gossamer-memory", "--memory=16MiB",
                   f"--bootstrap={self.bench.bootstrap}"]
        pid = int(subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True).stdout)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.bench.run("put", "k", "v").status != 0:
            self.assertLess(time.monotonic(), deadline, "the server does not serve")
            time.sleep(0.05)
        self.check()

    def test_full_disk_is_not_success(self):
        self.bench.memory()
        self.gossamer("put", "k", "v")
        local = [f"{BIN_DIR}/gossamer-bench", "--local=16MiB", "--records=10", "--operations=10"]
        commands = [self.bench.command(words) for words in (
            ["get", "k"], ["get", "k", "--json"], ["scan"], ["dump"], ["stat"], ["check"], ["load", "/dev/null"],
            ["help"], ["help", "get"], ["--help"], ["--version"])]
        commands += [[f"{BIN_DIR}/{program}", flag] for flag in ("--help", "--version")
                     for program in ("gossamer-memory", "gossamer-bench", "gossamer-sim")]
        commands += [local, [*local, "--json=-"], [f"{BIN_DIR}/gossamer-sim", "--operations=10"],
                     [f"{BIN_DIR}/gossamer-sim", "--profile=list"]]
        # The ThreadSanitizer build omits the simulator, which has one thread.
        commands = [words for words in commands if os.path.exists(words[0])]
        for words in commands:
            with self.subTest(words=words):
                outcome = self.shell('"$@" >/dev/full', *words)
                self.assertEqual(outcome.status, 1, outcome)
                self.assertEqual(outcome.err.count("cannot write to standard output: No space left on device\n"), 1,
                                 outcome)
        outcome = self.shell('"$@"', *local, "--json=/dev/full")
        self.assertEqual(outcome.status, 1, outcome)
        self.assertRegex(outcome.err, "gossamer-bench: cannot write /dev/full: No space left on device\n$")

    def test_commands_of_a_pipe_each_say_that_the_disk_is_full(self):
        self.bench.memory()
        outcome = self.shell('printf "put k v\\nget k\\nhelp\\n" | "$@" >/dev/full', *self.bench.command([]))
        self.assertEqual(outcome.status, 1, outcome)
        self.assertEqual(outcome.err, 3 * "gossamer: cannot write to standard output: No space left on device\n")


if __name__ == "__main__":
    BIN_DIR = sys.argv.pop(1)
    unittest.main(verbosity=2)
