"""What one key has, and what commands make of it: the sequential model that scripts/judge holds answers against.

A key's time to expire is known as an interval of the store's time, in milliseconds: a relative time was added to some instant
between the command's call and its return. What a later PTTL or PEXPIRETIME says narrows it. Whoever looks at a key whose time may have
come finds it alive or absent, as its time allows; both are tried.

`run` is all there is to use: the states that a key may have behind some commands that gave certain replies.
"""

from typing import NamedTuple

from soak.redis import ErrorReply


class Time(NamedTuple):
    """When a key expires: somewhere in [low, high]. The same token: the same time."""
    low: float
    high: float
    token: object


class Key(NamedTuple):
    kind: str  # string, hash or set; "" of an absent key
    value: object = None  # bytes, a frozenset of pairs, or a frozenset
    time: Time = None


ABSENT = Key("")


class Slack(NamedTuple):
    """Milliseconds that what a compute server takes for the store's time may be ahead of the true one, or behind it."""
    ahead: float = 3
    behind: float = 2


class Moment(NamedTuple):
    """When an operation takes effect: behind its call, and by now."""
    begin: float
    now: float
    slack: Slack
    operation: object  # names times that it gives


class Any:
    """The reply of which nothing is known."""


WRONG_TYPE = b"WRONGTYPE "
NO_INTEGER = b"ERR value is not an integer or out of range"
NO_INTEGER_IN_HASH = b"ERR hash value is not an integer"
NO_SUCH_KEY = b"ERR no such key"


def is_refusal(seen, start):
    return seen is Any or (isinstance(seen, ErrorReply) and seen.startswith(start))


def is_reply(seen, expected):
    return seen is Any or (seen == expected and not isinstance(seen, ErrorReply) and isinstance(seen, bool) == isinstance(expected, bool))


def views(key, at):
    """What an operation may find where `key` is stored."""
    time = key.time
    if time is None:
        return [key]
    found = []
    least = at.begin - at.slack.behind  # it found the key alive: its time came later
    if time.high >= least:
        found.append(key if time.low >= least else key._replace(time=time._replace(low=least)))
    if time.low <= at.now + at.slack.ahead:
        found.append(ABSENT)
    return found


def run(key, commands, replies, at):
    """Returns the states that `key` may have behind `commands`, done at once, if these were the replies."""
    states = views(key, at)
    for number, (words, seen) in enumerate(zip(commands, replies)):
        following = []
        for state in states:
            for after in COMMANDS[words[0]](state, words, seen, at, number):
                if after not in following:
                    following.append(after)
        states = following
    return states


def same_fingerprint(one, other):
    """(may be, must be): whether two states have the same value and time, for WATCH."""
    if one[:2] != other[:2] or (one.time is None) != (other.time is None):
        return False, False
    if one.time is None or one.time.token == other.time.token:
        return True, True
    may_be = one.time.low <= other.time.high and other.time.low <= one.time.high
    return may_be, may_be and one.time.low == one.time.high == other.time.low == other.time.high


# ---- Times

def after_ms(ms, at, number):
    return Time(at.begin + ms - at.slack.behind, at.now + ms + at.slack.ahead, (at.operation, number))


def time_of(option, amount, at, number):
    amount = float(amount)
    if option in ("PXAT", "PEXPIREAT"):
        return Time(amount, amount, amount)
    return after_ms(amount * (1000 if option in ("EX", "EXPIRE") else 1), at, number)


def with_time(key, time, at):
    """A date that has passed makes the key absent at once."""
    key = key._replace(time=time)
    is_date = time is not None and time.low == time.high
    return views(key, at) if is_date else [key]


def expire(key, words, seen, at, number):
    name, _, amount, *conditions = words
    if not key.kind:
        return [key] if is_reply(seen, 0) else []
    before, after = key.time, time_of(name, amount, at, number)
    outcomes = {True}
    for condition in conditions:
        if condition == "NX":
            one = {before is None}
        elif condition == "XX":
            one = {before is not None}
        elif before is None:
            one = {condition == "LT"}
        elif condition == "GT":
            one = {found for found, may_be in ((True, after.high > before.low), (False, after.low <= before.high)) if may_be}
        else:
            one = {found for found, may_be in ((True, after.low < before.high), (False, after.high >= before.low)) if may_be}
        outcomes = {found and other for found in outcomes for other in one}
    states = []
    if True in outcomes and is_reply(seen, 1):
        has_passed = name != "PEXPIREAT" and int(amount) <= 0
        states += [ABSENT] if has_passed else with_time(key, after, at)
    if False in outcomes and is_reply(seen, 0):
        states.append(key)
    return states


def persist(key, words, seen, at, number):
    return [key._replace(time=None)] if is_reply(seen, 1 if key.kind and key.time else 0) else []


def narrowed(key, low, high):
    low, high = max(low, key.time.low), min(high, key.time.high)
    return [key._replace(time=key.time._replace(low=low, high=high))] if low <= high else []


def tell_time(key, words, seen, at, number):
    if not key.kind or key.time is None:
        return [key] if is_reply(seen, -1 if key.kind else -2) else []
    if seen is Any:
        return [key]
    if words[0] == "PEXPIRETIME":
        return narrowed(key, seen, seen) if isinstance(seen, (int, float)) else []
    if not isinstance(seen, int) or seen < 0:
        return []
    # What has passed is told as 0.
    return narrowed(key, at.begin + seen - at.slack.behind if seen else float("-inf"), at.now + seen + at.slack.ahead)


# ---- Strings

def string_command(change):
    """`change(value, words)` returns (reply, value): of a string or of an absent key, of which the value is None. A reply that
    is a Refused stands for an error."""
    def command(key, words, seen, at, number):
        if key.kind not in ("", "string"):
            return [key] if is_refusal(seen, WRONG_TYPE) else []
        reply, value = change(key.value, words)
        if isinstance(reply, Refused):
            return [key] if is_refusal(seen, reply.start) else []
        if not is_reply(seen, reply):
            return []
        if value is None:
            return [ABSENT]
        return [Key("string", value, key.time)]
    return command


class Refused:
    def __init__(self, start):
        self.start = start


def integer(value):
    text = value.decode(errors="replace")
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text and -1 << 63 <= number < 1 << 63 else None


def increment(value, words):
    by = int(words[2]) if len(words) > 2 else 1
    before = 0 if value is None else integer(value)
    if before is None:
        return Refused(NO_INTEGER), value
    return before + by, b"%d" % (before + by)


def append(value, words):
    value = (value or b"") + words[2]
    return len(value), value


def set_range(value, words):
    offset = int(words[2])
    value = (value or b"").ljust(offset, b"\0")
    value = value[:offset] + words[3] + value[offset + len(words[3]):]
    return len(value), value


def bit_of(value, offset):
    return value[offset // 8] >> (7 - offset % 8) & 1 if value and offset // 8 < len(value) else 0


def set_bit(value, words):
    offset, bit = int(words[2]), int(words[3])
    before = bit_of(value, offset)
    changed = bytearray((value or b"").ljust(offset // 8 + 1, b"\0"))
    mask = 0x80 >> offset % 8
    changed[offset // 8] = changed[offset // 8] | mask if bit else changed[offset // 8] & ~mask
    return before, bytes(changed)


def set_string(key, words, seen, at, number):
    _, _, value, *options = words
    after, must_be, returns_old, wanted, keeps = None, None, False, None, False
    options = iter(options)
    for option in options:
        if option in ("NX", "XX"):
            must_be = option
        elif option == "GET":
            returns_old = True
        elif option == "KEEPTTL":
            keeps = True
        elif option in ("IFEQ", "IFNE"):
            must_be, wanted = option, next(options)
        else:
            after = time_of(option, next(options), at, number)
    is_string = key.kind in ("", "string")
    if not is_string and (returns_old or wanted is not None):
        return [key] if is_refusal(seen, WRONG_TYPE) else []
    is_set = {None: True, "NX": not key.kind, "XX": bool(key.kind), "IFEQ": key.kind and key.value == wanted,
              "IFNE": not key.kind or key.value != wanted}[must_be]
    if not is_reply(seen, key.value if returns_old else b"OK" if is_set else None):
        return []
    if not is_set:
        return [key]
    return [Key("string", value, key.time)] if keeps else with_time(Key("string", value), after, at)


def get_ex(key, words, seen, at, number):
    if key.kind not in ("", "string"):
        return [key] if is_refusal(seen, WRONG_TYPE) else []
    if not is_reply(seen, key.value):
        return []
    if not key.kind or len(words) == 2:
        return [key]
    return with_time(key, None if words[2] == "PERSIST" else time_of(words[2], words[3], at, number), at)


# ---- Any type

def delete(key, words, seen, at, number):
    return [ABSENT] if is_reply(seen, 1 if key.kind else 0) else []


def delete_if(key, words, seen, at, number):
    if len(words) == 2:
        return delete(key, words, seen, at, number)
    if key.kind not in ("", "string"):
        return [key] if is_refusal(seen, WRONG_TYPE) else []
    holds = key.kind and (key.value == words[3]) == (words[2] == "IFEQ")
    return [ABSENT if holds else key] if is_reply(seen, 1 if holds else 0) else []


def tell_type(key, words, seen, at, number):
    return [key] if is_reply(seen, key.kind.encode() or b"none") else []


def exists(key, words, seen, at, number):
    return [key] if is_reply(seen, 1 if key.kind else 0) else []


def scan(key, words, seen, at, number):
    """Of a range that has this key alone; of strings."""
    return [key] if is_reply(seen, [words[1], key.value] if key.kind else []) else []


# ---- Hashes and sets

def composite_command(kind):
    """Of `change(items, words, seen)`, which returns (whether the reply fits, items), or a Refused in the place of the latter."""
    def decorate(change):
        def command(key, words, seen, at, number):
            if key.kind not in ("", kind):
                return [key] if is_refusal(seen, WRONG_TYPE) else []
            before = key.value or frozenset()
            states = []
            for fits, items in change(before, words, seen):
                if isinstance(items, Refused):
                    fits, items = is_refusal(seen, items.start), before
                if fits:
                    states.append(Key(kind, items, key.time) if items else ABSENT)
            return states
        return command
    return decorate


def pairs_of(words):
    return dict(zip(words[::2], words[1::2]))


@composite_command("hash")
def hash_set(items, words, seen):
    before = dict(items)
    pairs = pairs_of(words[2:])
    return [(is_reply(seen, len(pairs.keys() - before.keys())), frozenset((before | pairs).items()))]


@composite_command("hash")
def hash_increment(items, words, seen):
    before = dict(items)
    old = integer(before.get(words[2], b"0"))
    if old is None:
        return [(False, Refused(NO_INTEGER_IN_HASH))]
    number = old + int(words[3])
    return [(is_reply(seen, number), frozenset((before | {words[2]: b"%d" % number}).items()))]


@composite_command("hash")
def hash_delete(items, words, seen):
    after = frozenset(item for item in items if item[0] not in words[2:])
    return [(is_reply(seen, len(items) - len(after)), after)]


@composite_command("hash")
def hash_get(items, words, seen):
    return [(is_reply(seen, dict(items).get(words[2])), items)]


@composite_command("hash")
def hash_get_all(items, words, seen):
    return [(seen is Any or (isinstance(seen, list) and len(seen) == 2 * len(items) and frozenset(pairs_of(seen).items()) == items), items)]


@composite_command("hash")
def hash_length(items, words, seen):
    return [(is_reply(seen, len(items)), items)]


@composite_command("set")
def set_add(items, words, seen):
    after = items | set(words[2:])
    return [(is_reply(seen, len(after) - len(items)), after)]


@composite_command("set")
def set_remove(items, words, seen):
    after = items - set(words[2:])
    return [(is_reply(seen, len(items) - len(after)), after)]


@composite_command("set")
def set_members(items, words, seen):
    return [(seen is Any or (isinstance(seen, list) and len(seen) == len(items) and frozenset(seen) == items), items)]


@composite_command("set")
def set_count(items, words, seen):
    return [(is_reply(seen, len(items)), items)]


@composite_command("set")
def set_has(items, words, seen):
    return [(is_reply(seen, 1 if words[2] in items else 0), items)]


@composite_command("set")
def set_pop(items, words, seen):
    if not items:
        return [(is_reply(seen, None), items)]
    if seen is Any:
        return [(True, items - {member}) for member in items]
    return [(seen in items, items - {seen})] if isinstance(seen, bytes) else []


# ---- Scripts, by their names: what is sent, and what it does

SCRIPTS = {
    "unlock": b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "renew": b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
    "limit": b"local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end return n",
    "stamp": b"redis.call('set', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return redis.call('pttl', KEYS[1])",
    "broken": b"redis.call('set', KEYS[1], ARGV[1]) return redis.call('hlen', KEYS[1])",
    "swap": b"local v = redis.call('get', KEYS[1]) redis.call('set', KEYS[1], ARGV[1], 'keepttl') return v",
    "visit": b"redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('hset', KEYS[1], 'last', ARGV[2])"
             b" return {redis.call('hget', KEYS[1], ARGV[1]), redis.call('hlen', KEYS[1])}",
}


def script(key, words, seen, at, number):
    """EVAL name key argument…"""
    name, arguments = words[1], words[3:]
    is_string = key.kind in ("", "string")
    if name in ("unlock", "renew", "limit", "swap") and not is_string or name == "visit" and key.kind not in ("", "hash"):
        return [key] if is_refusal(seen, WRONG_TYPE) else []
    if name == "unlock" or name == "renew":
        if key.value != arguments[0]:
            return [key] if is_reply(seen, 0) else []
        after = ABSENT if name == "unlock" else key._replace(time=after_ms(int(arguments[1]), at, number))
        return [after] if is_reply(seen, 1) else []
    if name == "limit":
        reply, value = increment(key.value, ("INCR", key))
        if isinstance(reply, Refused):
            return [key] if is_refusal(seen, reply.start) else []
        time = after_ms(int(arguments[0]), at, number) if reply == 1 else key.time
        return [Key("string", value, time)] if is_reply(seen, reply) else []
    if name == "stamp":
        return [Key("string", arguments[0], after_ms(int(arguments[1]), at, number))] if is_reply(seen, int(arguments[1])) else []
    if name == "broken":
        return [Key("string", arguments[0])] if is_refusal(seen, WRONG_TYPE) else []
    if name == "swap":
        return [Key("string", arguments[0], key.time)] if is_reply(seen, key.value) else []
    fields = dict(key.value or ())
    old = integer(fields.get(arguments[0], b"0"))
    if old is None:
        return [key] if is_refusal(seen, NO_INTEGER_IN_HASH) else []
    fields |= {arguments[0]: b"%d" % (old + 1), b"last": arguments[1]}
    if not is_reply(seen, [fields[arguments[0]], len(fields)]):
        return []
    return [Key("hash", frozenset(fields.items()), key.time)]


COMMANDS = {
    "GET": string_command(lambda value, words: (value, value)),
    "STRLEN": string_command(lambda value, words: (len(value or b""), value)),
    "GETBIT": string_command(lambda value, words: (bit_of(value, int(words[2])), value)),
    "GETDEL": string_command(lambda value, words: (value, None)),
    "INCR": string_command(increment),
    "INCRBY": string_command(increment),
    "APPEND": string_command(append),
    "SETRANGE": string_command(set_range),
    "SETBIT": string_command(set_bit),
    "SET": set_string,
    "GETEX": get_ex,
    "EXPIRE": expire, "PEXPIRE": expire, "PEXPIREAT": expire,
    "PERSIST": persist, "PTTL": tell_time, "PEXPIRETIME": tell_time,
    "DEL": delete, "DELEX": delete_if, "EXISTS": exists, "TYPE": tell_type,
    "HSET": hash_set, "HINCRBY": hash_increment, "HDEL": hash_delete, "HGET": hash_get, "HGETALL": hash_get_all, "HLEN": hash_length,
    "SADD": set_add, "SREM": set_remove, "SMEMBERS": set_members, "SCARD": set_count, "SISMEMBER": set_has, "SPOP": set_pop,
    "GOSSAMER.SCAN": scan, "GOSSAMER.DELRANGE": delete,
    "EVAL": script,
}

READS = {"GET", "GOSSAMER.SCAN", "STRLEN", "GETBIT", "PTTL", "PEXPIRETIME", "EXISTS", "TYPE", "HGET", "HGETALL", "HLEN", "SMEMBERS", "SCARD", "SISMEMBER"}
# Whose reply 0, nil or error says that nothing was changed.
TELLING = {"DEL", "GOSSAMER.DELRANGE", "DELEX", "EXPIRE", "PEXPIRE", "PEXPIREAT", "PERSIST", "HDEL", "SADD", "SREM", "SPOP", "INCR", "INCRBY", "HINCRBY",
           "GETDEL", "GETEX"}


def changes_nothing(words, seen):
    """Whether a command with this reply certainly changed nothing, whatever the key had."""
    if words[0] in READS or words[0] == "GETEX" and len(words) == 2:
        return True
    if words[0] == "SET":
        return seen is None and "GET" not in words
    # An INCR that made 0, and so on, is a change.
    is_nothing = isinstance(seen, ErrorReply) or (seen is None if words[0] in ("GETDEL", "GETEX", "SPOP") else seen == 0)
    if words[0] in ("INCR", "INCRBY", "HINCRBY"):
        is_nothing = isinstance(seen, ErrorReply)
    return words[0] in TELLING and is_nothing and seen is not Any
