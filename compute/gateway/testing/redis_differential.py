#!/usr/bin/env python3
"""gossamer-compute answers as Redis does: redis_differential.py DIRECTORY_OF_PROGRAMS [--commands=N] [--seed=N].

The same random pipelines go to both; each answer is compared byte by byte, but for sentences of errors that name limits of
Gossamer. Redis runs as a child on a socket, from redis-check-rdb of Debian's redis-tools: the server's program under another
name. Exit status 77 if that is missing.
"""

import argparse
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

KEYS = [b"k%d" % number for number in range(12)] + [b"", b"long" * 60, b"\x00\xff\r\n"]
NUMBERS = [b"0", b"1", b"-1", b"7", b"-42", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"01", b"1.5",
           b"-0", b" 1", b"1e3", b"nan", b"inf", b"x", b""]


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, commands):
        self.socket.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                                     for words in commands))

    def reply(self):
        """One reply as its bytes; arrays as lists."""
        line = self.file.readline()
        if not line:
            raise ConnectionError("the connection has ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$" and rest != b"-1":
            return line + self.file.read(int(rest) + 2)
        if kind in b"*%~" and rest != b"-1":
            count = int(rest) * (2 if kind == b"%" else 1)
            return [line] + [self.reply() for _ in range(count)]
        return line


def value(draw):
    if draw.random() < 0.5:
        return draw.choice(NUMBERS)
    length = draw.choice([0, 1, 3, 16, 17, 100, 3000])
    return bytes(draw.choice(b"abc\x00\n") for _ in range(length))


def command(draw):
    key = draw.choice(KEYS)
    number = draw.choice(NUMBERS)
    keys = [draw.choice(KEYS) for _ in range(draw.randint(1, 5))]
    pairs = [word for one in keys for word in (one, value(draw))]
    options = draw.sample([b"NX", b"xx", b"Get"], draw.randint(0, 2))
    name, *words = draw.choice([
        (b"GET", key), (b"set", key, value(draw)), (b"SET", key, value(draw), *options), (b"SETNX", key, value(draw)),
        (b"GETSET", key, value(draw)), (b"GETDEL", key), (b"DEL", *keys), (b"UNLINK", *keys), (b"EXISTS", *keys), (b"MGET", *keys),
        (b"MSET", *pairs), (b"STRLEN", key), (b"APPEND", key, value(draw)), (b"INCR", key), (b"decr", key), (b"INCRBY", key, number),
        (b"DECRBY", key, number), (b"INCRBYFLOAT", key, number), (b"GETRANGE", key, number, draw.choice(NUMBERS)),
        (b"SETRANGE", key, draw.choice([b"0", b"5", b"300", b"-1", b"x"]), value(draw)), (b"TYPE", key), (b"PING",), (b"ECHO", key),
        (b"SELECT", b"0"), (b"GETRANGE", key, b"0", b"-1"), (b"DBSIZE",), (b"KEYS", b"k*"),
        (draw.choice([b"TTL", b"pttl", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST"]), key), (b"TOUCH", *keys),
        draw.choice([(b"CLIENT", b"KILL"), (b"config", b"GET"), (b"SLOWLOG", b"LEN", b"1"), (b"COMMAND", b"LIST", b"x")]),
    ])
    has_subcommand = name in (b"CLIENT", b"config", b"SLOWLOG", b"COMMAND")  # these are wrong already
    if draw.random() < 0.02 and not has_subcommand:  # a wrong number of arguments
        words = words[:-1] if draw.random() < 0.5 else [*words, b"more"]
    if draw.random() < 0.005:
        name = b"NOSUCH"
    return [name, *words]


def normal(words, reply):
    """What is compared of a reply."""
    if words[0].upper() == b"KEYS" and isinstance(reply, list):
        return [reply[0], *sorted(reply[1:])]
    return reply


def wait_for(path, process):
    for _ in range(2400):
        if os.path.exists(path):
            try:
                return Client(path)
            except OSError:
                pass
        if process.poll() is not None:
            break
        time.sleep(0.05)
    sys.exit(f"{process.args[0]} does not serve {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--commands", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    arguments = parser.parse_args()
    program = shutil.which("redis-check-rdb")
    if program is None:
        print("needs redis-check-rdb, of Debian's redis-tools")
        return 77
    print(f"--seed={arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="gossamer_redis_") as directory:
        os.symlink(program, f"{directory}/redis-server")
        bootstrap = f"--bootstrap=dir:{directory}"
        # The server's name decides what the program is. Without a port, a configuration and a file of data.
        started = [
            subprocess.Popen([f"{directory}/redis-server", "--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "",
                              "--dir", directory], stdout=subprocess.DEVNULL),
            subprocess.Popen([arguments.programs / "gossamer-memory", bootstrap, "--memory=256MiB"], stdout=subprocess.DEVNULL),
            subprocess.Popen([arguments.programs / "gossamer-compute", bootstrap, f"--redis=unix:{directory}/gateway.sock", "--wait=120"],
                             stdout=subprocess.DEVNULL),
        ]
        try:
            redis = wait_for(f"{directory}/redis.sock", started[0])
            gateway = wait_for(f"{directory}/gateway.sock", started[2])
            unexplained = commands_without_a_sentence(redis, gateway)
            if unexplained:
                print(f"unknown commands of Redis: {unexplained}")
                return 1
            return compare(redis, gateway, draw, arguments.commands)
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


def commands_without_a_sentence(redis, gateway):
    """Those of Redis that the gateway neither has nor refuses by their names."""
    names = []
    for client in (redis, gateway):
        client.send([[b"COMMAND", b"LIST"]])
        names.append({one.split(b"\r\n")[1] for one in client.reply()[1:]})
    absent = sorted(name for name in names[0] - names[1] if b"|" not in name)  # but for subcommands
    gateway.send([[name, b"a", b"b"] for name in absent])
    replies = [gateway.reply() for _ in absent]
    return [name for name, reply in zip(absent, replies)
            if not reply.startswith(b"-ERR ") or reply.startswith(b"-ERR unknown command")]


def compare(redis, gateway, draw, count):
    done = 0
    while done < count:
        pipeline = [command(draw) for _ in range(draw.choice([1, 2, 10, 60]))]
        if draw.random() < 0.05:
            pipeline = [[b"HELLO", draw.choice([b"2", b"3"])]]
        for client in (redis, gateway):
            client.send(pipeline)
        for words in pipeline:
            wanted, found = redis.reply(), gateway.reply()
            done += 1
            if words[0] == b"HELLO":
                continue
            if normal(words, wanted) != normal(words, found):
                print(f"command {done}: {words}\n  Redis:    {wanted}\n  gossamer: {found}")
                return 1
    print(f"{done} commands, all answers alike")
    return 0


if __name__ == "__main__":
    sys.exit(main())
