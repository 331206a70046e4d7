#!/usr/bin/env python3
"""Saved files as a person uses them, on real memory servers: save_test.py BIN_DIRECTORY."""

import concurrent.futures
import fcntl
import glob
import json
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from programs import PATIENCE_SECONDS, Bench

BIN_DIR = "build/bin"


class SaveTest(unittest.TestCase):
    def setUp(self):
        self.bench = Bench(BIN_DIR)
        self.addCleanup(self.bench.__exit__)
        self.saved = f"{self.bench.directory}/saved"
        os.mkdir(self.saved)
        self.random = random.Random(int(os.environ.get("GOSSAMER_TEST_SEED", "1")))

    def memory(self, *flags, save=None):
        return self.bench.memory("32MiB", f"--save={save or self.saved}", *flags)

    def gossamer(self, *words, status=0, err=None, stdin=b""):
        outcome = self.bench.run(*words, stdin=stdin)
        self.assertEqual(outcome.status, status, f"{words}: {outcome}")
        if err is not None:
            self.assertRegex(outcome.err, err, f"{words}")
        return outcome

    def records(self, count):
        """Lines for load: values in the leaves and in blocks, some keys long."""
        def key():
            long = "x" * self.random.choice([0, 0, 0, 100])
            return f"key{self.random.randrange(10**9):09}{long}"
        return {key(): "v" * self.random.choice([3, 16, 100, 3000]) + str(i) for i in range(count)}

    def load(self, records):
        lines = "".join(f"{key}\t{value}\n" for key, value in records.items())
        self.gossamer("load", "-", stdin=lines.encode())

    def expect(self, records):
        dumped = dict(line.split("\t", 1) for line in self.gossamer("dump").out.decode().splitlines())
        self.assertEqual(dumped, records)
        self.assertTrue(json.loads(self.gossamer("check", "--json").out)["ok"])

    def files(self, directory=None):
        return sorted(glob.glob(f"{directory or self.saved}/*.saved"))

    @staticmethod
    def bytes_of(path):
        with open(path, "rb") as file:
            return file.read()

    def two_servers(self):
        """With a directory each, and records on both."""
        directories = [f"{self.bench.directory}/{name}" for name in ("a", "b")]
        for directory in directories:
            os.mkdir(directory)
        servers = [self.memory(save=directory) for directory in directories]
        records = self.records(3000)
        self.load(records)
        return directories, servers, records

    def gone_back_with_the_first_of_two(self):
        """To what both have saved, as they were killed and the record was lost."""
        directories, servers, records = self.two_servers()
        self.gossamer("save")
        for server in servers:
            server.stop(signal.SIGKILL)
        self.lose_record()
        self.memory(save=directories[0])
        return directories, records

    def lose_record(self):
        for name in glob.glob(f"{self.bench.directory}/bootstrap/*"):
            if os.path.isfile(name):
                os.remove(name)


class Restart(SaveTest):
    def test_a_server_that_stops_comes_back_with_what_it_held(self):
        server = self.memory()
        records = self.records(2000)
        self.load(records)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.files()), 1)
        server = self.memory()
        self.expect(records)
        more = self.records(500)
        self.load(more)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.files()), 1, "the file of before is gone")
        self.memory()
        self.expect(records | more)

    def test_one_of_two_servers_is_restarted(self):
        self.memory()
        second = self.memory()
        records = self.records(4000)
        self.load(records)
        second.stop()
        self.memory()
        self.expect(records)

    def test_all_servers_are_restarted_in_another_order_without_the_record(self):
        servers = [self.memory() for _ in range(3)]
        records = self.records(6000)
        self.load(records)
        for server in servers:
            server.stop()
        self.assertEqual(len(self.files()), 3)
        self.lose_record()
        for _ in range(3):
            self.memory()
        self.expect(records)

    def test_a_server_that_was_killed_goes_back_to_what_was_saved(self):
        server = self.memory()
        records = self.records(1000)
        self.load(records)
        report = json.loads(self.gossamer("save", "--json").out)
        self.assertEqual(report["servers"], 1)
        self.assertIn(report["set"], self.files()[0])
        self.load(self.records(200))
        server.stop(signal.SIGKILL)
        self.memory()
        self.expect(records)

    def test_another_size_is_refused(self):
        self.memory().stop()
        with self.assertRaisesRegex(RuntimeError, "give --memory=33554432"):
            self.bench.memory("64MiB", f"--save={self.saved}")


class SaveCommand(SaveTest):
    def test_saves_what_all_servers_hold_while_clients_write(self):
        directories, servers, records = self.two_servers()
        # A client that counts: each of its writes is made after the one before was acknowledged.
        writer = self.bench.start()
        count = 0
        reports = []
        saver = None
        while len(reports) < 3:
            if saver is None:
                saver = self.bench.start("save", "--json")
            writer.stdin.write(f"put count:{count % 7} {count}\nget count:{count % 7}\n".encode())
            writer.stdin.flush()
            self.assertEqual(writer.stdout.readline(), b"stored\n")
            self.assertEqual(writer.stdout.readline().decode(), f"{count}\n")
            count += 1
            if saver.poll() is not None:
                out, err = saver.communicate()
                self.assertEqual(saver.returncode, 0, err)
                reports.append(json.loads(out))
                saver = None
        writer.stdin.close()
        self.assertEqual(writer.wait(timeout=PATIENCE_SECONDS), 0, writer.stderr.read())
        writer.stdout.close()
        writer.stderr.close()
        self.assertEqual(len({report["set"] for report in reports}), 3)
        for directory in directories:
            self.assertEqual(len(self.files(directory)), 1)
            self.assertIn(reports[-1]["set"], self.files(directory)[0])
        for server in servers:
            server.stop(signal.SIGKILL)
        self.lose_record()
        for directory in directories:
            self.memory(save=directory)
        # One moment: the writes up to one of them, and none behind it.
        found = dict(line.split("\t", 1)
                     for line in self.gossamer("dump").out.decode().splitlines())
        counts = sorted(int(value) for key, value in found.items() if key.startswith("count:"))
        self.assertEqual(counts, list(range(counts[0], counts[0] + 7)))
        self.assertLess(counts[-1], count)
        self.assertEqual({key: value for key, value in found.items()
                          if not key.startswith("count:")}, records)
        self.assertTrue(json.loads(self.gossamer("check", "--json").out)["ok"])

    def test_refusals(self):
        self.gossamer("save", status=1, err="there is no record of store 'default'")
        self.memory()
        plain = self.bench.memory("16MiB")
        self.gossamer("save", status=1, err="server 1 .* saves nothing: start it with --save=")
        self.assertIsNone(plain.process.poll())
        self.gossamer("save", "more", status=2)

    def test_a_set_that_is_not_of_all_servers_is_not_mixed_with_another(self):
        directories, servers, records = self.two_servers()
        self.gossamer("save")
        self.load(self.records(300))
        servers[0].stop()                 # saves,
        servers[1].stop(signal.SIGKILL)   # and this one does not
        self.assertEqual([len(self.files(directory)) for directory in directories], [2, 1])
        self.lose_record()
        self.memory(save=directories[1])
        # The one that has two follows.
        self.memory(save=directories[0])
        self.expect(records)

    # Its keys would be taken for lost while it is on its way.
    def test_nothing_is_repaired_before_all_servers_of_the_set_are_back(self):
        directories, records = self.gone_back_with_the_first_of_two()
        new = self.memory("--create=join")
        for flags in ([], ["--dry_run"]):
            self.gossamer("repair", *flags, status=1, err="server 1 has not come back with its file: start it")
        self.memory(save=directories[1])
        self.assertIn(b"nothing is lost", self.gossamer("repair").out)
        self.expect(records)
        self.assertIsNone(new.process.poll())

    def test_a_store_goes_on_without_a_server_of_the_set(self):
        directories, records = self.gone_back_with_the_first_of_two()
        self.memory("--forget_dead")
        self.assertIn(b"memory server 1 is gone", self.gossamer("repair").out)
        with self.assertRaisesRegex(RuntimeError, "is another one now"):
            self.memory(save=directories[1])
        dumped = dict(line.split("\t", 1) for line in self.gossamer("dump").out.decode().splitlines())
        self.assertLess(dumped.items(), records.items())
        self.assertTrue(json.loads(self.gossamer("check", "--json").out)["ok"])

    # Regression: the later file of one server alone was chosen, and the complete set went with the
    # next save.
    def test_a_store_of_which_some_have_a_later_file_goes_back_to_the_set_of_all(self):
        for first in (0, 1):
            with self.subTest(first):
                saved = f"{self.bench.directory}/{first}"
                os.mkdir(saved)
                servers = [self.memory(save=saved) for _ in range(2)]
                records = self.records(500)
                self.load(records)
                self.gossamer("save")
                servers[0].stop()
                servers[0] = self.memory(save=saved)
                self.load(self.records(100))
                for server in servers:
                    server.stop(signal.SIGKILL)
                self.assertEqual(len(self.files(saved)), 3)
                servers = [self.memory(save=saved) for _ in range(2)]
                self.expect(records)
                for server in servers:
                    self.assertEqual(server.stop(), 0)
                self.lose_record()

    # The same without the record, which nobody can know then: nothing is lost before somebody has
    # decided.
    def test_nothing_goes_before_all_servers_are_back(self):
        directories, servers, records = self.two_servers()
        self.gossamer("save")
        self.load(self.records(300))
        servers[0].stop()
        servers[1].stop(signal.SIGKILL)
        self.lose_record()
        complete = [self.files(directory)[0] for directory in directories]
        server = self.memory(save=directories[0])
        with self.assertRaisesRegex(RuntimeError, "went on after the file was saved"):
            self.memory(save=directories[1])
        self.gossamer("save", status=1, err="server 1 .* does not run: start it again")
        self.assertEqual(server.stop(), 0)
        set_of_all = os.path.basename(complete[1]).split(".")[1]
        mine = next(path for path in self.files(directories[0]) if set_of_all in path)
        with self.assertRaisesRegex(RuntimeError, "was saved later. To begin with the later file, leave out --load"):
            self.memory(f"--load={mine}", save=directories[0])
        for path in self.files(directories[0]):
            if path != mine:
                os.remove(path)
        self.memory(f"--load={mine}", save=directories[0])
        self.memory(f"--load={complete[1]}", save=directories[1])
        self.expect(records)

    # A server that was stopped by SIGTERM has all that it held, whoever comes first, and whatever
    # the record says.
    def test_servers_that_were_stopped_come_back_in_any_order(self):
        directories, servers, records = self.two_servers()
        for order in ((0, 1), (1, 0)):
            servers[1].stop()
            servers[0].stop()
            servers[0] = self.memory(save=directories[0])
            more = {f"more{i}{order[0]}": str(i) for i in range(200)}
            # What is on server 1 has to wait.
            for key, value in more.items():
                if self.bench.run("put", key, value, "--reconnect_ms=1", "--lock_timeout_ms=200").status == 0:
                    records[key] = value
                else:
                    break
            servers[0].stop()
            self.lose_record()
            for number in order:
                servers[number] = self.memory(save=directories[number])
            found = dict(line.split("\t", 1) for line in self.gossamer("dump").out.decode().splitlines())
            self.assertEqual({key: found.get(key) for key in records}, records)
            records = found
            self.assertTrue(json.loads(self.gossamer("check", "--json").out)["ok"])

    # Regression: after a restart of one after the other, a crash of all left no set that could be
    # used.
    def test_a_crash_behind_a_rolling_restart_goes_back_to_the_complete_set(self):
        for lost in (False, True):
            with self.subTest(lost):
                directories = [f"{self.bench.directory}/{name}{lost}" for name in ("a", "b")]
                for directory in directories:
                    os.mkdir(directory)
                servers = [self.memory(save=directory) for directory in directories]
                records = self.records(1000)
                self.load(records)
                self.gossamer("save")
                self.load(self.records(100))
                for number, directory in enumerate(directories):
                    self.assertEqual(servers[number].stop(), 0)
                    servers[number] = self.memory(save=directory)
                for server in servers:
                    server.stop(signal.SIGKILL)
                if lost:
                    self.lose_record()
                servers = [self.memory(save=directory) for directory in directories]
                self.expect(records)
                for server in servers:
                    server.stop()
                self.lose_record()

    # Regression: it mixed what the two had at different moments.
    def test_a_region_of_before_is_refused_beside_later_files(self):
        region = f"--region={self.bench.directory}/region"
        self.memory(region).stop()
        self.lose_record()
        server = self.memory()
        records = self.records(500)
        self.load(records)
        server.stop()
        with self.assertRaisesRegex(RuntimeError, "has gone on without that, and saved in"):
            self.memory(region)
        self.memory()
        self.expect(records)

    # Regression: the files of one were removed by a save of the other.
    def test_names_of_stores_may_begin_alike(self):
        self.memory("--store=s-0.x")
        self.gossamer("put", "key", "value", "--store=s-0.x")
        self.gossamer("save", "--store=s-0.x")
        before = self.files()
        self.memory("--store=s")
        self.gossamer("save", "--store=s")
        self.assertEqual(sorted(set(self.files()) & set(before)), before)

    # Regression: what was restored last was chosen once more.
    def test_a_store_that_was_restored_goes_on_with_what_it_saved_then(self):
        directories, servers, records = self.two_servers()
        for _ in range(4):
            for server in servers:
                self.assertEqual(server.stop(), 0)
            self.lose_record()
            servers = [self.memory(save=directory) for directory in directories]
            more = self.records(50)
            self.load(more)
            records |= more
            for server in servers:
                self.assertEqual(server.stop(), 0)
            servers = [self.memory(save=directory) for directory in directories]
            self.expect(records)

    def test_a_store_is_not_created_in_place_of_one_that_awaits_server_0(self):
        directories, servers, records = self.two_servers()
        self.gossamer("save")
        for server in servers:
            server.stop(signal.SIGKILL)
        self.lose_record()
        self.memory(save=directories[1])
        with self.assertRaisesRegex(RuntimeError, "server 0, which has the tree's root, has not come back"):
            self.bench.memory("32MiB")
        self.memory(save=directories[0])
        self.expect(records)

    # Regression: the first save of the new store removed them.
    def test_files_of_the_store_before_are_set_aside(self):
        self.memory().stop()
        before = self.files()
        self.lose_record()
        server = self.memory("--create=new")
        self.load(self.records(100))
        self.gossamer("save")
        self.assertEqual(server.stop(), 0)
        self.assertTrue(os.path.exists(before[0] + ".before"))
        self.assertEqual(len(self.files()), 1)

    # Regression: one that could not serve any more never ended.
    def test_a_server_whose_store_is_lost_ends(self):
        directories, servers, _ = self.two_servers()
        self.gossamer("save")
        servers[0].stop(signal.SIGKILL)
        for path in self.files(directories[0]):
            os.remove(path)
        self.memory(save=directories[0])
        servers[1].process.send_signal(signal.SIGTERM)
        self.assertEqual(servers[1].process.wait(timeout=PATIENCE_SECONDS), 1)
        self.assertIn(b"server 0 of the one before is gone", servers[1].process.stderr.read())
        self.assertEqual(len(self.files(directories[1])), 1)


class Back(SaveTest):
    def copy(self, path):
        return self.bench.file(os.path.basename(path), self.bytes_of(path))

    def expect_to_go_on(self, directories, servers, records):
        """The first to stop keeps two files, of which it begins with the later one, as its record is lost."""
        more = self.records(200)
        self.gossamer("save")
        self.load(more)
        for server in servers:
            self.assertEqual(server.stop(), 0)
        self.assertEqual([len(self.files(directory)) for directory in directories], [2, 1])
        self.lose_record()
        for directory in directories:
            self.memory(save=directory)
        self.expect(records | more)

    # Regression: files were ordered by the number of lives of what they hold.
    def test_a_store_that_has_gone_back_goes_on_from_there(self):
        directories, servers, records = self.two_servers()
        self.gossamer("save")
        backup = [self.copy(self.files(directory)[0]) for directory in directories]
        for _ in range(4):
            self.load(self.records(20))
            self.gossamer("save")
        for server, directory in zip(servers, directories):
            server.stop(signal.SIGKILL)
            for path in self.files(directory):
                os.remove(path)
        self.lose_record()
        servers = [self.memory(f"--load={path}", save=directory) for path, directory in zip(backup, directories)]
        self.expect(records)
        self.expect_to_go_on(directories, servers, records)

    def test_a_region_is_not_taken_for_another_stores(self):
        region = f"{self.bench.directory}/region"
        self.bench.memory("16MiB", f"--region={region}", "--store=one").stop()
        with self.assertRaisesRegex(RuntimeError, "is of store 'one', and --store says 'default': give --store=one"):
            self.bench.memory("16MiB", f"--region={region}")
        self.bench.memory("16MiB", f"--region={region}", "--store=one")

    def test_a_new_store_goes_on_beside_the_files_of_the_one_before(self):
        directories, servers, _ = self.two_servers()
        for _ in range(4):
            self.gossamer("save")
        for server in servers:
            server.stop(signal.SIGKILL)
        self.lose_record()
        directories[1] = self.saved
        servers = [self.memory("--create=new", save=directories[0]), self.memory()]
        self.expect_to_go_on(directories, servers, {})


class Stop(SaveTest):
    def test_asks_before_data_is_lost(self):
        plain = self.bench.memory("16MiB")
        self.load(self.records(100))
        self.gossamer("put", "key", "value")
        self.gossamer("stop", "0", status=2, err="give --lose_data to lose it")
        self.assertEqual(self.gossamer("get", "key").out, b"value\n")
        self.gossamer("stop", "nought", status=2, err="is no number of a memory server")
        self.gossamer("stop", "5", "--lose_data", status=1, err="has no memory server 5")
        self.assertRegex(self.gossamer("stop", "0", "--lose_data").out, b"memory server 0 has stopped")
        self.assertEqual(plain.process.wait(timeout=PATIENCE_SECONDS), 0)
        self.assertIn(b"had handed out is gone with it", plain.process.stderr.read())

    def test_a_server_that_saves_stops_and_comes_back(self):
        server = self.memory()
        self.gossamer("put", "key", "value")
        self.gossamer("stop", "0")
        self.assertEqual(server.process.wait(timeout=PATIENCE_SECONDS), 0)
        self.memory()
        self.assertEqual(self.gossamer("get", "key").out, b"value\n")


class Faults(SaveTest):
    def test_damage_is_refused_and_the_rest_salvaged(self):
        server = self.memory()
        records = {f"key{i:06}": self.random.randbytes(1500).hex() for i in range(4000)}
        self.load(records)
        server.stop()
        path = self.files()[0]
        before = bytearray(self.bytes_of(path))
        before[len(before) * 2 // 3] ^= 1  # among the values
        self.bench.file("damaged", before)
        os.rename(f"{self.bench.directory}/damaged", path)
        with self.assertRaisesRegex(RuntimeError, r"damaged, or cut, at byte \d+ of \d+; .*--salvage"):
            self.memory()
        self.assertEqual(self.bytes_of(path), before)
        self.memory("--salvage")
        dumped = self.bench.run("dump", "--salvage").out.decode().splitlines()
        found = dict(line.split("\t", 1) for line in dumped)
        self.assertTrue(found.items() <= records.items())
        self.assertGreater(len(found), 1000)

    def test_a_file_of_another_store_or_none(self):
        self.memory("--store=other").stop()
        path = self.files()[0]
        with self.assertRaisesRegex(RuntimeError, "it is of store 'other', and --store says 'default'"):
            self.memory(f"--load={path}")
        nothing = self.bench.file("nothing", b"nothing at all")
        with self.assertRaisesRegex(RuntimeError, "no memory server has saved it"):
            self.memory(f"--load={nothing}")
        with self.assertRaisesRegex(RuntimeError, "it is no directory; create it"):
            self.memory(save=f"{self.bench.directory}/missing")

    def test_two_servers_never_have_the_files_of_one(self):
        self.memory().stop()
        path = self.files()[0]
        self.memory()
        with self.assertRaisesRegex(RuntimeError, "another memory server has the files of server 0"):
            self.memory(f"--load={path}", "--store=default")

    # Regression: the record looked like one of all servers, and the files of before went.
    def test_a_server_that_a_lost_record_lacks_is_not_left_behind(self):
        self.two_servers()
        directories = [f"{self.bench.directory}/{name}" for name in ("a", "b")]
        self.gossamer("save")
        late = self.bench.started[1]
        self.addCleanup(late.process.kill)
        late.process.send_signal(signal.SIGSTOP)
        save = self.bench.start("save")
        before = self.await_record(lambda record: len(set(self.noted(record, "saved"))) == 2)
        save.kill()
        save.communicate()
        # It was lost, and the first server alone has put it back.
        lines = [line for line in before.splitlines(keepends=True) if not line.startswith("server=1 ")]
        at = next(i for i, line in enumerate(lines) if line.startswith("next_server="))
        lines.insert(at + 1, "restored=00000000000000ab\n")
        path = self.bench.file("put_back", "".join(lines).encode())
        os.rename(path, f"{self.bench.directory}/bootstrap/default.store")
        first = self.noted(before, "incarnation")[0]
        self.await_record(lambda record: self.noted(record, "incarnation")[0] != first)
        self.assertEqual([len(self.files(directory)) for directory in directories], [2, 1])

    @staticmethod
    def noted(record, what):
        return re.findall(rf" {what}=([0-9a-f]+)", record)

    def await_record(self, is_there):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            record = self.bytes_of(f"{self.bench.directory}/bootstrap/default.store").decode()
            if is_there(record):
                return record
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    # Regression: the files of a server that was killed a moment ago were still locked, and the next
    # one began empty.
    def test_no_empty_store_begins_beside_files_that_another_process_has(self):
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(ending):
                server = self.memory()
                records = self.records(1000)
                self.load(records)
                self.gossamer("save")
                server.stop(ending)
                if ending == signal.SIGTERM:
                    self.lose_record()
                before = self.files()
                with open(before[0].split(".", 1)[0] + ".lock", "rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    with self.assertRaisesRegex(RuntimeError, "other processes have all saved files of store 'default'"):
                        self.memory()
                    with concurrent.futures.ThreadPoolExecutor() as threads:
                        late = threads.submit(self.memory)
                        time.sleep(0.3)
                        fcntl.flock(lock, fcntl.LOCK_UN)
                        late.result()
                self.assertEqual(self.files(), before)
                self.expect(records)
                self.bench.started[-1].stop(signal.SIGKILL)
                self.lose_record()
                os.remove(before[0])

    def test_what_cannot_be_saved_is_not_given_up(self):
        small = f"{self.bench.directory}/small"
        os.mkdir(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small],
                          check=False, capture_output=True).returncode != 0:
            self.skipTest("no tmpfs can be mounted")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", small], check=False))
        server = self.memory(save=small)
        records = self.records(3000)
        for key in records:
            records[key] = "".join(self.random.choices("0123456789abcdef", k=200))
        self.load(records)
        self.gossamer("save", status=1, err="has not saved: see its log")
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"goes on" not in (line := server.process.stderr.readline()):
            self.assertLess(time.monotonic(), deadline)
        self.assertIn(b"cannot be written", line)
        self.assertIsNone(server.process.poll())
        self.expect(records)
        self.assertEqual(self.files(small), [])
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        self.gossamer("save")
        self.assertEqual(server.stop(), 0)
        self.memory(save=small)
        self.expect(records)

    # Regression: the others waited for it for a minute, and clients gave up.
    def test_others_serve_again_at_once_if_one_cannot_save(self):
        small = f"{self.bench.directory}/small"
        os.mkdir(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small],
                          check=False, capture_output=True).returncode != 0:
            self.skipTest("no tmpfs can be mounted")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", small], check=False))
        servers = [self.memory(save=small), self.memory()]
        records = self.records(3000)
        for key in records:
            records[key] = "".join(self.random.choices("0123456789abcdef", k=200))
        self.load(records)
        self.gossamer("save", status=1, err="server 0 .* has not saved: see its log")
        self.expect(records)
        self.gossamer("stop", "0", status=1, err="goes on, because it cannot save")
        self.expect(records)
        self.assertEqual([server.process.poll() for server in servers], [None, None])

    def test_killed_in_the_middle_of_saving(self):
        server = self.memory()
        records = self.records(3000)
        self.load(records)
        self.gossamer("save")
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not glob.glob(f"{self.saved}/*.part") and server.process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
        server.stop(signal.SIGKILL)
        self.memory()
        self.expect(records)


class Formats(SaveTest):
    """Files that an earlier build has made: formats/README.md."""

    FORMATS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "formats")

    def test_a_saved_file_of_an_earlier_build_is_read(self):
        for path in glob.glob(f"{self.FORMATS}/*.saved"):
            with self.subTest(path):
                server = self.bench.memory("8MiB", f"--load={path}")
                self.expect_known()
                server.stop()
                self.lose_record()

    def test_a_region_of_an_earlier_build_is_gone_on_with(self):
        for path in glob.glob(f"{self.FORMATS}/*.region.xz"):
            with self.subTest(path):
                region = self.bench.file("region", lzma.decompress(self.bytes_of(path)))
                server = self.bench.memory("8MiB", f"--region={region}")
                self.expect_known()
                server.stop()
                os.remove(region)
                self.lose_record()

    def expect_known(self):
        self.expect({f"key{i:04}": f"value {i} " + "x" * (i % 50) for i in range(500)})

    def test_every_program_says_its_formats(self):
        for program in ("gossamer", "gossamer-memory", "gossamer-compute"):
            shown = subprocess.run([f"{BIN_DIR}/{program}", "--version"], capture_output=True, check=True)
            self.assertRegex(shown.stdout, rb"formats store-\d+,region-\d+,saved-\d+")
        self.memory()
        record = self.bytes_of(f"{self.bench.directory}/bootstrap/default.store")
        self.assertRegex(record, rb" formats=store-\d+,region-\d+,saved-\d+ ")


if __name__ == "__main__":
    BIN_DIR = sys.argv.pop(1)
    unittest.main()
