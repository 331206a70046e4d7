"""What the processes of scripts/soak share: addresses, times, counts, and the list of what was wrong."""

import asyncio
import ctypes
import multiprocessing
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

COUNTS = ("operations", "connected", "out_of_memory", "try_again", "unknown", "refused", "held", "slow_bytes", "killed",
          "filled_bytes", "rounds")


class Counts:
    """One row of numbers for each process; only its own process writes a row."""

    def __init__(self, processes):
        self.rows = multiprocessing.RawArray(ctypes.c_uint64, processes * len(COUNTS))

    def add(self, process, name, number=1):
        self.rows[process * len(COUNTS) + COUNTS.index(name)] += number

    def total(self, name):
        return sum(self.rows[COUNTS.index(name)::len(COUNTS)])


@dataclass
class Setting:
    directory: Path
    addresses: list  # of all compute servers
    seed: int
    begin: float  # time.monotonic()
    end: float
    era_seconds: float
    counts: Counts
    process: int = 0  # of the process that has this copy
    random: object = None  # of that process

    def of_process(self, process):
        self.process = process
        self.random = random.Random(self.seed * 1000 + process)
        return self

    def count(self, name, number=1):
        self.counts.add(self.process, name, number)

    def is_over(self):
        return time.monotonic() >= self.end

    def era_now(self):
        return int((time.monotonic() - self.begin) / self.era_seconds)

    def address(self):
        return self.random.choice(self.addresses)

    def wrong(self, sentence):
        """Appends to the list of what was wrong; a write of one line is whole, whatever other processes do."""
        line = f"{time.monotonic() - self.begin:.3f} s, process {self.process}: {sentence}\n"
        file = os.open(self.directory / "wrong", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, line.encode())
        os.close(file)

    async def sleep(self, least, most):
        """Sleeps for a random time, but not past the end."""
        left = max(0.0, self.end - time.monotonic())
        await asyncio.sleep(min(left, self.random.uniform(least, most)))

    async def stagger(self, number):
        """Connections come one after the other, and not as a flood: a unix socket refuses those beyond its backlog."""
        await asyncio.sleep(number * 0.003)


async def forever(setting, number, name, once):
    """Calls `once` until the time is over. What it raises is wrong, and it is called again."""
    await setting.stagger(number)
    while not setting.is_over():
        try:
            await once()
        except Exception as error:  # whatever it was, it was not meant
            setting.wrong(f"{name}: {type(error).__name__}: {error}")
            await setting.sleep(0.5, 1)
