"""Clients of scripts/soak that misbehave, and those that do nothing: what they are answered is checked as far as it is known."""

import asyncio
import os

from soak.redis import LOST, Connection, ErrorReply, encode
from soak.setting import forever

# What is sent, the start of the answer, and whether the server then ends the connection.
INVALID = (
    (encode("GET"), b"ERR wrong number of arguments", False),
    (encode("SET", "i:1"), b"ERR wrong number of arguments", False),
    (encode("MSET", "i:1", "a", "i:2"), b"ERR wrong number of arguments", False),
    (encode("NOSUCH", "a", b"\r\n\0\xff"), b"ERR unknown command", False),
    (encode("INCR", "i:text"), b"ERR value is not an integer", False),
    (encode("INCRBY", "i:number", "1.5"), b"ERR value is not an integer", False),
    (encode("SET", "i:1", "a", "EX", "0"), b"ERR invalid expire time", False),
    (encode("SET", "i:1", "a", "NONSENSE"), b"ERR syntax error", False),
    (encode("LPUSH", "i:1", "a"), b"ERR ", False),
    (encode("EXEC"), b"ERR EXEC without MULTI", False),
    (encode("SELECT", "7"), b"ERR ", False),
    (encode("SET", b"k" * 251, "a"), b"ERR ", False),
    (encode("SET", "i:1", b"v" * ((1 << 20) + 1)), b"ERR ", False),
    (encode("SETRANGE", "i:1", "-1", "a"), b"ERR ", False),
    (encode("SETRANGE", "i:1", "999999999999", "a"), b"ERR ", False),
    (encode("GETRANGE", "i:text", "a", "b"), b"ERR value is not an integer", False),
    (encode("SCAN", "nonsense"), b"ERR ", False),
    (b"NOSUCH inline\r\n", b"ERR unknown command", False),
    (b"*1\r\n$x\r\n", b"ERR Protocol error", True),
    (b"*x\r\n", b"ERR Protocol error", True),
    (b"*1\r\n!3\r\nGET\r\n", b"ERR Protocol error", True),
    (b"*2000000000\r\n", b"ERR Protocol error", True),
    (b"*2\r\n$3\r\nGET\r\n$99999999999\r\n", b"ERR Protocol error", True),
    (b"*2\r\n$3\r\nGET\r\n$-7\r\n", b"ERR Protocol error", True),
    (b"GET \"i:1\r\n", b"ERR Protocol error", True),
    (b"x" * (100 << 10), b"ERR Protocol error", True),
)


# More than a server reads at once.
LOST_BYTES = 64 << 10


class Noise:
    def __init__(self, setting, invalid, half_sent, slow, idle):
        self.setting = setting
        self.random = setting.random
        self.kinds = ((self.invalid, invalid), (self.half_sent, half_sent), (self.slow_reader, slow), (self.idle, idle))

    async def run(self):
        number, tasks = 0, []
        await self.put_slow_values()
        for once, times in self.kinds:
            for _ in range(times):
                tasks.append(asyncio.create_task(forever(self.setting, number, once.__name__, self.counted(once))))
                number += 1
        await asyncio.gather(*tasks)

    def counted(self, once):
        async def run_once():
            connection = await Connection.open(self.setting.address())
            self.setting.count("connected")
            try:
                await once(connection)
            finally:
                self.setting.count("connected", -1)
                connection.close()

        return run_once

    # ---- traffic that is refused

    async def invalid(self, connection):
        await self.expect_text(connection, "SET", "i:text", "text")
        await self.expect_text(connection, "SET", "i:number", "1")
        for _ in range(self.random.randint(1, 20)):
            await self.setting.sleep(1, 6)
            if self.setting.is_over():
                return
            if self.random.random() < 0.15:
                return await self.send_random_bytes(connection)
            data, expected, ends = self.random.choice(INVALID)
            try:
                if await self.is_over_after(connection, data, expected, ends):
                    return
            except LOST:
                # Where the server ends a connection before it has read everything, its answer may be lost, as with Redis.
                if not ends or len(data) < LOST_BYTES:
                    raise
                return

    async def is_over_after(self, connection, data, expected, ends):
        """Sends an invalid request. Returns whether the connection has ended with it, as it should."""
        await connection.send(data)
        reply = await connection.reply()
        if not isinstance(reply, ErrorReply) or not reply.startswith(expected):
            # A value of i:text may be missing while memory is full.
            if not (isinstance(reply, (ErrorReply, int)) and (data in (INVALID[4][0], INVALID[5][0]))):
                self.setting.wrong(f"{data[:80]!r} was answered {reply!r}, not {expected!r}")
        self.setting.count("refused")
        if ends:
            rest = await connection.reader.read()
            if rest:
                self.setting.wrong(f"{rest[:80]!r} follows the end of {data[:80]!r}")
            return True
        pong = await connection.ask("PING")
        if pong != b"PONG":
            self.setting.wrong(f"PING behind {data[:80]!r} was answered {pong!r}")
        return False

    async def expect_text(self, connection, *words):
        reply = await connection.ask(*words)
        if reply != b"OK" and not (isinstance(reply, ErrorReply) and reply.word() in ("OOM", "TRYAGAIN")):
            self.setting.wrong(f"{words} was answered {reply!r}")

    async def send_random_bytes(self, connection):
        """Any answer is right, and so is an end."""
        data = self.random.randbytes(self.random.randint(1, 4000))
        if self.random.random() < 0.5:
            data = b"*3\r\n$3\r\nGET\r\n$" + data
        try:
            await connection.send(data)
            await asyncio.wait_for(connection.reader.read(1 << 16), 1)
        except (TimeoutError, *LOST):
            pass
        self.setting.count("refused")

    # ---- requests that are sent in part

    async def half_sent(self, connection):
        if self.random.random() < 0.2:
            # A long value is announced. The server must not keep memory for it.
            await connection.send(b"*3\r\n$3\r\nSET\r\n$3\r\nh:l\r\n$60000000\r\nstart of it")
            self.setting.count("held")
            await self.setting.sleep(5, 60)
            return
        key = b"h:%d" % self.random.randrange(200)
        request = encode("SET", key, b"half" * self.random.randint(1, 200))
        cut = self.random.randint(1, len(request) - 1)
        await connection.send(request[:cut])
        self.setting.count("held")
        await self.setting.sleep(2, 45)
        if self.random.random() < 0.3:
            return
        await connection.send(request[cut:])
        reply = await connection.reply()
        if reply != b"OK" and not (isinstance(reply, ErrorReply) and reply.word() in ("OOM", "TRYAGAIN")):
            self.setting.wrong(f"a request sent in two parts, cut at byte {cut}, was answered {reply!r}")

    # ---- answers that are read late, or not at all

    SLOW_VALUES = 8
    SLOW_BYTES = 16 << 10

    def slow_value(self, number):
        return (b"slow %d " % number * self.SLOW_BYTES)[:self.SLOW_BYTES]

    async def put_slow_values(self):
        connection = await Connection.open(self.setting.address())
        for number in range(self.SLOW_VALUES):
            if await connection.ask("SET", f"v:{number}", self.slow_value(number)) != b"OK":
                self.setting.wrong("the values of slow readers do not fit into an empty store")
        connection.close()

    async def slow_reader(self, connection):
        numbers = [self.random.randrange(self.SLOW_VALUES) for _ in range(self.random.randint(50, 250))]
        # Nothing is read ahead: what the server sends stays in the sockets, and then in the server.
        connection.writer.transport.pause_reading()
        connection.writer.write(b"".join(encode("GET", f"v:{number}") for number in numbers))
        await self.setting.sleep(2, 20)
        if self.random.random() < 0.4:
            connection.abort()
            return
        connection.writer.transport.resume_reading()
        for at, number in enumerate(numbers):
            reply = await connection.reply()
            if reply != self.slow_value(number):
                self.setting.wrong(f"slow reader: reply {at} of {len(numbers)} is {bytes(reply or b'')[:40]!r}")
                return
            self.setting.count("slow_bytes", self.SLOW_BYTES)
            if at % 16 == 0:
                await self.setting.sleep(0, 0.2)

    # ---- clients that are only there

    async def idle(self, connection):
        for _ in range(20):
            word = os.urandom(8).hex().encode()
            if await connection.ask("ECHO", word) != word:
                self.setting.wrong("ECHO brought something else back")
            await self.setting.sleep(5, 40)
            if self.setting.is_over():
                return
