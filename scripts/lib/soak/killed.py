"""Clients of scripts/soak that are killed in the middle of what they do."""

import asyncio
import mmap
import os
import signal
import socket
import struct
import time

from soak.redis import Connection, ErrorReply, encode

WORDS = struct.Struct("QQ")  # the number that was sent last, and the one that was acknowledged last


class Killer:
    """Runs child processes with some connections each, and kills them. What a child was acknowledged must be there afterwards,
    and nothing that it has not sent."""

    def __init__(self, setting, connections):
        self.setting = setting
        self.connections = connections
        self.lives = 0

    def run(self):
        shared = mmap.mmap(-1, WORDS.size)
        while not self.setting.is_over():
            self.lives += 1
            key = b"d:%d" % self.lives
            shared[:] = WORDS.pack(0, 0)
            address = self.setting.address()
            child = os.fork()
            if child == 0:
                self.live(address, key, shared)
            time.sleep(self.setting.random.uniform(0.2, 3))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                self.setting.wrong(f"a client that was to be killed ended before, with status {status}")
            self.setting.count("killed", self.connections)
            sent, acknowledged = WORDS.unpack(shared[:])
            asyncio.run(self.look(key, sent, acknowledged))

    async def look(self, key, sent, acknowledged):
        """By another compute server, maybe. What was under way when the client died may still happen now."""
        connection = await Connection.open(self.setting.address())
        seen = 0
        for _ in range(2):
            value = await connection.ask("GET", key)
            number = 0 if value is None else int(value)
            if not max(acknowledged, seen) <= number <= sent:
                self.setting.wrong(f"{key!r} is {number}; its killed client had sent up to {sent} and was "
                                   f"acknowledged {acknowledged}; read before: {seen}")
            seen = number
        await connection.ask("DEL", key)
        connection.close()

    def live(self, address, key, shared):
        """The child: writes ascending numbers in pipelines on one connection, and leaves answers unread on the others."""
        try:
            first, *others = [connect(address) for _ in range(self.connections)]
            for number, other in enumerate(others):
                other.setblocking(False)
                data = encode("GET", "v:1") * (20 + number) + encode("SET", "h:killed", "x" * 100)[:-number - 1]
                try:
                    other.send(data)
                except BlockingIOError:
                    pass
            replies = first.makefile("rb")
            sent = acknowledged = 0
            while True:
                depth = self.setting.random.randint(1, 64)
                data = b"".join(encode("SET", key, sent + 1 + i) for i in range(depth))
                sent += depth
                shared[:] = WORDS.pack(sent, acknowledged)
                first.sendall(data)
                for number in range(sent - depth + 1, sent + 1):
                    reply = replies.readline()
                    if reply == b"+OK\r\n":
                        acknowledged = number
                    elif not reply.startswith((b"-OOM", b"-TRYAGAIN")):
                        os._exit(3)
                    shared[:] = WORDS.pack(sent, acknowledged)
                time.sleep(0.002)
        except Exception:
            os._exit(2)


def connect(address):
    if address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(address[5:])
        return made
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)))


class Filler:
    """Fills all memory, works while there is none, and deletes again."""

    def __init__(self, setting, store_bytes):
        self.setting = setting
        self.random = setting.random
        self.store_bytes = store_bytes
        self.was_full = False

    async def run(self):
        connection = await Connection.open(self.setting.address())
        self.setting.count("connected")
        while not self.setting.is_over():
            self.setting.count("rounds")
            stored = await self.fill(connection)
            await self.look(connection, stored)
            await self.setting.sleep(0.5, 3)
            await self.empty(connection, stored)
            await self.setting.sleep(1, 5)
        connection.close()
        self.setting.count("connected", -1)

    def value(self, number, size):
        return (b"%d of the filler " % number * (size // 12 + 1))[:size]

    async def fill(self, connection):
        """Puts values until most are refused. Returns the sizes of those that are there, by number."""
        stored, number, filled = {}, 0, 0
        while not self.setting.is_over():
            sizes = [self.random.randint(1 << 10, 100 << 10) for _ in range(8)]
            await connection.send(b"".join(encode("SET", b"f:%d" % (number + i), self.value(number + i, size))
                                           for i, size in enumerate(sizes)))
            refused = 0
            for i, size in enumerate(sizes):
                reply = await connection.reply()
                if reply == b"OK":
                    stored[number + i] = size
                    filled += size
                elif isinstance(reply, ErrorReply) and reply.word() == "OOM":
                    refused += 1
                elif not (isinstance(reply, ErrorReply) and reply.word() == "TRYAGAIN"):
                    self.setting.wrong(f"SET of {size} bytes was answered {reply!r}")
            number += len(sizes)
            self.setting.count("out_of_memory", refused)
            if refused > 6:
                self.was_full = True
                break
            if filled > self.store_bytes:
                self.setting.wrong(f"{filled} bytes fit into a store of {self.store_bytes}")
                break
            await asyncio.sleep(0.005)
        self.setting.count("filled_bytes", filled)
        return stored

    async def look(self, connection, stored):
        """All that was acknowledged is there, though there is no memory."""
        for number in self.random.sample(sorted(stored), min(100, len(stored))):
            reply = await connection.ask("GET", b"f:%d" % number)
            if reply != self.value(number, stored[number]):
                self.setting.wrong(f"f:{number} of {stored[number]} bytes is now {(reply or b'')[:60]!r}")

    async def empty(self, connection, stored):
        if self.random.random() < 0.5:
            deleted = await connection.ask("GOSSAMER.DELRANGE", "PREFIX", "f:")
        else:
            deleted = 0
            numbers = list(stored)
            for at in range(0, len(numbers), 100):
                deleted += await connection.ask("UNLINK", *(b"f:%d" % number for number in numbers[at:at + 100]))
        if deleted != len(stored):
            self.setting.wrong(f"{deleted} of {len(stored)} keys of the filler were deleted")
        left = await connection.ask("GOSSAMER.SCAN", "PREFIX", "f:", "LIMIT", 3)
        if left != []:
            self.setting.wrong(f"the filler's keys are deleted, and a scan shows {left[0]!r}")
