#!/usr/bin/env python3
"""gossamer-compute answers as Redis does: redis_differential.py DIRECTORY_OF_PROGRAMS [--commands=N] [--seed=N].

The same random pipelines go to both; each answer is compared byte by byte, but for sentences of errors that name limits of
Gossamer. Redis runs as a child on a socket, from redis-check-rdb of Debian's redis-tools: the server's program under another
name. Exit status 77 if that is missing.
"""

import argparse
import collections
import hashlib
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


# Seconds, of which half an hour at least is left when they are asked for; and times that have passed, or are none.
TIMES = [b"3600", b"100000", b"9999999999", b"0", b"-1", b"9223372036854775807", b"9223372036854775800", b"x", b"1.5"]
DATES = [b"2000000000", b"4000000000", b"1", b"0", b"-7", b"99999999999", b"9223372036854775808", b""]


def value(draw):
    if draw.random() < 0.5:
        return draw.choice(NUMBERS)
    length = draw.choice([0, 1, 3, 16, 17, 100, 100, 3000])
    return bytes(draw.choice(b"abc\x00\n") for _ in range(length))


def timed_command(draw):
    """A command that gives a key a time, or tells of it."""
    key = draw.choice(KEYS)
    time, date = draw.choice(TIMES), draw.choice(DATES)
    in_ms = draw.random() < 0.3
    option = draw.choice([(b"EX", time), (b"px", time + b"000"), (b"EXAT", date), (b"PXAT", date + b"000")])
    conditions = draw.sample([b"NX", b"XX", b"gt", b"LT"], draw.choice([0, 0, 1, 1, 2]))
    return list(draw.choice([
        (b"SET", key, value(draw), *option), (b"SET", key, value(draw), *option, draw.choice([b"NX", b"XX", b"GET", b"KEEPTTL", b"EX"])),
        (b"SET", key, value(draw), b"KEEPTTL"), (b"SETEX", key, time, value(draw)), (b"psetex", key, time + b"000", value(draw)),
        (b"GETEX", key, *draw.choice([(), option, (b"PERSIST",), (b"KEEPTTL",), (*option, b"PERSIST")])),
        # Of two times from now, the one that is asked for later may be the same.
        (b"PEXPIRE" if in_ms else b"EXPIRE", key, time + b"000" if in_ms else time, *[one for one in conditions if one in (b"NX", b"XX")]),
        (b"PEXPIREAT" if in_ms else b"expireat", key, date + b"000" if in_ms else date, *conditions),
        (b"TTL", key), (b"PTTL", key), (b"EXPIRETIME", key), (b"PEXPIRETIME", key), (b"PERSIST", key),
    ]))


FIELDS = [b"a", b"b", b"c", b"1", b"2", b"", b"a long field " * 9]


def composite_command(draw):
    """A command on a hash or a set, or on bits."""
    key, field, number = draw.choice(KEYS), draw.choice(FIELDS), draw.choice(NUMBERS)
    fields = [draw.choice(FIELDS) for _ in range(draw.randint(1, 4))]
    pairs = [word for one in fields for word in (one, value(draw))]
    pattern = draw.choice([(), (b"MATCH", b"*a*"), (b"COUNT", b"1000"), (b"count", b"0"), (b"MATCH",), (b"NOVALUES", b"x")])
    bits = draw.choice([(), (b"0", b"-1"), (b"1", b"5", b"BIT"), (b"-7", b"-1", b"byte"), (b"2",), (number, number), (b"0", b"1", b"x")])
    return list(draw.choice([
        (b"HSET", key, *pairs), (b"HSET", key, *pairs), (b"HMSET", key, *pairs), (b"HSET", key, *pairs, b"x"), (b"HGET", key, field),
        (b"HMGET", key, *fields), (b"HGETALL", key), (b"HDEL", key, *fields), (b"HEXISTS", key, field), (b"HLEN", key),
        (b"HKEYS", key), (b"HVALS", key), (b"HINCRBY", key, field, number), (b"HINCRBYFLOAT", key, field, number),
        (b"HSETNX", key, field, value(draw)), (b"HSTRLEN", key, field), (b"HSCAN", key, draw.choice([b"0", b"x"]), *pattern),
        (b"HRANDFIELD", key, b"99", *draw.choice([(), (b"WITHVALUES",), (b"x",)])), (b"HRANDFIELD", key, number, b"x"),
        (b"SADD", key, *fields), (b"SADD", key, *fields), (b"SREM", key, *fields), (b"SMEMBERS", key), (b"SISMEMBER", key, field),
        (b"SMISMEMBER", key, *fields), (b"SCARD", key), (b"SPOP", key, draw.choice([b"99", b"0", b"-1", b"x"])),
        (b"SRANDMEMBER", key, b"99"), (b"SSCAN", key, draw.choice([b"0", b"x"]), *pattern), (b"TYPE", key), (b"DEL", key),
        (b"SETBIT", key, draw.choice([b"0", b"7", b"99", b"4294967296", b"-1", b"x"]), draw.choice([b"0", b"1", b"2"])),
        (b"GETBIT", key, draw.choice([b"0", b"7", b"99", b"4294967295", b"-1", b"x"])), (b"BITCOUNT", key, *bits),
        (b"OBJECT", b"REFCOUNT", b"nothing"), (b"MEMORY", b"USAGE", b"nothing", *draw.choice([(), (b"SAMPLES", b"5"), (b"x",)])),
        (b"SCAN", b"0", b"COUNT", b"100", b"TYPE", draw.choice([b"hash", b"SET", b"string", b"zset"])),
    ]))


# Of which the order is not told.
UNORDERED = {b"HKEYS", b"HVALS", b"KEYS", b"SMEMBERS", b"SPOP", b"SRANDMEMBER"}
UNORDERED_PAIRS = {b"HGETALL", b"HRANDFIELD"}


def in_order(words, reply):
    """The same reply, with the items in an order that depends on them alone."""
    if not isinstance(reply, list):
        return reply
    name = words[0].upper()
    if name in (b"SCAN", b"SSCAN", b"HSCAN") and len(reply) == 3 and isinstance(reply[2], list):
        return [*reply[:2], in_order([b"HGETALL" if name == b"HSCAN" else b"SMEMBERS"], reply[2])]
    items = reply[1:]
    if name in UNORDERED_PAIRS and (name != b"HRANDFIELD" or len(words) > 3) and not any(isinstance(one, list) for one in items):
        items = [item for pair in sorted(zip(items[::2], items[1::2])) for item in pair]
    elif name in UNORDERED | UNORDERED_PAIRS:
        items = sorted(items)
    return [reply[0], *items]


SCRIPTS = [
    b"return redis.call('get', KEYS[1])", b"return {KEYS[1], ARGV[1], #ARGV}", b"return redis.call('set', KEYS[1], ARGV[1])",
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    b"local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('pexpire', KEYS[1], 3600000) end return n",
    b"return redis.call('exists', KEYS[1]) < 1 and redis.call('setex', KEYS[1], 3600, ARGV[1])",
    b"return {1, 'two', {3.7, {}}, false, 5}", b"return {1, nil, 3}", b"return {ok = 'FINE'}", b"return redis.error_reply('MY error')",
    b"return redis.pcall('incrby', KEYS[1], ARGV[1])", b"return redis.call('incrby', KEYS[1], ARGV[1])", b"return nothing", b"x = 1",
    b"return redis.call('append', KEYS[1], tostring(cjson.decode('[1,2.5,{\"a\":null}]')[3].a == cjson.null))", b"return +",
    b"return cjson.encode({a = {1, 2}})", b"return cmsgpack.pack({1, 'x', {true}})", b"return bit.bxor(7, 2^31)", b"return 2^53",
    b"redis.call('set', KEYS[1], 'x') error('why')", b"return tostring(redis.call('type', KEYS[1]).ok)", b"return redis.call('nosuch')",
    b"return redis.call('get')", b"return redis.sha1hex(ARGV[1] or '')", b"return {err = 'A b'}", b"return string.format('%s', KEYS[1])",
    b"return redis.call('pttl', KEYS[1]) > 0", b"return redis.call('hset', KEYS[1], 'a', ARGV[1], 'b', 2)",
    b"return redis.call('hmget', KEYS[1], 'a', 'x', 'b')", b"return redis.call('sismember', KEYS[1], ARGV[1])",
    b"return {redis.call('hincrby', KEYS[1], 'n', 3), redis.call('hget', KEYS[1], 'n'), redis.call('hlen', KEYS[1])}", b"for i = 1, 3 do redis.call('append', KEYS[1], i) end return redis.call('strlen', KEYS[1])",
]


def script_command(draw):
    """EVAL and its kin, of a script with one key, or none."""
    source = draw.choice(SCRIPTS)
    words = [b"1", draw.choice(KEYS), value(draw)] if draw.random() < 0.95 else draw.choice([[b"0"], [b"x"], [b"3", b"k"], [b"-1"]])
    if draw.random() < 0.2:
        return [b"EVALSHA", hashlib.sha1(source).hexdigest().encode(), *words]
    return [b"SCRIPT", b"LOAD", source] if draw.random() < 0.05 else [b"EVAL", source, *words]


def transaction(draw):
    """Commands between WATCH and EXEC. A key that is watched and changed before gets another value, which is what counts here."""
    words = []
    if draw.random() < 0.4:
        watched = draw.sample(KEYS, draw.randint(1, 2))
        words.append([b"WATCH", *watched])
        if draw.random() < 0.5:
            words.append([b"APPEND", draw.choice(watched), b"z"])
        if draw.random() < 0.1:
            words.append([b"UNWATCH"])
    if words or draw.random() < 0.97:  # a key that is watched for longer may change back, which Redis counts, too
        words.append([b"MULTI"])
    for _ in range(draw.randint(0, 6)):
        one = draw.choice([command, command, timed_command, composite_command, script_command])(draw)
        while one[0].upper() in (b"DBSIZE", b"KEYS", b"SCAN", b"RENAME", b"RENAMENX", b"COPY", b"MSETNX", b"CLIENT", b"CONFIG", b"SLOWLOG", b"COMMAND"):
            one = command(draw)
        words.append(one)
    if draw.random() < 0.03:
        words.append(draw.choice([[b"MULTI"], [b"WATCH", b"k1"], [b"UNWATCH"]]))
    words.append([draw.choice([b"EXEC"] * 9 + [b"DISCARD"])])
    return words


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
        (draw.choice([b"RENAME", b"renamenx"]), key, keys[0]), (b"COPY", key, keys[0], *draw.choice([(), (b"REPLACE",), (b"DB", b"0"), (b"x",)])),
        (b"MSETNX", *pairs), (b"SELECT", b"0"), (b"GETRANGE", key, b"0", b"-1"), (b"DBSIZE",), (b"KEYS", b"k*"),
        (draw.choice([b"TTL", b"pttl", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST"]), key), (b"TOUCH", *keys),
        draw.choice([(b"CLIENT", b"KILL"), (b"config", b"GET"), (b"SLOWLOG", b"LEN", b"1"), (b"COMMAND", b"LIST", b"x")]),
    ])
    has_subcommand = name in (b"CLIENT", b"config", b"SLOWLOG", b"COMMAND")  # these are wrong already
    if draw.random() < 0.02 and not has_subcommand:  # a wrong number of arguments
        words = words[:-1] if draw.random() < 0.5 else [*words, b"more"]
    if draw.random() < 0.005:
        name = b"NOSUCH"
    return [name, *words]


def are_alike(words, wanted, found, queued):
    """Whether both replies to a command are. `queued`: the commands behind MULTI."""
    name = words[0].upper()
    if name == b"EXEC" and isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(queued) + 1 == len(found):
        return wanted[0] == found[0] and all(are_alike(*one, []) for one in zip(queued, wanted[1:], found[1:]))
    if name == b"DBSIZE" and wanted[:1] == b":" == found[:1]:  # Redis counts what has expired and is still there
        return int(found[1:]) <= int(wanted[1:])
    # The clocks differ by some milliseconds, and the requests come one after the other.
    slack = {b"TTL": 1, b"EXPIRETIME": 1, b"PTTL": 1000, b"PEXPIRETIME": 1000}.get(name, 0)
    if slack and wanted[:1] == b":" == found[:1]:
        seconds = int(wanted[1:]), int(found[1:])
        return seconds[0] == seconds[1] or (min(seconds) >= 0 and abs(seconds[0] - seconds[1]) <= slack)
    return in_order(words, wanted) == in_order(words, found)


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
    # A script of an EXEC that is not done is known here, and not to Redis.
    for client in (redis, gateway):
        client.send([[b"SCRIPT", b"LOAD", source] for source in SCRIPTS])
        for _ in SCRIPTS:
            client.reply()
    done = 0
    queued = None  # commands behind MULTI
    recent = collections.deque(maxlen=12)  # with both replies
    while done < count:
        pipeline = [draw.choice([command, command, timed_command, composite_command, script_command])(draw) for _ in range(draw.choice([1, 2, 10, 60]))]
        if draw.random() < 0.4:
            pipeline = [*pipeline[:5], *transaction(draw), *pipeline[5:10]]
        if draw.random() < 0.05:
            pipeline = [[b"HELLO", draw.choice([b"2", b"3"])]]
        for client in (redis, gateway):
            client.send(pipeline)
        for words in pipeline:
            wanted, found = redis.reply(), gateway.reply()
            done += 1
            if words[0] == b"HELLO":
                continue
            recent.append((words[:4], wanted, found))
            if not are_alike(words, wanted, found, queued or []):
                print(f"command {done}: {words}\n  Redis:    {wanted}\n  gossamer: {found}")
                for one in recent:
                    print(f"  behind {one}"[:300])
                return 1
            if words == [b"MULTI"] and queued is None:
                queued = []
            elif words in ([b"EXEC"], [b"DISCARD"]):
                queued = None
            elif queued is not None and wanted == b"+QUEUED\r\n":
                queued.append(words)
    print(f"{done} commands, all answers alike")
    return 0


if __name__ == "__main__":
    sys.exit(main())
