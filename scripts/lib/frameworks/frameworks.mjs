// What a program does with a framework of npm: node frameworks.mjs NAME HOST PORT OTHER_PORT. As frameworks.py.
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const [, , name, host, port, other] = process.argv;
const ports = [Number(port), Number(other)];

const see = (what, value) => console.log(`${what}: ${JSON.stringify(value)}`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Waits until it is true, for a minute at most.
async function until(condition) {
  const end = Date.now() + 60_000;
  while (!(await condition()) && Date.now() < end) await sleep(20);
  return condition();
}
const within = (value, low, high) => value >= low && value <= high;

async function clients() {
  const { createClient } = require("redis");
  return Promise.all(ports.map(async (one) => {
    const client = createClient({ socket: { host, port: one } });
    await client.connect();
    return client;
  }));
}

function ioredis() {
  const Redis = require("ioredis");
  return ports.map((one) => new Redis({ host, port: one }));
}

const frameworks = {
  async node_redis() {
    const [one, two] = await clients();
    see("set", [await one.set("k", "v", { EX: 300 }), await two.get("k"), within(await two.ttl("k"), 290, 300)]);
    see("multi", await one.multi().set("n", "1").incr("n").expire("n", 300).get("n").exec());
    see("script", await one.eval("return {KEYS[1], redis.call('incr', KEYS[1])}", { keys: ["n"] }));
    await one.watch("n");
    await two.set("n", "7");
    see("watch", await one.multi().set("n", "8").exec().then(() => "done", (error) => error.constructor.name));
    see("getEx", [await one.getEx("k", { PX: 200_000 }), within(await two.ttl("k"), 190, 200), await one.getDel("k")]);
    await Promise.all([one.quit(), two.quit()]);
  },
  async ioredis() {
    const [one, two] = ioredis();
    see("set", [await one.set("k", "v", "EX", 300), await two.get("k"), within(await two.ttl("k"), 290, 300)]);
    see("pipeline", await one.pipeline().set("n", 1).incr("n").get("n").exec());
    see("multi", await one.multi().incr("n").pexpire("n", 300_000).get("n").exec());
    one.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    see("command", [await one.add("n", 5), await one.add("n", 5), await two.get("n")]);
    see("scan", await new Promise((done) => {
      const keys = [];
      two.scanStream({ match: "n*" }).on("data", (some) => keys.push(...some)).on("end", () => done(keys.sort()));
    }));
    one.disconnect();
    two.disconnect();
  },
  async connect_redis() {
    const { RedisStore } = require("connect-redis");
    const connections = await clients();
    const [one, two] = connections.map((client) => new RedisStore({ client, ttl: 600 }));
    const call = (store, method, ...words) => new Promise((done, fail) =>
      store[method](...words, (error, value) => (error ? fail(error) : done(value))));
    const session = { cookie: {}, user: 7 };
    await call(one, "set", "sid", session);
    see("get", await call(two, "get", "sid"));
    await call(two, "touch", "sid", session);
    see("ttl", within(await connections[0].ttl("sess:sid"), 590, 600));
    await call(one, "destroy", "sid");
    see("destroyed", (await call(two, "get", "sid")) ?? null);
    await Promise.all(connections.map((client) => client.quit()));
  },
  async keyv() {
    const Keyv = require("keyv").default ?? require("keyv");
    const { default: KeyvRedis } = require("@keyv/redis");
    const [one, two] = ports.map((each) => new Keyv({ store: new KeyvRedis(`redis://${host}:${each}`) }));
    see("set", [await one.set("k", { a: [1] }, 300_000), await two.get("k")]);
    await one.set("short", 1, 300);
    see("expired", await until(async () => (await two.get("short")) === undefined));
    see("delete", [await one.delete("k"), (await two.get("k")) ?? null, await one.has("k")]);
    await Promise.all([one.disconnect(), two.disconnect()]);
  },
  async redlock() {
    const { default: Redlock, ExecutionError } = require("redlock");
    const [one, two] = ioredis();
    const [mine, rival] = [one, two].map((client) => new Redlock([client], { retryCount: 0 }));
    const lock = await mine.acquire(["locked"], 60_000);
    see("taken", await rival.acquire(["locked"], 1000).then(() => "twice", (error) => error instanceof ExecutionError));
    const extended = await lock.extend(60_000);
    see("extended", extended.expiration > lock.expiration - 1);
    await extended.release();
    const next = await rival.acquire(["locked"], 1000);
    see("free", next.resources);
    await next.release();
    one.disconnect();
    two.disconnect();
  },
  async rate_limit_redis() {
    const { RedisStore } = require("rate-limit-redis");
    const connections = await clients();
    const [one, two] = connections.map((client) => new RedisStore({ sendCommand: (...words) => client.sendCommand(words), prefix: "rl:" }));
    for (const store of [one, two]) store.init({ windowMs: 600_000 });
    const hits = [];
    for (const store of [one, two, one]) hits.push((await store.increment("user")).totalHits);
    see("hits", hits);
    await one.decrement("user");
    const found = await two.get("user");
    see("get", [found.totalHits, within(found.resetTime - Date.now(), 500_000, 600_000)]);
    await two.resetKey("user");
    see("reset", (await one.increment("user")).totalHits);
    await Promise.all(connections.map((client) => client.quit()));
  },
  async rate_limiter_flexible() {
    const { RateLimiterRedis } = require("rate-limiter-flexible");
    const [one, two] = ioredis();
    const limiters = [one, two].map((storeClient) => new RateLimiterRedis({ storeClient, points: 2, duration: 600 }));
    const left = [];
    for (const limiter of [...limiters, ...limiters]) {
      left.push(await limiter.consume("user").then((found) => found.remainingPoints, (found) => `refused ${found.consumedPoints}`));
    }
    see("consumed", left);
    see("get", [(await limiters[0].get("user")).consumedPoints, await limiters[1].delete("user"), await limiters[0].get("user")]);
    one.disconnect();
    two.disconnect();
  },
  async cache_manager() {
    const { createCache } = require("cache-manager");
    const Keyv = require("keyv").default ?? require("keyv");
    const { default: KeyvRedis } = require("@keyv/redis");
    const [one, two] = ports.map((each) => createCache({ stores: [new Keyv({ store: new KeyvRedis(`redis://${host}:${each}`) })] }));
    await one.set("k", 1, 300_000);
    see("get", [await two.get("k"), (await two.get("none")) ?? null]);
    see("wrap", [await one.wrap("w", () => "made", 300_000), await two.wrap("w", () => "again", 300_000)]);
    await one.mset([{ key: "a", value: 1 }, { key: "b", value: 2 }]);
    see("many", (await two.mget(["a", "b", "c"])).map((value) => value ?? null));
    await one.del("k");
    see("deleted", (await two.get("k")) ?? null);
    await Promise.all([one.disconnect(), two.disconnect()]);
  },
};

await frameworks[name]();
process.exit(0);
