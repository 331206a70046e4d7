"""Runs Gossamer's programs for tests: memory servers, the command line, memcached."""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# Far longer than any step takes, even under sanitizers: reaching it means a hang.
PATIENCE_SECONDS = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Outcome:
    """The results of a program that has ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err.decode(errors="backslashreplace")

    def __repr__(self):
        return f"exit {self.status}\n--- stdout\n{self.out[:2000]!r}\n--- stderr\n{self.err[:4000]}"


class MemoryServer:
    """A gossamer-memory process that is ready."""

    def __init__(self, bin_dir, bootstrap, memory="64MiB", *flags):
        read_fd, write_fd = os.pipe()
        self.process = subprocess.Popen(
            [f"{bin_dir}/gossamer-memory", f"--memory={memory}", f"--bootstrap={bootstrap}",
             f"--ready_fd={write_fd}", *flags],
            pass_fds=[write_fd], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(write_fd)
        ready, _, _ = select.select([read_fd], [], [], PATIENCE_SECONDS)
        text = os.read(read_fd, 16) if ready else b""
        os.close(read_fd)
        if not text.startswith(b"READY"):
            self.process.kill()
            raise RuntimeError(f"no memory server: {self.process.communicate()[1].decode()}")

    def stop(self, with_signal=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode


class Memcached:
    def __init__(self):
        self.port = free_port()
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [shutil.which("memcached") or "/usr/bin/memcached", "-l", "127.0.0.1", "-p",
             str(self.port), "-U", "0", *user], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.01)
        self.stop()
        raise RuntimeError("memcached does not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_SECONDS)


class Bench:
    """Context manager: a directory with a bootstrap, and the programs started there."""

    def __init__(self, bin_dir):
        self.bin_dir = bin_dir
        self.directory = tempfile.mkdtemp(prefix="gossamer-cli-")
        self.bootstrap = f"dir:{self.directory}/bootstrap"
        # With a directory, a memory server knows that no other lives, and does not wait.
        os.mkdir(f"{self.directory}/bootstrap")
        self.client_flags = []
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def memory(self, memory="64MiB", *flags, bootstrap=None):
        server = MemoryServer(self.bin_dir, bootstrap or self.bootstrap, memory, *flags)
        self.started.append(server)
        return server

    def memcached(self):
        self.started.append(Memcached())
        return self.started[-1]

    def file(self, name, content):
        path = f"{self.directory}/{name}"
        with open(path, "wb") as file:
            file.write(content)
        return path

    def command(self, words):
        given = any(isinstance(word, str) and word.startswith("--bootstrap=") for word in words)
        return [f"{self.bin_dir}/gossamer", *([] if given else [f"--bootstrap={self.bootstrap}"]),
                *self.client_flags, *words]

    def run(self, *words, stdin=b""):
        done = subprocess.run(self.command(words), input=stdin, capture_output=True,
                              timeout=PATIENCE_SECONDS, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, *words, stderr=subprocess.PIPE):
        return subprocess.Popen(self.command(words), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=stderr)


def escaped(data):
    """Escapes as `dump` does, or more: everything but printable ASCII becomes \\xHH."""
    plain = re.compile(rb"[ -\[\]-~]")
    return b"".join(bytes([b]) if plain.match(bytes([b])) else b"\\x%02x" % b for b in data)
