"""What tests of gossamer-compute in Python share: a client, and servers that end with the test.

Programs are those of the directory that is the script's argument.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)))


def free_port():
    """One that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def encode(*words):
    words = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    def __init__(self, address, tls=None):
        """`tls`: an ssl.SSLContext, for an address of --tls."""
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address[5:])
        else:
            self.socket = connect(address)
        if tls:
            self.socket = tls.wrap_socket(self.socket)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else line[:-2]

    def close(self):
        self.file.close()
        self.socket.close()


class ComputeServerTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="gossamer_compute_")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.bootstrap = f"--bootstrap=dir:{self.directory}"

    def start(self, program, *flags):
        """Returns the process, and its line that says ready."""
        process = subprocess.Popen(
            [BIN / program, self.bootstrap, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        self.assertIn("ready", line, "" if line else process.stderr.read())
        return process, line

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def start_memory(self, *flags):
        return self.start("gossamer-memory", "--memory=64MiB", *flags)

    def start_compute(self, *flags):
        process, line = self.start("gossamer-compute", "--redis=127.0.0.1:0", *flags)
        return process, line.split("redis ")[1].split()[0].rstrip(",")

    def run_compute(self, *flags):
        return subprocess.run(
            [BIN / "gossamer-compute", self.bootstrap, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )

    def client(self, address, tls=None):
        client = Client(address, tls)
        self.addCleanup(client.close)
        return client
