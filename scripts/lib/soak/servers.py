"""The servers of scripts/soak: starts them, watches their memory, descriptors and admin pages, and stops them."""

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


class Server:
    def __init__(self, name, directory, command):
        self.name = name
        self.log = open(directory / f"{name}.log", "wb")
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(directory))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env=environment, text=True)
        self.ready = self.process.stdout.readline()
        if "ready" not in self.ready:
            raise SystemExit(f"soak: {name} does not start: {Path(self.log.name).read_text()}")
        self.admin = self.ready.rsplit("admin ", 1)[1].strip()
        self.samples = []  # (seconds, resident bytes, of these: all but the store's memory)

    def sample(self, seconds):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        sizes = [int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M)[1]) << 10 for name in ("VmRSS", "RssShmem")]
        self.samples.append((seconds, sizes[0], sizes[0] - sizes[1]))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def sizes(self, begin, end):
        """The resident sizes between two times, without the store's memory, of which more and more has been used by somebody."""
        return [own for seconds, _, own in self.samples if begin <= seconds < end]

    def ask_admin(self, path):
        """Returns what is wrong with a page, or None."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=15) as answer:
                text = answer.read().decode()
        except (OSError, urllib.error.URLError) as error:
            return f"{self.name} {path}: {error}"
        expected = {"/healthz": "ok", "/metrics": "process_resident_memory_bytes ", "/": "<html", "/state": '"version"'}[path]
        return None if expected in text else f"{self.name} {path} has no {expected}: {text[:100]}"

    def stop(self):
        """Returns what is wrong, or None."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"{self.name} does not stop on SIGTERM"
        return None if status == 0 else f"{self.name} ended with status {status}"


class Cluster:
    def __init__(self, programs, directory, memory_bytes):
        self.programs = programs
        self.directory = directory
        self.bootstrap = f"--bootstrap=dir:{directory}"
        self.store_bytes = 2 * memory_bytes
        self.servers = []
        self.addresses = []
        admin = "--admin=127.0.0.1:0"
        for number in range(2):
            self.start(f"memory-{number}", "gossamer-memory", admin, f"--memory={memory_bytes}", "--chunk_bytes=256KiB")
        for number in range(2):
            path = f"unix:{directory}/redis-{number}"
            server = self.start(f"compute-{number}", "gossamer-compute", admin, f"--redis={path},127.0.0.1:0",
                                f"--threads={number + 1}", "--wait=30")
            port = re.search(r"127\.0\.0\.1:\d+", server.ready.split("redis ", 1)[1])
            self.addresses += [path, port[0]]

    def start(self, name, program, *flags):
        try:
            server = Server(name, self.directory, [self.programs / program, self.bootstrap, *flags])
        except BaseException:
            self.kill()
            raise
        self.servers.append(server)
        return server

    def computes(self):
        return [server for server in self.servers if server.name.startswith("compute")]

    def ended(self):
        return [f"{server.name} has ended with status {server.process.returncode}" for server in self.servers
                if server.process.poll() is not None]

    def check(self):
        """Returns what `gossamer check` has against the store, or None."""
        done = subprocess.run([self.programs / "gossamer", "check", self.bootstrap], capture_output=True, text=True,
                              timeout=300, env=dict(os.environ, XDG_RUNTIME_DIR=str(self.directory)))
        (self.directory / "check").write_text(done.stdout + done.stderr)
        return None if done.returncode == 0 else f"gossamer check: {done.stdout}{done.stderr}"

    def stop(self):
        """Compute servers first. Returns what is wrong."""
        return [wrong for wrong in (server.stop() for server in reversed(self.servers)) if wrong]

    def kill(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()

    def wait_for_descriptors(self, before, seconds):
        """Waits until compute servers have no more open files than `before`. Returns what is wrong."""
        deadline = time.monotonic() + seconds
        while True:
            more = [f"{server.name} has {server.descriptors()} open files; it had {before[server.name]} before"
                    for server in self.computes() if server.descriptors() > before[server.name]]
            if not more or time.monotonic() > deadline:
                return more
            time.sleep(0.2)
