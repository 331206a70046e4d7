"""Uses redis-py as programs do, against the gateway at HOST:PORT, and ends with an error where an answer is wrong."""

import asyncio
import sys
import threading

import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, ResponseError
from redis.retry import Retry

KEYS = 500
THREADS = 8
INCREMENTS = 250


def equal(found, expected):
    if found != expected:
        raise SystemExit(f"redis-py: {found!r:.200} instead of {expected!r:.200}")


def strings(client, text):
    """Commands of strings and numbers; `text` makes of bytes what this client answers with."""
    client.flushdb()
    equal(client.ping(), True)
    equal(client.set("py:a", "1"), True)
    equal(client.set("py:a", "2", nx=True), None)
    equal(client.set("py:a", "2", xx=True, get=True), text(b"1"))
    equal([client.get("py:a"), client.get("py:none")], [text(b"2"), None])
    equal([client.incr("py:a", 5), client.decr("py:a"), client.incrbyfloat("py:a", 0.5)], [7, 6, 6.5])
    equal([client.append("py:b", "abc"), client.strlen("py:b"), client.getrange("py:b", 1, -1)], [3, 3, text(b"bc")])
    equal([client.setrange("py:b", 1, "xy"), client.getset("py:b", "q"), client.getdel("py:b")], [3, text(b"axy"), text(b"q")])
    equal(client.mset({f"py:{number:04}": number for number in range(KEYS)}), True)
    equal(client.mget([f"py:{number:04}" for number in range(KEYS + 1)]), [text(b"%d" % number) for number in range(KEYS)] + [None])
    equal([client.exists("py:0000", "py:none"), client.type("py:0000"), client.setnx("py:0000", "x")], [1, text(b"string"), False])
    bytes_of_all = bytes(range(256))
    client.set(b"py:\x00\xff", bytes_of_all)
    if text(b"") == b"":
        equal(client.get(b"py:\x00\xff"), bytes_of_all)
    equal(client.delete(b"py:\x00\xff", "py:none"), 1)


def iterators(client, text):
    names = [text(b"py:%04d" % number) for number in range(KEYS)]
    equal(list(client.scan_iter("py:0*", count=7)), names)
    equal(list(client.scan_iter("py:0*", count=1000, _type="string")), names)
    equal(client.keys("py:000?"), names[:10])
    equal(client.dbsize(), KEYS + 1)


def pipelines(client, text):
    with client.pipeline(transaction=False) as pipe:
        for number in range(KEYS):
            pipe.set(f"py:{number:04}", number * 2).get(f"py:{number:04}").incr(f"py:{number:04}")
        equal(pipe.execute(), [answer for number in range(KEYS) for answer in (True, text(b"%d" % (number * 2)), number * 2 + 1)])
        answers = pipe.set("py:word", "no number").incr("py:word").get("py:word").execute(raise_on_error=False)
        equal([answers[0], type(answers[1]), answers[2]], [True, ResponseError, text(b"no number")])
    client.delete("py:word")


def errors(client, _text):
    for refused, sentence in ((lambda: client.execute_command("BOGUS", 1), "unknown command 'BOGUS'"),
                              (lambda: client.execute_command("GET"), "wrong number of arguments for 'get' command"),
                              (lambda: client.lpush("py:a", 1), "there are no lists"),
                              (lambda: client.set("py:a", 1, ex=10), "keys do not expire"),
                              (lambda: client.pipeline(transaction=True).get("py:a").execute(), "there are no transactions")):
        try:
            refused()
        except ResponseError as error:
            if sentence not in str(error):
                raise SystemExit(f"redis-py: the error is {error}, without {sentence}")
        else:
            raise SystemExit(f"redis-py: no error with {sentence}")
    equal(client.ping(), True)


def server(client, text):
    equal(client.client_setname("of_redis-py"), True)
    equal(client.client_getname() in ("of_redis-py", b"of_redis-py"), True)
    equal(str(client.client_id()) in [str(entry["id"]) for entry in client.client_list()], True)
    equal(client.client_setinfo("LIB-NAME", "redis-py"), True)
    equal(client.info()["redis_mode"], "standalone")
    equal(client.info("commandstats")["cmdstat_set"]["calls"] > 0, True)
    policy = client.config_get("maxmemory-policy")
    equal(policy in ({"maxmemory-policy": "noeviction"}, {b"maxmemory-policy": b"noeviction"}), True)
    equal("get" in {str(name).lower() for name in client.command()}, True)
    equal(client.command_count() > 30, True)
    client.slowlog_get(5)
    equal(isinstance(client.slowlog_len(), int), True)
    equal(client.echo("hello"), text(b"hello"))


def threads(host, port, protocol):
    """Many threads with one pool, that is smaller than they are many: no increment is lost."""
    pool = redis.BlockingConnectionPool(host=host, port=port, protocol=protocol, max_connections=THREADS // 2, timeout=60)
    client = redis.Redis(connection_pool=pool)
    client.delete("py:count")

    def increment():
        for _ in range(INCREMENTS):
            client.incr("py:count")

    running = [threading.Thread(target=increment) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    equal(client.get("py:count"), b"%d" % (THREADS * INCREMENTS))
    client.close()


def retries(host, port, protocol):
    """A connection that the server ends is made again, and the command is tried again."""
    client = redis.Redis(host=host, port=port, protocol=protocol, retry=Retry(ExponentialBackoff(base=0.01), 3),
                         retry_on_error=[ConnectionError], single_connection_client=True)
    other = redis.Redis(host=host, port=port, protocol=protocol)
    before = client.client_id()
    equal(other.client_kill_filter(_id=before), 1)
    client.set("py:retried", "yes")
    equal(client.get("py:retried"), b"yes")
    equal(client.client_id() != before, True)
    client.close()
    other.close()


async def coroutines(host, port, protocol):
    async with redis.asyncio.Redis(host=host, port=port, protocol=protocol, decode_responses=True) as client:
        await asyncio.gather(*(client.set(f"py:async:{number}", number) for number in range(50)))
        equal(await client.mget([f"py:async:{number}" for number in range(50)]), [str(number) for number in range(50)])
        equal(sorted([name async for name in client.scan_iter("py:async:*")]), sorted(f"py:async:{number}" for number in range(50)))


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    for protocol in (2, 3):
        for decode in (False, True):
            with redis.Redis(host=host, port=int(port), protocol=protocol, decode_responses=decode) as client:
                for part in (strings, iterators, pipelines, errors, server):
                    part(client, (lambda word: word.decode()) if decode else (lambda word: word))
        threads(host, int(port), protocol)
        retries(host, int(port), protocol)
        asyncio.run(coroutines(host, int(port), protocol))
    print(f"redis-py {redis.__version__}: RESP2 and RESP3, bytes and text, pipelines, iterators, pools, retries, asyncio")


main()
