"""Clients of scripts/soak that use the store as they should: all that they are answered is written down and checked."""

import asyncio
import itertools

from soak import history
from soak.history import APPEND, INCREMENT, READ, UNKNOWN, WRITE, now
from soak.redis import LOST, Connection, ErrorReply, Garbled, encode
from soak.setting import forever


class Valid:
    """All valid clients of one process."""

    def __init__(self, setting, clients, rate):
        self.setting = setting
        self.random = setting.random
        self.clients = clients
        self.pause = 3.2 * clients / rate  # 3.2: mean operations of a round
        self.writer = history.Writer(setting.directory, setting.process, setting.era_now)
        self.values = itertools.count(1)

    async def run(self):
        clients = [asyncio.create_task(forever(self.setting, number, "a valid client", self.connection))
                   for number in range(self.clients)]
        everyone = asyncio.gather(*clients)
        while not everyone.done():
            self.writer.close_past()
            await asyncio.wait([everyone], timeout=0.5)
        await everyone
        self.writer.close_past(is_last=True)

    async def connection(self):
        """One connection, for some dozens of rounds."""
        connection = await Connection.open(self.setting.address())
        self.setting.count("connected")
        try:
            for _ in range(self.random.randint(20, 200)):
                if self.setting.is_over():
                    return
                await self.round(connection)
                await self.setting.sleep(0, 2 * self.pause)
        finally:
            self.setting.count("connected", -1)
            connection.close()

    async def round(self, connection):
        era = self.writer.begin()
        depth = self.random.choices((1, self.random.randint(2, 8), self.random.randint(9, 32)), (75, 22, 3))[0]
        operations = [self.draw(era) for _ in range(depth)]
        start = now()
        answered = 0
        try:
            await connection.send(b"".join(encode(*words) for words, _ in operations))
            for words, note in operations:
                reply = await connection.reply()
                answered += 1
                self.take(era, words, note, reply, start, now())
        except (*LOST, Garbled) as error:
            for _, note in operations[answered:]:
                note(None, start, UNKNOWN)
            raise RuntimeError(f"the connection ended after {answered} of {depth} replies") from error
        finally:
            self.writer.end(era)
        self.setting.count("operations", depth)

    def take(self, era, words, note, reply, start, end):
        if not isinstance(reply, ErrorReply):
            wrong = note(reply, start, end)
            if wrong:
                self.setting.wrong(f"era {era}: {words[0]} {words[1]!r}: {wrong}")
        elif reply.word() == "OOM":
            self.setting.count("out_of_memory")
            # Of the keys of an MSET some may be set.
            if words[0] == "MSET":
                note(None, start, UNKNOWN)
        elif reply.word() == "TRYAGAIN":
            self.setting.count("try_again")
        elif reply.word() == "MAYBEAPPLIED":
            self.setting.count("unknown")
            note(None, start, UNKNOWN)
        else:
            self.setting.wrong(f"era {era}: {words[0]} {words[1]!r} was answered {bytes(reply)!r}")

    # Each returns the words of a command, and what to do with its reply: note(reply, start, end), which returns what is wrong.

    def draw(self, era):
        kinds = (self.get, self.set, self.swap, self.get_many, self.set_many, self.increment, self.append)
        return self.random.choices(kinds, (38, 34, 5, 6, 4, 9, 4))[0](era)

    def register(self):
        return min(int(self.random.expovariate(0.08)), history.REGISTERS - 1)  # some keys are hot

    def new_value(self):
        return (self.setting.process + 1) << 40 | next(self.values)

    def saw(self, era, number, text, start, end):
        value = 0 if text is None else history.value_of(text)
        if value is None:
            return f"{text[:64]!r} of {len(text)} bytes was never written"
        self.writer.add(era, READ, number, value, 0, start, end)
        return None

    def get(self, era):
        number = self.register()

        def note(reply, start, end):
            return None if end == UNKNOWN else self.saw(era, number, reply, start, end)

        return ("GET", history.register_key(era, number)), note

    def get_many(self, era):
        numbers = [self.register() for _ in range(self.random.randint(2, 12))]

        def note(reply, start, end):
            if end == UNKNOWN:
                return None
            if len(reply) != len(numbers):
                return f"{len(reply)} values for {len(numbers)} keys"
            wrongs = [self.saw(era, number, text, start, end) for number, text in zip(numbers, reply)]
            return next(filter(None, wrongs), None)

        return ("MGET", *(history.register_key(era, number) for number in numbers)), note

    def set(self, era):
        number, value = self.register(), self.new_value()

        def note(reply, start, end):
            self.writer.add(era, WRITE, number, value, 0, start, end)
            return None if end == UNKNOWN or reply == b"OK" else f"{reply!r} is not OK"

        return ("SET", history.register_key(era, number), history.text_of(value)), note

    def swap(self, era):
        number, value = self.register(), self.new_value()

        def note(reply, start, end):
            self.writer.add(era, WRITE, number, value, 0, start, end)
            return None if end == UNKNOWN else self.saw(era, number, reply, start, end)

        return ("SET", history.register_key(era, number), history.text_of(value), "GET"), note

    def set_many(self, era):
        numbers = self.random.sample(range(history.REGISTERS), self.random.randint(2, 8))
        values = [self.new_value() for _ in numbers]

        def note(reply, start, end):
            for number, value in zip(numbers, values):
                self.writer.add(era, WRITE, number, value, 0, start, end)
            return None if end == UNKNOWN or reply == b"OK" else f"{reply!r} is not OK"

        pairs = ((history.register_key(era, number), history.text_of(value)) for number, value in zip(numbers, values))
        return ("MSET", *itertools.chain.from_iterable(pairs)), note

    def increment(self, era):
        number = self.random.randrange(history.COUNTERS)

        def note(reply, start, end):
            self.writer.add(era, INCREMENT, number, 0, 0 if end == UNKNOWN else reply, start, end)

        return ("INCR", history.counter_key(era, number)), note

    def append(self, era):
        number, value = self.random.randrange(history.LOGS), self.new_value()

        def note(reply, start, end):
            self.writer.add(era, APPEND, number, value, 0 if end == UNKNOWN else reply, start, end)
            return None if end == UNKNOWN or reply % history.TOKEN_BYTES == 0 else f"a length of {reply}"

        return ("APPEND", history.log_key(era, number), history.token(value)), note
