"""The clients of scripts/judge: each sends operations at one compute server after the other, and notes when it did, and what it was
answered. Processes of clients send their notes, era by era, to the one that judges.

The keys of an era are used for some seconds, and never again: so an operation whose outcome is unknown is a matter of one era.
"""

import contextlib
import random
import socket
import sys
import threading
import time
from dataclasses import dataclass

from judge.linearizable import NEVER, OUTDATED, Operation
from judge.model import Any
from judge.mutants import Mutant
from judge.workload import THEMES, Unit, Workload, transaction
from soak.redis import ErrorReply, encode

SILENT_SECONDS = 60
NOT_DONE = ("TRYAGAIN", "UNREACHABLE", "OOM")  # docs/redis.md
UNKNOWN = ("MAYBEAPPLIED",)


def now_ms():
    """By the clock that memory server 0 goes on by."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SILENT_SECONDS)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, commands):
        self.socket.sendall(b"".join(encode(*words) for words in commands))

    def reply(self):
        line = self.file.readline()
        if line[-2:] != b"\r\n":
            raise ConnectionError("the connection has ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            if rest == b"-1":
                return None
            bulk = self.file.read(int(rest) + 2)
            if len(bulk) != int(rest) + 2:
                raise ConnectionError("the connection has ended")
            return bulk[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        return ErrorReply(rest) if kind == b"-" else rest

    def ask(self, *words):
        self.send([words])
        return self.reply()

    def close(self):
        self.file.close()
        self.socket.close()


@dataclass
class Plan:
    """What all clients know. `lives`: of each compute server, the number of its present life; 0 while it does not run."""
    directory: str
    seed: int
    era_seconds: float
    cells: int
    end: float  # of this machine's time.monotonic(), as `begin`
    begin: float
    lives: object
    pause: float  # mean seconds between two operations of a client
    late_ms: float  # after which an operation of unknown outcome has happened, or never does
    themes: tuple = THEMES
    mutant: str = ""

    def era(self):
        return int((time.monotonic() - self.begin) / self.era_seconds)

    def theme(self, era, cell):
        return self.themes[(era * self.cells + cell + self.seed) % len(self.themes)]

    def path(self, server, life):
        return f"{self.directory}/compute-{server}.{life}.sock"


def keys_of(era, cell, theme):
    return tuple(b"%d:%d:%c" % (era, cell, name) for name in (b"ab" if theme == "pairs" else b"a"))


class Client(threading.Thread):
    def __init__(self, plan, number, notes):
        super().__init__(daemon=True)
        self.plan = plan
        self.number = number
        self.notes = notes
        self.random = random.Random(plan.seed * 1000 + number)
        self.workload = Workload(self.random, number)
        self.mutant = Mutant(plan.mutant, self.random) if plan.mutant else None
        self.connection = None
        self.era = 0  # that it may still add to
        self.wrong = ""

    def run(self):
        try:
            while time.monotonic() < self.plan.end:
                self.era = self.plan.era()
                if self.connection is None or self.random.random() < 0.02:
                    self.connect()
                if self.connection is not None:
                    self.once()
        except Exception as error:  # the run is wrong then, whatever it was
            self.wrong = f"client {self.number}: {type(error).__name__}: {error}"
            raise
        finally:
            self.era = NEVER

    def connect(self):
        self.disconnect()
        server = self.random.randrange(len(self.plan.lives))
        life = self.plan.lives[server]
        try:
            if life:
                self.connection = Connection(self.plan.path(server, life))
        except OSError:
            pass
        if self.connection is None:
            time.sleep(0.005)

    def disconnect(self):
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.close()
        self.connection = None

    def once(self):
        cell = self.random.randrange(self.plan.cells)
        theme = self.plan.theme(self.era, cell)
        if theme == "pairs":
            # Commands of two keys take several steps: few at a time, so that the search ends.
            time.sleep(self.random.uniform(0, 4 * self.plan.pause))
        keys = keys_of(self.era, cell, theme)
        if self.random.random() < 0.02:
            return self.jostle(keys[0])
        if theme != "large" and self.random.random() < 0.06:
            return self.watch_and_execute(cell, theme, keys)
        count = self.random.choice((1, 1, 1, 1, 1, 1, 2, 3)) if theme not in ("pairs", "large") else 1
        self.exchange([(cell, self.workload.unit(theme, keys)) for _ in range(count)])
        # In bursts: what comes without a pause competes.
        if self.random.random() < 0.2:
            time.sleep(self.random.uniform(0, 10 * self.plan.pause))

    def jostle(self, key):
        try:
            commands = list(self.workload.neighbours(key))
            self.connection.send(commands)
            for _ in commands:
                self.connection.reply()
        except OSError:
            self.disconnect()

    def watch_and_execute(self, cell, theme, keys):
        """As optimistic clients do: WATCH, look, MULTI … EXEC."""
        indices = self.random.choice(((0,), (1,), (0, 1))) if len(keys) > 1 else (0,)
        watching = self.exchange([(cell, Unit("watch", (index,), (("WATCH", keys[index]),), [("WATCH", keys[index])])) for index in indices])
        if any(one is None or one.reply is Any for one in watching):
            return self.disconnect()
        look = self.workload.unit(theme, keys)
        if self.random.random() < 0.5 and not look.is_transaction():
            self.exchange([(cell, look)])
        if self.connection is None:
            return
        changed = self.random.choice(indices)
        if len(keys) == 1 or (len(indices) == 1 and self.random.random() < 0.5):
            unit = transaction("run", (changed,), self.workload.commands(theme, keys[changed]))
        else:
            places = [self.random.randrange(len(keys)) for _ in range(self.random.randint(1, 3))]
            is_simple = len(indices) == 1 and set(places) == {*indices}
            unit = transaction("run" if is_simple else "watched", tuple(places), tuple(self.workload.command(theme, keys[place]) for place in places))
        self.exchange([(cell, unit)], tuple(watching))

    def exchange(self, units, watching=()):
        """Sends operations at once, and notes what became of each. Returns them; None: not done."""
        fixes = []
        wire = []
        for _, unit in units:
            sent, fix = self.mutant.of(unit.wire) if self.mutant else (unit.wire, None)
            fixes.append((len(sent), fix))
            wire += sent
        start = now_ms()
        noted = []
        try:
            self.connection.send(wire)
            for (cell, unit), (count, fix) in zip(units, fixes):
                replies = [self.connection.reply() for _ in range(count)]
                end = now_ms()
                noted.append(self.take(cell, unit, fix(replies) if fix else replies, start, end, watching))
                if len(noted) > 1 and noted[-1] and noted[-2] and noted[-1].reply is not Any is not noted[-2].reply:
                    noted[-1].behind = noted[-2]
        except socket.timeout as error:
            raise RuntimeError(f"no answer within {SILENT_SECONDS} s") from error
        except OSError:
            self.disconnect()
            self.notes.count("unknown", len(units) - len(noted))
            end = now_ms() + self.plan.late_ms
            for cell, unit in units[len(noted):]:
                noted.append(self.note(cell, unit, Any, start, end, watching))
        return noted

    def take(self, cell, unit, replies, start, end, watching):
        reply = replies[-1]
        if unit.is_transaction() and (replies[0] != b"OK" or any(one != b"QUEUED" for one in replies[1:-1])):
            raise RuntimeError(f"{unit.wire} was answered {replies}")
        words = {one.word() for one in (reply if unit.is_transaction() and isinstance(reply, list) else [reply])
                 if isinstance(one, ErrorReply) and not (unit.kind == "watched" and one.startswith(OUTDATED))}
        has_steps = unit.kind not in ("run", "watch") or unit.commands[0][0] == "GOSSAMER.DELRANGE"
        if words & {*UNKNOWN} or words & {*NOT_DONE} and has_steps:
            self.notes.count("unknown")
            return self.note(cell, unit, Any, start, end + self.plan.late_ms, watching)
        if words & {*NOT_DONE}:
            self.notes.count("refused")
            return None
        if words - {"ERR", "WRONGTYPE"} or (unit.kind == "part" and reply is None):
            raise RuntimeError(f"{unit.wire} was answered {replies}")
        if unit.wire[0][0] == "MSET":
            reply = [reply, reply]
        if unit.kind == "run" and not unit.is_transaction():
            if unit.commands[0][0] in ("GET", "GETEX") and isinstance(reply, bytes) and not isinstance(reply, ErrorReply):
                self.workload.remember(unit.commands[0][1], reply)
            reply = [reply]
        return self.note(cell, unit, reply, start, end, watching)

    def note(self, cell, unit, reply, start, end, watching):
        one = Operation(unit.kind, unit.keys, unit.commands, reply, start, end, self.number, watching)
        self.notes.add(self.era, cell, one)
        return one


class Notes:
    """Of the clients of a process."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.eras = {}
        self.counts = {}

    def add(self, era, cell, operation):
        with self.mutex:
            self.eras.setdefault(era, {}).setdefault(cell, []).append(operation)

    def count(self, name, number=1):
        with self.mutex:
            self.counts[name] = self.counts.get(name, 0) + number

    def take_before(self, era):
        with self.mutex:
            return {one: self.eras.pop(one) for one in sorted(self.eras) if one < era}


def run_clients(plan, numbers, pipe):
    """The main function of a process with clients: sends (era, {cell: operations}) for each era that is over, and at the end
    ("end", counts, what was wrong)."""
    sys.setswitchinterval(0.0005)
    notes = Notes()
    clients = [Client(plan, number, notes) for number in numbers]
    for client in clients:
        client.start()
    sent = 0
    while True:
        alive = any(client.is_alive() for client in clients)
        over = min(client.era for client in clients)
        cells = notes.take_before(over)
        while sent < over and (over != NEVER or cells):
            pipe.send((sent, cells.pop(sent, {})))
            sent += 1
        if not alive:
            break
        time.sleep(0.1)
    pipe.send(("end", notes.counts, [client.wrong for client in clients if client.wrong]))
