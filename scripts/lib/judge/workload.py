"""What the clients of scripts/judge ask for: commands on few keys, drawn at random."""

import time
from dataclasses import dataclass

from judge.model import SCRIPTS

TIMES_MS = (1, 1, 1, 2, 2, 3, 4, 5, 10, 20, 50, 200, 1000)
FIELDS = (b"a", b"b", b"c")
BALLAST = b"." * 40_000  # a hash that has it is large
MEMBERS = (b"x", b"y", b"z", b"w")
THEMES = ("strings", "strings", "counters", "locks", "hashes", "sets", "bits", "anything", "pairs", "pairs", "large")


@dataclass
class Unit:
    """One operation as it is sent: `wire` has the commands, of which each has a reply."""
    kind: str
    keys: tuple
    commands: tuple  # as the model has them
    wire: list

    def is_transaction(self):
        return self.wire[0] == ("MULTI",)


def wire_of(words):
    if words[0] == "EVAL":
        return ("EVAL", SCRIPTS[words[1]], 1, *words[2:])
    if words[0] in ("GOSSAMER.SCAN", "GOSSAMER.DELRANGE"):  # of a range that has this key alone
        return (words[0], "FROM", words[1], "TO", words[1] + b"\0")
    return words


class Workload:
    """Of one client. `seen` has values that it met lately, which comparisons need."""

    def __init__(self, random, client):
        self.random = random
        self.client = client
        self.values = 0
        self.seen = {}

    def new_value(self):
        """Never the same; some are longer than a node keeps."""
        self.values += 1
        value = b"v%d.%d" % (self.client, self.values)
        return value + b"." * self.random.choices((0, 40, 3000), (16, 4, 1))[0]

    def ms(self):
        return str(self.random.choice(TIMES_MS))

    def date(self):
        return str(int(time.time() * 1000) + self.random.choice((-5, 1, 5, 20, 100, 1000)))

    def known(self, key):
        return self.seen.get(key) or b"none"

    def remember(self, key, value):
        if len(self.seen) > 100:
            self.seen.clear()
        self.seen[key] = value

    # ---- Commands of one key

    def pick(self, *choices):
        """Of (weight, words), where words may be a function."""
        words = self.random.choices([one for _, one in choices], [weight for weight, _ in choices])[0]
        return words() if callable(words) else words

    def of_time(self, key):
        def expiring():
            condition = self.random.choice(((), (), ("NX",), ("XX",), ("GT",), ("LT",)))
            return self.pick((8, ("PEXPIRE", key, self.ms(), *condition)), (1, ("EXPIRE", key, "1", *condition)),
                             (2, ("PEXPIREAT", key, self.date(), *condition)), (1, ("PEXPIRE", key, "0")))
        return self.pick((5, expiring), (2, ("PERSIST", key)), (3, ("PTTL", key)), (2, ("PEXPIRETIME", key)))

    def set(self, key, value):
        when = self.pick((5, ("PX", self.ms())), (1, ("EX", "1")), (1, lambda: ("PXAT", self.date())), (4, ("KEEPTTL",)), (3, ()))
        condition = self.pick((6, ()), (2, ("NX",)), (2, ("XX",)), (2, lambda: ("IFEQ", self.known(key))),
                              (1, lambda: ("IFNE", self.known(key))))
        return ("SET", key, value, *condition, *self.pick((3, ()), (1, ("GET",))), *when)

    def strings(self, key):
        return self.pick(
            (24, lambda: self.set(key, self.new_value())), (5, lambda: ("SET", key, self.new_value())), (22, ("GET", key)),
            (5, lambda: ("GETEX", key, *self.pick((2, ("PX", self.ms())), (1, ("PERSIST",)), (1, ())))),
            (14, lambda: self.of_time(key)), (3, ("DEL", key)), (3, lambda: ("DELEX", key, "IFEQ", self.known(key))), (1, ("DELEX", key)),
            (5, lambda: ("APPEND", key, b"+")), (1, ("STRLEN", key)), (2, ("GETDEL", key)), (1, ("EXISTS", key)), (1, ("TYPE", key)),
            (2, ("SETRANGE", key, "1", b"#")), (3, lambda: ("EVAL", "swap", key, self.new_value())),
            (3, lambda: ("EVAL", "stamp", key, self.new_value(), self.ms())))

    def counters(self, key):
        return self.pick(
            (20, ("INCR", key)), (6, ("INCRBY", key, str(self.random.choice((-1, 1, 3, 10))))), (12, ("EVAL", "limit", key, self.ms())),
            (12, ("GET", key)), (10, lambda: self.of_time(key)), (2, ("DEL", key)), (1, ("GETDEL", key)),
            (2, ("SET", key, b"7", "KEEPTTL")), (2, ("SET", key, b"5", "PX", self.ms())), (1, ("SET", key, b"0", "NX")))

    def locks(self, key):
        mine = self.random.choice((b"owner%d" % self.client, self.known(key)))
        return self.pick(
            (20, ("SET", key, mine, "NX", "PX", self.ms())), (12, ("EVAL", "unlock", key, mine)),
            (8, ("EVAL", "renew", key, mine, self.ms())), (4, ("DELEX", key, "IFEQ", mine)),
            (4, ("SET", key, mine, "IFEQ", mine, "PX", self.ms())), (10, ("GET", key)), (4, ("PTTL", key)),
            (2, ("SET", key, mine, "NX", "GET", "PX", self.ms())))

    def hashes(self, key):
        field = self.random.choice(FIELDS)
        return self.pick(
            (12, lambda: ("HSET", key, field, self.new_value())), (10, lambda: ("HINCRBY", key, b"n", "1")),
            (4, lambda: ("HSET", key, b"a", self.new_value(), b"b", self.new_value())), (8, ("HGET", key, field)),
            (10, ("HGETALL", key)), (6, ("HDEL", key, field)), (2, ("HDEL", key, *FIELDS, b"n", b"last")), (2, ("HLEN", key)),
            (6, lambda: ("EVAL", "visit", key, b"n", self.new_value())), (10, lambda: self.of_time(key)), (2, ("DEL", key)),
            (1, ("TYPE", key)))

    def large(self, key):
        """A hash that becomes large with one field, and then has a key for each: no command is on two of them, since they are not atomic, and
        none is sent before the last one's answer, since those of different fields take effect in any order."""
        field = self.random.choice(FIELDS)
        return self.pick(
            (12, lambda: ("HSET", key, field, self.new_value())), (10, lambda: ("HINCRBY", key, b"n", "1")), (12, ("HGET", key, field)),
            (5, ("HGET", key, b"n")), (6, ("HDEL", key, field)), (3, ("HDEL", key, b"n")), (5, ("HSET", key, b"ballast", BALLAST)),
            (4, ("HDEL", key, b"ballast")), (4, lambda: self.of_time(key)), (1, ("DEL", key)), (2, ("TYPE", key)), (2, ("EXISTS", key)),
            (2, lambda: ("SET", key, self.new_value(), "NX")))

    def sets(self, key):
        some = self.random.sample(MEMBERS, self.random.randint(1, 2))
        return self.pick(
            (14, ("SADD", key, *some)), (8, ("SREM", key, *some)), (10, ("SMEMBERS", key)), (8, ("SPOP", key)), (3, ("SCARD", key)),
            (3, ("SISMEMBER", key, some[0])), (9, lambda: self.of_time(key)), (2, ("DEL", key)), (1, ("EXISTS", key)))

    def bits(self, key):
        offset = str(self.random.choice((0, 3, 7, 8, 20)))
        return self.pick((12, ("SETBIT", key, offset, "1")), (6, ("SETBIT", key, offset, "0")), (6, ("GETBIT", key, offset)),
                         (8, ("GET", key)), (8, lambda: self.of_time(key)), (2, ("DEL", key)))

    def anything(self, key):
        theme = self.random.choice((self.strings, self.counters, self.locks, self.hashes, self.sets, self.bits))
        return self.pick((20, lambda: theme(key)), (2, ("DEL", key)), (1, lambda: ("EVAL", "broken", key, self.new_value())))

    def neighbours(self, key):
        """Commands on keys beside `key`, which nobody judges: leaves are split and merged, and expired keys fall out of them."""
        for _ in range(60):
            name = key + b"%d" % self.random.randrange(200)
            yield self.pick((3, ("SET", name, b"n" * self.random.choice((3, 30)), "PX", self.ms())), (3, ("SET", name, b"n")), (4, ("DEL", name)))

    # ---- Operations

    def command(self, theme, key):
        return getattr(self, "strings" if theme == "pairs" else theme)(key)

    def commands(self, theme, key):
        return tuple(self.command(theme, key) for _ in range(self.random.randint(2, 4)))

    def unit(self, theme, keys):
        """Something of a cell that has `keys`."""
        index = self.random.randrange(len(keys))
        key = keys[index]
        if theme == "pairs" and self.random.random() < 0.35:
            return self.of_pair(theme, keys)
        if theme != "large" and self.random.random() < 0.12:
            return transaction("run", (index,), self.commands(theme, key))
        if theme in ("strings", "counters", "locks", "pairs") and self.random.random() < 0.05:
            words = self.pick((5, ("GOSSAMER.SCAN", key)), (1, ("GOSSAMER.DELRANGE", key)))
        else:
            words = self.command(theme, key)
        return Unit("run", (index,), (words,), [wire_of(words)])

    def of_pair(self, theme, keys):
        one, other = self.random.choice(((0, 1), (1, 0)))
        names = keys[one], keys[other]

        def move(*words):
            return Unit("move", (one, other), (words,), [words])

        def write_all():
            values = self.new_value(), self.new_value()
            wire = ("MSET", names[0], values[0], names[1], values[1])
            return Unit("part", (one, other), (("SET", names[0], values[0]), ("SET", names[1], values[1])), [wire])

        def write_absent():
            words = ("MSETNX", names[0], self.new_value(), names[1], self.new_value())
            return Unit("set_all", (one, other), (words,), [words])

        def both():
            chosen = [(place, self.strings(keys[place])) for place in (one, other, self.random.choice((one, other)))]
            return transaction("part", tuple(place for place, _ in chosen), tuple(words for _, words in chosen))

        return self.pick(
            (4, lambda: move("RENAME", *names)), (2, lambda: move("RENAMENX", *names)), (2, lambda: move("COPY", *names)),
            (2, lambda: move("COPY", *names, "REPLACE")), (2, write_absent), (2, write_all), (3, both),
            (2, lambda: Unit("part", (one, other), (("GET", names[0]), ("GET", names[1])), [("MGET", *names)])),
            (1, lambda: Unit("sum", (one, other), (("DEL", *names),), [("DEL", *names)])),
            (1, lambda: Unit("sum", (one, other), (("EXISTS", *names),), [("EXISTS", *names)])))


def transaction(kind, keys, commands):
    return Unit(kind, keys, commands, [("MULTI",), *map(wire_of, commands), ("EXEC",)])
