"""What a program does with a framework, as the framework's manual says: frameworks.py NAME HOST PORT OTHER_PORT.

Prints what it has seen, a line each, which is compared between Redis and Gossamer. Both ports are of servers of one store, or the
same. Times are chosen so that a slow machine sees the same: what is to be there lives for minutes, and what is to be gone is waited for.
"""

import asyncio
import sys
import time

HOST, PORT, OTHER = "127.0.0.1", 6379, 6379
FRAMEWORKS = {}


def framework(package):
    def register(function):
        FRAMEWORKS[function.__name__] = (package, function)
        return function
    return register


def see(what, value):
    print(f"{what}: {value!r}", flush=True)


def until(condition):
    """Waits until it is true, for a minute at most."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def url(port=None, database=0):
    return f"redis://{HOST}:{port or PORT}/{database}"


def cache(get, put, delete, many=None):
    """A cache as all have it: get, set with a time, delete."""
    see("absent", get("key"))
    put("key", {"a": [1, "two"]}, 300)
    see("present", get("key"))
    put("short", "x", 1)
    see("expired", until(lambda: get("short") is None))
    delete("key")
    see("deleted", get("key"))
    if many is not None:
        many()


def django_settings(backend):
    import django
    from django.conf import settings
    caches = {"default": {"BACKEND": backend, "LOCATION": url()}, "other": {"BACKEND": backend, "LOCATION": url(OTHER)}}
    settings.configure(CACHES=caches, SESSION_ENGINE="django.contrib.sessions.backends.cache", USE_TZ=True, SECRET_KEY="x")
    django.setup()


def django_cache(backend):
    django_settings(backend)
    from django.core.cache import caches
    one, other = caches["default"], caches["other"]
    cache(other.get, one.set, one.delete)
    see("add", (one.add("added", 1, 300), other.add("added", 2, 300), other.get("added")))
    see("incr", (one.set("number", 5, 300), other.incr("number", 3), one.decr("number", 1), other.get("number")))
    one.set_many({"m1": 1, "m2": "two"}, 300)
    see("many", other.get_many(["m1", "m2", "m3"]))
    see("has", (one.has_key("m1"), "m3" in one))
    see("get_or_set", (one.get_or_set("lazy", lambda: 7, 300), other.get_or_set("lazy", lambda: 8, 300)))
    see("touch", (one.touch("m1", 300), one.touch("none", 300)))
    one.delete_many(["m1", "m2"])
    see("deleted many", other.get_many(["m1", "m2"]))
    see("version", (one.set("v", 1, 300, version=2), other.get("v"), other.get("v", version=2)))
    return one, other


@framework("django")
def django_core():
    one, other = django_cache("django.core.cache.backends.redis.RedisCache")
    one.clear()
    see("cleared", other.get("number"))


@framework("django-redis")
def django_redis():
    one, other = django_cache("django_redis.cache.RedisCache")
    one.set("p:1", 1, timeout=300)
    see("ttl", other.ttl("p:1") in range(290, 301))
    see("no ttl", (one.set("p:2", 1, timeout=None), other.ttl("p:2"), other.ttl("none")))
    see("persist", (one.persist("p:1"), other.ttl("p:1")))
    see("expire", (one.expire("p:1", 200), other.ttl("p:1") in range(190, 201)))
    see("keys", sorted(one.keys("p:*")))
    see("nx", (one.set("p:1", 2, nx=True), one.set("p:3", 2, nx=True, timeout=300)))
    with one.lock("lock", timeout=60, blocking_timeout=1):
        see("locked", other.lock("lock", timeout=60, blocking_timeout=0.1).acquire())
    see("delete_pattern", (one.delete_pattern("p:*"), other.keys("p:*")))


@framework("django")
def django_sessions():
    django_settings("django.core.cache.backends.redis.RedisCache")
    from django.contrib.sessions.backends.cache import SessionStore
    session = SessionStore()
    session["user"] = 7
    session.set_expiry(600)
    session.save()
    see("session", SessionStore(session.session_key)["user"])
    key = session.session_key
    session.cycle_key()
    see("cycled", (SessionStore(key).get("user"), SessionStore(session.session_key).get("user"), key != session.session_key))
    session.flush()
    see("flushed", SessionStore(key).get("user"))


@framework("flask-caching")
def flask_caching():
    from flask import Flask
    from flask_caching import Cache
    app = Flask("app")
    one = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url(), "CACHE_KEY_PREFIX": "fc:"})
    other = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url(OTHER), "CACHE_KEY_PREFIX": "fc:"})
    with app.app_context():
        cache(other.get, lambda k, v, s: one.set(k, v, timeout=s), one.delete)
        see("add", (one.add("a", 1), other.add("a", 2), one.get("a")))
        see("many", (one.set_many({"x": 1, "y": 2}), other.get_many("x", "y", "z"), other.get_dict("x", "z")))
        calls = []

        @one.memoize(300)
        def slow(number):
            calls.append(number)
            return number * 2

        see("memoized", ([slow(3), slow(3), slow(4)], calls))
        one.delete_memoized(slow, 3)
        see("forgotten", (slow(3), calls))
        one.clear()
        see("cleared", other.get("x"))


@framework("flask-session")
def flask_session():
    import redis
    from flask import Flask, session
    from flask_session import Session

    def application(port):
        app = Flask("app")
        app.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis.Redis(HOST, port), SESSION_PERMANENT=True)
        Session(app)

        @app.route("/<int:by>")
        def count(by):
            session["count"] = session.get("count", 0) + by
            return str(session["count"])

        @app.route("/end")
        def end():
            session.clear()
            return "ended"
        return app

    one, other = application(PORT).test_client(), application(OTHER).test_client()
    first = one.get("/5")
    cookie = first.headers["Set-Cookie"].split(";")[0].split("=", 1)
    other.set_cookie(*cookie)
    see("session", (first.text, other.get("/2").text, one.get("/0").text, other.get("/end").text, one.get("/1").text))


@framework("aiocache")
def aiocache():
    async def run():
        from aiocache import Cache
        from aiocache.serializers import JsonSerializer
        one, other = (Cache(Cache.REDIS, endpoint=HOST, port=port, namespace="ac", serializer=JsonSerializer()) for port in (PORT, OTHER))
        see("get", (await one.get("k"), await one.set("k", {"a": 1}, ttl=300), await other.get("k")))
        see("add", (await one.add("n", 1, ttl=300), await other.exists("n")))
        try:
            await other.add("n", 2)
        except ValueError as error:
            see("added twice", str(error))
        see("increment", (await one.increment("n", 4), await other.get("n")))
        see("multi", (await one.multi_set([("x", 1), ("y", 2)], ttl=300), await other.multi_get(["x", "y", "z"])))
        see("expire", (await one.expire("x", 300), await one.expire("none", 5), await one.set("s", 1, ttl=1)))
        while await other.get("s") is not None:
            await asyncio.sleep(0.05)
        see("delete", (await one.delete("k"), await other.get("k"), await one.clear("ac"), await other.get("x")))
        from aiocache.lock import RedLock
        async with RedLock(one, "locked", lease=2):
            see("lock", await other.exists("locked-lock"))
        see("unlocked", await other.exists("locked-lock"))
        await one.close()
        await other.close()
    asyncio.run(run())


@framework("redis")
def redis_lock():
    import redis
    from redis.exceptions import LockError, LockNotOwnedError
    one, other = redis.Redis(HOST, PORT), redis.Redis(HOST, OTHER)
    lock, rival = one.lock("l", timeout=60), other.lock("l", timeout=60, blocking=False)
    see("taken", (lock.acquire(), rival.acquire(), rival.locked(), lock.owned()))
    see("extended", (lock.extend(60), lock.reacquire(), other.pttl("l") > 50_000))
    lock.release()
    see("free", (rival.acquire(), lock.locked()))
    try:
        lock.release()
    except LockError as error:
        see("released twice", str(error))
    rival.release()
    lost = one.lock("l", timeout=0.3)
    see("short", lost.acquire())
    see("next", until(lambda: rival.acquire()))
    try:
        lost.release()
    except LockNotOwnedError as error:
        see("lost", type(error).__name__)
    rival.release()


@framework("redis")
def redis_pipelines():
    import redis
    one, other = redis.Redis(HOST, PORT, decode_responses=True), redis.Redis(HOST, OTHER, decode_responses=True)
    with one.pipeline() as pipe:
        see("pipeline", pipe.set("a", 1).incr("a").expire("a", 100).get("a").ttl("a").execute())
    with one.pipeline(transaction=False) as pipe:
        see("plain", pipe.set("b", 1).get("b").execute())

    def bump(pipe):
        value = int(pipe.get("a"))
        pipe.multi()
        pipe.set("a", value + 1)

    see("transaction", (one.transaction(bump, "a"), other.get("a")))
    with one.pipeline() as pipe:
        pipe.watch("a")
        other.set("a", 50)
        pipe.multi()
        pipe.set("a", 60)
        try:
            pipe.execute()
        except redis.WatchError:
            see("watched", other.get("a"))
    script = one.register_script("return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}")
    see("script", (script(keys=["a"], args=[5]), script(keys=["a"], args=[5], client=other)))


@framework("limits")
def limits():
    from limits import parse
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter
    one, other = (FixedWindowRateLimiter(storage_from_string(url(port))) for port in (PORT, OTHER))
    item = parse("3/hour")
    see("hits", [limiter.hit(item, "user") for limiter in (one, other, one, other)])
    see("test", (one.test(item, "user"), other.get_window_stats(item, "user").remaining))
    see("others", one.hit(item, "other"))
    one.clear(item, "user")
    see("cleared", other.hit(item, "user"))
    short = parse("1/second")
    see("window", (one.hit(short, "quick"), until(lambda: other.hit(short, "quick"))))


@framework("dogpile.cache")
def dogpile():
    from dogpile.cache import make_region
    from dogpile.cache.api import NO_VALUE
    one, other = (make_region().configure("dogpile.cache.redis", expiration_time=300, arguments={
        "url": url(port), "redis_expiration_time": 600, "distributed_lock": True, "lock_timeout": 30}) for port in (PORT, OTHER))
    cache(lambda key: None if other.get(key) is NO_VALUE else other.get(key),
          lambda key, value, seconds: one.set(key, value) if seconds > 1 else (one.set(key, value), one.delete(key)), one.delete)
    made = []
    see("created", (one.get_or_create("g", lambda: made.append(1) or "made"), other.get_or_create("g", lambda: made.append(2)), made))
    one.set_multi({"x": 1, "y": 2})
    see("multi", other.get_multi(["x", "y"]))
    one.delete_multi(["x", "y"])
    see("deleted", other.get_multi(["x", "y"]) == [NO_VALUE, NO_VALUE])


@framework("cashews")
def cashews():
    async def run():
        from cashews import Cache
        one, other = Cache(), Cache()
        one.setup(url(), client_side=False)
        other.setup(url(OTHER), client_side=False)
        see("get", (await one.get("k"), await one.set("k", [1, "a"], expire=300), await other.get("k")))
        see("exist", (await one.set("k", 2, exist=False, expire=300), await one.set("new", 2, exist=False, expire=300)))
        see("incr", (await one.incr("count"), await other.incr("count", 5), await one.get("count")))
        see("expire", (await one.expire("k", 200), await other.get_expire("k") in range(190, 201)))
        see("many", (await one.set_many({"a": 1, "b": 2}, expire=300), await other.get_many("a", "b", "c")))
        async with one.lock("lock", expire=30):
            see("locked", await other.is_locked("lock"))
        see("unlocked", await other.is_locked("lock"))
        see("delete", (await one.delete("k"), await other.get("k"), await other.exists("a")))
        await one.close()
        await other.close()
    asyncio.run(run())


@framework("fastapi-cache2")
def fastapi_cache():
    async def run():
        from fastapi_cache.backends.redis import RedisBackend
        from redis import asyncio as aredis
        clients = [aredis.from_url(url(port)) for port in (PORT, OTHER)]
        one, other = (RedisBackend(client) for client in clients)
        await one.set("k", b"value", expire=300)
        see("get", (await other.get("k"), await other.get("none")))
        ttl, value = await other.get_with_ttl("k")
        see("ttl", (ttl in range(290, 301), value))
        for client in clients:
            await client.aclose()
    asyncio.run(run())


@framework("beaker")
def beaker():
    from beaker.cache import CacheManager
    one, other = (CacheManager(**{"type": "ext:redis", "url": url(port), "expire": 300}).get_cache("ns") for port in (PORT, OTHER))
    made = []
    see("created", (one.get("k", createfunc=lambda: made.append(1) or "v"), other.get("k", createfunc=lambda: made.append(2)), made))
    see("has", ("k" in other, "none" in other))
    one.remove_value("k")
    see("removed", "k" in other)


@framework("pottery")
def pottery():
    import redis
    from pottery import Redlock
    one, other = redis.Redis(HOST, PORT), redis.Redis(HOST, OTHER)
    lock, rival = Redlock(key="p", masters={one}, auto_release_time=60), Redlock(key="p", masters={other}, auto_release_time=60)
    see("taken", (lock.acquire(blocking=False), rival.acquire(blocking=False), lock.locked() > 0))
    lock.extend()
    lock.release()
    see("free", (rival.acquire(blocking=False), lock.locked()))
    rival.release()


def main():
    global HOST, PORT, OTHER
    name, HOST, PORT, OTHER = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    FRAMEWORKS[name][1]()


if __name__ == "__main__":
    main()
