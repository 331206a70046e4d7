#!/usr/bin/env python3
"""gossamer-compute --evict, of a store that is full: eviction_test.py DIRECTORY_OF_PROGRAMS.

Real processes: a memory server, one or two compute servers, and many clients that write at a time.
"""

import json
import random
import subprocess
import sys
import threading
import time
import unittest

from compute_server import BIN, ComputeServerTest, encode

MIB = 1 << 20
BODY = random.Random(1).randbytes(10_000)


class EvictionTest(ComputeServerTest):
    def start_two(self, *flags):
        self.start_memory()
        servers = [self.start_compute(f"--redis=unix:{self.directory}/redis{i}", *flags) for i in range(2)]
        for process, _ in servers:
            # The log is read as it comes: a server must not wait for room in its pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
        return [address for _, address in servers]

    def info(self, client):
        return dict(line.split(":", 1) for line in client.ask("INFO").decode().split("\r\n") if ":" in line)

    def fill(self, address, seed, total, depth, errors):
        """Writes `total` bytes, in pipelines."""
        client = self.client(address)
        generator = random.Random(seed)
        written = 0
        while written < total:
            request = b""
            for _ in range(depth):
                value = BODY[: generator.randrange(100, len(BODY))]
                request += encode("SET", b"key:%d:%d" % (seed, generator.getrandbits(40)), value)
                written += len(value)
            client.socket.sendall(request)
            errors += [reply for reply in (client.reply() for _ in range(depth)) if reply != b"+OK"]

    def used_bytes(self):
        """What the memory servers have handed out."""
        told = subprocess.run([BIN / "gossamer", "stat", "--quick", "--json", self.bootstrap], capture_output=True, text=True, check=True)
        return sum(server["heap_bytes"] - server["free_bytes"] for server in json.loads(told.stdout)["servers"])

    def test_ten_times_its_memory_goes_through_a_store(self):
        addresses = self.start_two("--evict=lru")
        errors = []
        writers = [
            threading.Thread(target=self.fill, args=(addresses[seed % 2], seed, 40 * MIB, 16, errors)) for seed in range(16)
        ]
        hot = [self.client(address) for address in addresses]
        keys = [b"hot:%d" % number for number in range(100)]
        misses = rounds = 0
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            for client in hot:
                for key, found in zip(keys, client.ask("MGET", *keys)):
                    if found is None:
                        misses += 1
                        self.assertEqual(client.ask("SET", key, "x" * 100), b"+OK")
                rounds += 1
        for writer in writers:
            writer.join()
        self.assertEqual(errors, [], "nothing is refused")
        self.assertLess(misses, 100 + rounds * len(keys) // 10, "hot keys stay")
        self.assertLessEqual(self.used_bytes(), 64 * MIB)
        figures = [self.info(client) for client in hot]
        self.assertGreater(sum(int(one["evicted_keys"]) for one in figures), 50_000)
        for one in figures:
            self.assertEqual(one["maxmemory_policy"], "allkeys-lru")
            self.assertGreater(int(one["maxmemory"]), 50 * MIB)
        checked = subprocess.run([BIN / "gossamer", "check", self.bootstrap], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_what_others_put_and_use_stays(self):
        busy, calm = self.start_two("--evict=lru")
        client = self.client(calm)
        keys = [b"calm:%d" % number for number in range(1000)]
        for key in keys:
            self.assertEqual(client.ask("SET", key, BODY[:1000]), b"+OK")
        errors = []
        self.fill(busy, 1, 300 * MIB, 64, errors)
        self.assertEqual(errors, [])
        # The busy one knows of none of these keys, and writes five times the memory: so it would have evicted nearly all.
        left = sum(found is not None for found in client.ask("MGET", *keys))
        self.assertGreater(left, 300)

    def test_the_limit_is_kept(self):
        addresses = self.start_two("--evict=lru", "--max_memory=20MiB")
        errors = []
        for address in addresses:
            self.fill(address, 1, 60 * MIB, 64, errors)
        self.assertEqual(errors, [])
        client = self.client(addresses[0])
        self.assertEqual(client.ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"%d" % (20 * MIB)])
        # Compute servers give back within seconds what they keep beyond the limit, but for some chunks of 1 MiB.
        for _ in range(600):
            if self.used_bytes() < 28 * MIB:
                break
            time.sleep(0.1)
        self.assertLess(self.used_bytes(), 28 * MIB)
        self.assertGreater(client.ask("DBSIZE"), 1000)

    def test_without_a_time_keys_stay(self):
        self.start_memory()
        _, address = self.start_compute("--evict=ttl")
        client = self.client(address)
        kept = [b"kept:%d" % number for number in range(500)]
        for key in kept:
            self.assertEqual(client.ask("SET", key, BODY[:1000]), b"+OK")
        for first in range(0, 40_000, 100):
            client.socket.sendall(b"".join(encode("SET", b"session:%d" % i, BODY[:5000], "EX", "10000") for i in range(first, first + 100)))
            for _ in range(100):
                self.assertEqual(client.reply(), b"+OK")
        self.assertNotIn(None, client.ask("MGET", *kept))
        self.assertEqual(self.info(client)["maxmemory_policy"], "volatile-ttl")
        # Now there are those only that have no time.
        client.ask("GOSSAMER.DELRANGE", "PREFIX", "session:")
        number, reply = 0, b"+OK"
        while reply == b"+OK" and number < 100_000:
            reply = client.ask("SET", b"more:%d" % number, BODY[:5000])
            number += 1
        self.assertTrue(reply.startswith(b"-OOM"), reply)
        self.assertGreater(number, 5_000)
        self.assertNotIn(None, client.ask("MGET", *kept))

    def test_hashes_go_too(self):
        self.start_memory()
        _, address = self.start_compute("--evict=lru")
        client = self.client(address)
        for first in range(0, 30_000, 100):
            client.socket.sendall(b"".join(encode("HSET", b"hash:%d" % i, "field", BODY[:5000]) for i in range(first, first + 100)))
            for _ in range(100):
                self.assertEqual(client.reply(), 1)
        self.assertGreater(int(self.info(client)["evicted_keys"]), 10_000)

    def test_wrong_flags_are_refused(self):
        for flags, sentence in (
            (["--evict=lfu"], "give none, ttl or lru"),
            (["--max_memory=1GiB"], "give --evict, too"),
            (["--evict=lru", "--max_memory=1KiB"], "give 1 MiB or more"),
        ):
            done = self.run_compute(*flags)
            self.assertEqual(done.returncode, 2)
            self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
