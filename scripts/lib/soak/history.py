"""Histories of operations: how clients of scripts/soak write them down, and whether one store could have given the answers.

The run is cut into eras of some seconds. Each has keys of its own, so that an era is checked while later ones run.

Registers. No value is written twice, so that a read names the write that it saw. A history of such a register is linearizable
if and only if (Gibbons and Korach, Testing Shared Memories, SIAM J. Comput. 26(4), 1997): each value read was written, by a
write that began before the read ended; and with the *zone* of a value from the least end to the greatest start of its write
and its reads, no two forward zones (end before start) overlap, and no backward zone lies within a forward one. A write of
unknown outcome ends never, and does not count unless its value was read. A refused write did not happen.

Limits: times are those of the client, from before it sends to after it has parsed, so a wrong order within that is not seen. A
swap (SET with GET) counts as a read and a write, MSET and MGET as one operation for each key. Keys of registers are not deleted
while their era lasts.

Counters and logs. The answers of INCR, and the lengths that APPEND answers, are positions: each occurs once, they follow the
order of operations that do not overlap, and the value at the end has all of them.
"""

import bisect
import os
import struct
import time
from pathlib import Path

RECORD = struct.Struct("<BHQQqq")
READ, WRITE, INCREMENT, APPEND = range(4)
UNKNOWN = -1  # the end of an operation of which the outcome is not known
NEVER = 1 << 62
TOKEN_BYTES = 16

REGISTERS, COUNTERS, LOGS = 48, 6, 4


def now():
    return time.monotonic_ns()


def register_key(era, number):
    return b"r:%06d:%03d" % (era, number)


def counter_key(era, number):
    return b"c:%06d:%03d" % (era, number)


def log_key(era, number):
    return b"a:%06d:%03d" % (era, number)


def token(value):
    return b"%016x" % value


def text_of(value):
    """The bytes that stand for a number: half of them fit into a node of the tree, the others are in blocks."""
    head = token(value)
    if value % 2 == 0:
        return head
    length = value * 37 % 600
    return head + (head * (length // TOKEN_BYTES + 1))[:length]


def value_of(text):
    """The number; None if these are not the bytes of one."""
    try:
        value = int(text[:TOKEN_BYTES], 16)
    except ValueError:
        return None
    return value if text == text_of(value) else None


class Writer:
    """The records of one process, a file for each era. A file is complete once it is renamed to *.done."""

    def __init__(self, directory, process, era_now):
        self.directory = Path(directory)
        self.process = process
        self.era_now = era_now
        self.first_open = 0
        self.buffers = {}
        self.outstanding = {}

    def begin(self):
        """The era of operations that start now; each `begin` is followed by an `end`."""
        era = self.era_now()
        self.outstanding[era] = self.outstanding.get(era, 0) + 1
        return era

    def add(self, era, kind, key, value, answer, start, end):
        self.buffers.setdefault(era, []).append(RECORD.pack(kind, key, value, answer, start, end))

    def end(self, era):
        self.outstanding[era] -= 1

    def close_past(self, is_last=False):
        past = self.era_now() + (1 if is_last else 0)
        while self.first_open < past and self.outstanding.get(self.first_open, 0) == 0:
            era = self.first_open
            path = self.directory / f"era-{era:06d}.{self.process}"
            path.write_bytes(b"".join(self.buffers.pop(era, [])))
            os.rename(path, f"{path}.done")
            self.first_open += 1


def read_era(directory, era, processes):
    """All records of an era; None while a process has not finished it."""
    paths = [Path(directory) / f"era-{era:06d}.{process}.done" for process in range(processes)]
    if not all(path.exists() for path in paths):
        return None
    records = []
    for path in paths:
        records.extend(RECORD.iter_unpack(path.read_bytes()))
    return records


class Cluster:
    """A write and the reads of its value."""

    def __init__(self):
        self.write = None  # (start, end)
        self.least_end = NEVER
        self.greatest_start = -NEVER
        self.first_read_end = NEVER
        self.reads = 0

    def see(self, start, end):
        self.least_end = min(self.least_end, end)
        self.greatest_start = max(self.greatest_start, start)


def check_register(operations):
    """`operations`: (kind, value, start, end), 0 is the absent value. Returns what is wrong, or None."""
    clusters = {0: Cluster()}
    clusters[0].write = (-NEVER, -NEVER)
    clusters[0].see(-NEVER, -NEVER)
    for kind, value, start, end in operations:
        cluster = clusters.setdefault(value, Cluster())
        if kind == WRITE:
            if cluster.write is not None:
                return f"value {value:x} was written twice"
            cluster.write = (start, NEVER if end == UNKNOWN else end)
            cluster.see(*cluster.write)
        else:
            cluster.see(start, end)
            cluster.reads += 1
            cluster.first_read_end = min(cluster.first_read_end, end)
    forward, backward = [], []
    for value, cluster in clusters.items():
        if cluster.write is None:
            return f"value {value:x} was read, but no write of it had this key and succeeded"
        if cluster.write[1] == NEVER and cluster.reads == 0:
            continue
        if cluster.first_read_end < cluster.write[0]:
            return f"value {value:x} was read before its write began"
        if cluster.least_end < cluster.greatest_start:
            forward.append((cluster.least_end, cluster.greatest_start, value))
        else:
            backward.append((cluster.greatest_start, cluster.least_end, value))
    forward.sort()
    for before, behind in zip(forward, forward[1:]):
        if behind[0] < before[1]:
            return f"values {before[2]:x} and {behind[2]:x} were both the latest between {behind[0]} and {before[1]} ns"
    for low, high, value in backward:
        at = bisect.bisect_left(forward, (low,)) - 1
        if at >= 0 and forward[at][0] < low and high < forward[at][1]:
            return f"value {value:x} came between a write and a read of value {forward[at][2]:x}, from {low} to {high} ns"
    return None


def check_positions(operations, final):
    """`operations`: (position, start, end) of successful ones, then with position 0 those of unknown outcome; `final`: how many
    there were by the value at the end. Returns what is wrong, or None."""
    known = sorted(operation for operation in operations if operation[0] != 0)
    unknown = len(operations) - len(known)
    latest_start = -NEVER
    last = 0
    for position, start, end in known:
        if position == last:
            return f"position {position} was answered twice"
        if end < latest_start:
            return f"position {position} was answered before an operation with a lower one began"
        latest_start = max(latest_start, start)
        last = position
    if last > final:
        return f"position {last} was answered, but the value at the end has only {final}"
    if not len(known) <= final <= len(known) + unknown:
        return f"the value at the end has {final} positions; {len(known)} succeeded, and {unknown} may have"
    return None


class Era:
    """The records of an era by what they are of, and the values at its end."""

    def __init__(self, records):
        self.registers = {number: [] for number in range(REGISTERS)}
        self.counters = {number: [] for number in range(COUNTERS)}
        self.logs = {number: [] for number in range(LOGS)}
        self.tokens = {number: {} for number in range(LOGS)}
        for kind, key, value, answer, start, end in records:
            if kind in (READ, WRITE):
                self.registers[key].append((kind, value, start, end))
            elif kind == INCREMENT:
                self.counters[key].append((answer, start, end))
            else:
                self.logs[key].append((answer // TOKEN_BYTES, start, end))
                self.tokens[key][value] = answer

    def problems(self, counters, logs):
        """`counters`, `logs`: values at the end, by number."""
        for number, operations in self.registers.items():
            wrong = check_register(operations)
            if wrong:
                yield f"register {number}: {wrong}"
        for number, operations in self.counters.items():
            wrong = check_positions(operations, int(counters[number] or 0))
            if wrong:
                yield f"counter {number}: {wrong}"
        for number, operations in self.logs.items():
            text = logs[number] or b""
            wrong = check_positions(operations, len(text) // TOKEN_BYTES) or self.wrong_token(number, text)
            if wrong:
                yield f"log {number}: {wrong}"

    def wrong_token(self, number, text):
        tokens = self.tokens[number]
        for value, answer in tokens.items():
            if answer and text[answer - TOKEN_BYTES:answer] != token(value):
                return f"token {value:x} is not where APPEND has put it, before byte {answer}"
        appended = {token(value) for value in tokens}
        for at in range(0, len(text), TOKEN_BYTES):
            found = text[at:at + TOKEN_BYTES]
            if found not in appended:
                return f"{found!r} at byte {at} was not appended"
            appended.remove(found)
        return None
