"""Gateways that are wrong: each changes what a client sends, or what it is answered, as a defect would. scripts/judge has to find each.

A mutant takes the commands of one operation and returns those to send, and a function that makes the replies of what came back.
"""

CHANCE = 0.05


def as_it_is(replies):
    return replies


class Mutant:
    def __init__(self, name, random):
        self.random = random
        self.change = getattr(self, name)
        self.last = {}  # by key: the value that a GET has returned

    def of(self, wire):
        return self.change(wire)

    def keepttl(self, wire):
        """SET forgets the time that KEEPTTL keeps."""
        return [tuple(word for word in words if word != "KEEPTTL") if words[0] == "SET" else words for words in wire], as_it_is

    def stale(self, wire):
        """GET returns what the key had before it was gone."""
        if wire[0][0] != "GET":
            return wire, as_it_is
        key = wire[0][1]

        def take(replies):
            if replies[0] is None and self.last.get(key):
                return [self.last.pop(key)]
            self.last[key] = replies[0]
            return replies
        return wire, take

    def half(self, wire):
        """EXEC leaves out its last command, a SET, and says OK."""
        if wire[0] != ("MULTI",) or wire[-2][0] != "SET" or {"GET", "NX", "XX", "IFEQ", "IFNE"} & {*map(str, wire[-2][3:])}:
            return wire, as_it_is

        def take(replies):
            done = replies[-1] + [b"OK"] if isinstance(replies[-1], list) else replies[-1]
            return [*replies[:-1], b"QUEUED", done]
        return [*wire[:-2], wire[-1]], take

    def increment(self, wire):
        """INCR says the next number, and does not write it."""
        if wire[0][0] != "INCR" or self.random.random() > CHANCE:
            return wire, as_it_is
        return [("GET", wire[0][1])], lambda replies: [int(replies[0] or 0) + 1] if isinstance(replies[0], (type(None), bytes)) and (
            replies[0] or b"0").isdigit() else replies

    def twice(self, wire):
        """INCR is done twice, as by a retry of what had happened."""
        if wire[0][0] != "INCR" or self.random.random() > CHANCE:
            return wire, as_it_is
        return wire * 2, lambda replies: replies[:1]

    def early(self, wire):
        """Keys expire after half their time."""
        return [tuple(str(int(word) // 2 + 1) if words[place - 1] == "PX" else word for place, word in enumerate(words))
                if words[0] == "SET" else words for words in wire], as_it_is

    def late(self, wire):
        """Keys live for longer."""
        return [tuple(str(int(word) + 40) if words[place - 1] == "PX" else word for place, word in enumerate(words))
                if words[0] == "SET" else words for words in wire], as_it_is

    def watch(self, wire):
        """WATCH is forgotten."""
        if wire[0][0] != "WATCH":
            return wire, as_it_is
        return [("ECHO", b"OK")], as_it_is

    def unlock(self, wire):
        """A lock is released whoever has it: between the script's GET and DEL another client may come."""
        if wire[0][0] != "EVAL" or b"'del'" not in wire[0][1] or self.random.random() > 4 * CHANCE:
            return wire, as_it_is
        return [("DEL", wire[0][3])], as_it_is

    def nx(self, wire):
        """SET NX overwrites."""
        return [tuple(word for word in words if word != "NX") if words[0] == "SET" and self.random.random() < CHANCE else words
                for words in wire], as_it_is

    def rename(self, wire):
        """RENAME leaves the old key."""
        if wire[0][0] != "RENAME":
            return wire, as_it_is
        return [("COPY", *wire[0][1:], "REPLACE")], lambda replies: [b"OK"] if replies[0] == 1 else replies

    def lost(self, wire):
        """A SET is acknowledged and not done."""
        if wire[0][0] != "SET" or len(wire[0]) > 3 or self.random.random() > CHANCE:
            return wire, as_it_is
        return [("ECHO", b"OK")], as_it_is

    def pop(self, wire):
        """SPOP returns a member, and leaves it."""
        return [("SRANDMEMBER", *words[1:]) if words[0] == "SPOP" else words for words in wire], as_it_is


NAMES = sorted(name for name, value in vars(Mutant).items() if not name.startswith("_") and name != "of" and callable(value))
