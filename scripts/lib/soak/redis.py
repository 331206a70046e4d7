"""A client of the Redis protocol on asyncio, for scripts/soak."""

import asyncio


class ErrorReply(bytes):
    """The line of an error, without its dash."""

    def word(self):
        return bytes(self.split(b" ", 1)[0]).decode(errors="replace")


class Garbled(Exception):
    """The server sent something that is no reply."""


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        if not isinstance(word, bytes):
            word = str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    """One connection. An end of the stream is an asyncio.IncompleteReadError, or a ConnectionError."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address):
        """`address` is unix:PATH or HOST:PORT."""
        if address.startswith("unix:"):
            streams = await asyncio.open_unix_connection(address[5:], limit=1 << 20)
        else:
            host, port = address.rsplit(":", 1)
            streams = await asyncio.open_connection(host, int(port), limit=1 << 20)
        return cls(*streams)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, *words):
        await self.send(encode(*words))
        return await self.reply()

    async def reply(self):
        line = await self.reader.readuntil(b"\r\n")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            bulk = await self.reader.readexactly(size + 2)
            if bulk[-2:] != b"\r\n":
                raise Garbled(f"a bulk of {size} bytes ends with {bulk[-2:]!r}")
            return bulk[:-2]
        if kind == b"*":
            return [await self.reply() for _ in range(int(rest))]
        raise Garbled(f"no reply starts like {line[:40]!r}")

    def close(self):
        self.writer.close()

    def abort(self):
        """Ends the connection at once: what is unread makes it a reset."""
        self.writer.transport.abort()


LOST = (asyncio.IncompleteReadError, ConnectionError, BrokenPipeError)
