#!/usr/bin/env python3
"""Saved files over RDMA, and where the clock is set: save_soft_roce_test.py BIN_DIRECTORY, by scripts/soft_roce run.

Processors are slow there: stores are small, and servers do without the test of the device.
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import save_test
from programs import PATIENCE_SECONDS, free_port

ADDRESS = os.environ.get("SOFT_ROCE_ADDRESS")
PATIENCE_MS = 100_000
DAY = 86_400  # seconds


class Writer:
    """A client that puts 0, 1, 2, … at seven keys in turn, each behind the answer to the one before."""

    def __init__(self, test):
        self.test = test
        self.count = 0
        self.status = 0
        self.client = test.bench.start(stderr=subprocess.STDOUT)

    def put(self):
        self.client.stdin.write(f"put count:{self.count % 7} {self.count}\n".encode())
        self.client.stdin.flush()
        answer = self.client.stdout.readline()
        while answer[:1] in (b"I", b"W"):  # of its log
            answer = self.client.stdout.readline()
        if answer == b"stored\n":
            self.count += 1
        else:  # The one other answer that RDMA may have where a memory server ends. It is put again.
            self.test.assertRegex(answer, b"was lost during the write: read to find out")
            self.status = 1

    def end(self):
        said, _ = self.client.communicate(timeout=PATIENCE_SECONDS)
        self.test.assertEqual(self.client.returncode, self.status, said)


class OverVerbs(save_test.SaveTest):
    def setUp(self):
        super().setUp()
        self.bench.client_flags = ["--fabric=verbs", f"--reconnect_ms={PATIENCE_MS}"]
        self.directories = [f"{self.bench.directory}/{name}" for name in ("a", "b")]
        for directory in self.directories:
            os.mkdir(directory)

    def start_server(self, number):
        """With what it held, if its region is there, and else from its saved file."""
        directory = self.directories[number]
        return self.bench.memory("32MiB", "--fabric=verbs", f"--listen={ADDRESS}:{free_port()}", "--nolitmus",
                                 f"--save={directory}", f"--region={directory}/region")

    def end_machine(self, servers):
        """What a restart of the machine leaves: saved files, but neither regions nor the record."""
        for server in servers:
            server.stop(signal.SIGKILL)
        for directory in self.directories:
            os.remove(f"{directory}/region")
        self.lose_record()

    def save(self):
        """Returns the set, which all servers have, and nothing else."""
        saved = json.loads(self.gossamer("save", "--json").out)["set"]
        for directory in self.directories:
            self.assertEqual([os.path.basename(file).split(".")[1] for file in self.files(directory)], [saved])
        return saved

    def store_id(self):
        return json.loads(self.gossamer("stat", "--json").out)["store_id"]

    def test_what_was_saved_while_a_client_wrote_is_loaded(self):
        servers = [self.start_server(number) for number in range(2)]
        records = self.records(300)
        self.load(records)
        writer = Writer(self)
        saver = self.bench.start("save", "--json")
        while saver.poll() is None or writer.count < 14:
            writer.put()
        writer.end()
        out, complained = saver.communicate()
        self.assertEqual(saver.returncode, 0, complained)
        for directory in self.directories:
            self.assertEqual(len(self.files(directory)), 1)
            self.assertIn(json.loads(out)["set"], self.files(directory)[0])
        store = self.store_id()

        self.end_machine(servers)
        for number in (1, 0):
            self.start_server(number)
        # Of one moment: the writes up to one of them, and none behind it.
        found = dict(line.split("\t", 1) for line in self.gossamer("dump").out.decode().splitlines())
        counts = sorted(int(found.pop(key)) for key in list(found) if key.startswith("count:"))
        self.assertEqual(found, records)
        if counts:
            self.assertEqual(counts, list(range(counts[0], counts[-1] + 1)))
            self.assertLess(counts[-1], writer.count)
            self.assertTrue(len(counts) == 7 or counts[0] == 0, counts)
        self.assertTrue(json.loads(self.gossamer("check", "--json").out)["ok"])
        self.assertNotEqual(self.store_id(), store, "it has gone back")

    def test_what_is_loaded_is_the_latest_though_the_clock_was_set(self):
        if "SOFT_ROCE_GUEST" not in os.environ:
            self.skipTest("the clock here is not that of this run alone")
        began = (time.time(), time.monotonic())
        self.addCleanup(lambda: time.clock_settime(time.CLOCK_REALTIME, began[0] + time.monotonic() - began[1]))
        servers = [self.start_server(number) for number in range(2)]
        records = {}
        for seconds in (-DAY, 365 * DAY):
            records |= self.records(100)
            self.load(records)
            before = self.save()
            store = self.store_id()
            time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)
            # They go on with what they hold, one after the other.
            for number, server in enumerate(servers):
                server.stop(signal.SIGKILL)
                servers[number] = self.start_server(number)
                records |= self.records(20)
                self.load(records)
            self.expect(records)
            self.assertEqual(self.store_id(), store)
            # The first to stop does not know that the other one will save, too: it keeps both of its files.
            for server in servers:
                self.assertEqual(server.stop(), 0)
            self.assertEqual([len(self.files(directory)) for directory in self.directories], [2, 1])
            self.assertTrue(any(before in file for file in self.files(self.directories[0])))
            self.end_machine(servers)
            servers = [self.start_server(number) for number in range(2)]
            self.expect(records)


if __name__ == "__main__":
    if ADDRESS is None:
        print("no RDMA device: run this by scripts/soft_roce run -- …")
        sys.exit(77)
    save_test.BIN_DIR = sys.argv.pop(1)
    unittest.main()
