"""The servers that a measurement starts, each on processors of its own, and ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from reports import program


class Servers:
    """Use as a context: at its end, all have ended. Their sockets are in `directory`."""

    def __init__(self, directory):
        self.directory = directory
        self.bootstrap = f"--bootstrap=dir:{directory}"
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(directory))
        self.processes = []

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()

    def start(self, cpus, command, executable=None):
        return self._start(cpus, command, executable, subprocess.DEVNULL)

    def start_ours(self, cpus, command):
        """One of Gossamer's servers, which says when it is ready."""
        process = self._start(cpus, command, None, subprocess.PIPE)
        if "ready" not in process.stdout.readline():
            raise SystemExit(f"{program()}: {Path(command[0]).name} does not start")
        return process

    def start_redis(self, cpus):
        """Keeps nothing on disk; serves the socket `redis`."""
        # redis-check-rdb is the same program: its name says which it is.
        redis = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        if redis is None:
            raise SystemExit(f"{program()}: there is no redis-server; install the package redis-tools")
        process = self.start(cpus, ["redis-server", "--port", "0", "--unixsocket", self.directory / "redis", "--dir", self.directory,
                                    "--save", "", "--appendonly", "no", "--daemonize", "no"], executable=redis)
        self.wait_for("redis")
        return process

    def wait_for(self, name):
        deadline = time.monotonic() + 20
        while not (self.directory / name).exists():
            if time.monotonic() > deadline:
                raise SystemExit(f"{program()}: {name} does not start")
            time.sleep(0.05)

    def _start(self, cpus, command, executable, stdout):
        process = subprocess.Popen([str(word) for word in command], executable=executable, stdout=stdout, stderr=subprocess.DEVNULL,
                                   env=self.environment, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.processes.append(process)
        return process
