// What a program does with a framework of Go: frameworks NAME HOST PORT OTHER_PORT. As frameworks.py.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/bsm/redislock"
	"github.com/go-redis/cache/v9"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func see(what string, values ...any) { fmt.Printf("%s: %v\n", what, values) }

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// until waits until it is true, for a minute at most.
func until(condition func() bool) bool {
	for end := time.Now().Add(time.Minute); !condition() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return condition()
}

func goRedis(one, two *redis.Client) {
	see("set", one.Set(ctx, "k", "v", 5*time.Minute).Err(), two.Get(ctx, "k").Val(), two.TTL(ctx, "k").Val() > 4*time.Minute)
	see("nx", one.SetNX(ctx, "k", "w", time.Minute).Val(), two.SetNX(ctx, "new", "w", time.Minute).Val())
	found, err := one.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "n", 1, time.Minute)
		pipe.Incr(ctx, "n")
		pipe.Get(ctx, "n")
		return nil
	})
	see("transaction", err, found[1].(*redis.IntCmd).Val(), found[2].(*redis.StringCmd).Val())
	err = one.Watch(ctx, func(tx *redis.Tx) error {
		two.Set(ctx, "n", 9, 0)
		_, failed := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "n", 0, 0).Err() })
		return failed
	}, "n")
	see("watched", err == redis.TxFailedErr, one.Get(ctx, "n").Val())
	script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	see("script", script.Run(ctx, one, []string{"n"}, 5).Val(), script.Run(ctx, two, []string{"n"}, 5).Val())
	see("getex", one.GetEx(ctx, "k", time.Minute).Val(), two.TTL(ctx, "k").Val() <= time.Minute, one.GetDel(ctx, "k").Val())
}

func goRedisCache(one, two *redis.Client) {
	mine, other := cache.New(&cache.Options{Redis: one}), cache.New(&cache.Options{Redis: two})
	check(mine.Set(&cache.Item{Ctx: ctx, Key: "k", Value: map[string]int{"a": 1}, TTL: 5 * time.Minute}))
	var value map[string]int
	see("get", other.Get(ctx, "k", &value), value)
	see("exists", other.Exists(ctx, "k"), other.Exists(ctx, "none"))
	var made string
	item := &cache.Item{Ctx: ctx, Key: "once", Value: &made, TTL: time.Minute, Do: func(*cache.Item) (any, error) { return "made", nil }}
	see("once", mine.Once(item), made)
	check(mine.Set(&cache.Item{Ctx: ctx, Key: "short", Value: 1, TTL: time.Second}))
	see("expired", until(func() bool { return !other.Exists(ctx, "short") }))
	see("deleted", mine.Delete(ctx, "k"), other.Get(ctx, "k", &value) == cache.ErrCacheMiss)
}

func redLock(one, two *redis.Client) {
	mine, rival := redislock.New(one), redislock.New(two)
	lock, err := mine.Obtain(ctx, "l", time.Minute, nil)
	check(err)
	_, err = rival.Obtain(ctx, "l", time.Minute, nil)
	see("taken", err)
	left, err := lock.TTL(ctx)
	see("ttl", left > 50*time.Second, err)
	see("refresh", lock.Refresh(ctx, 2*time.Minute, nil))
	see("release", lock.Release(ctx), lock.Release(ctx))
	_, err = rival.Obtain(ctx, "l", time.Minute, nil)
	see("free", err)
}

func redSync(one, two *redis.Client) {
	mine, rival := redsync.New(goredis.NewPool(one)), redsync.New(goredis.NewPool(two))
	lock := mine.NewMutex("m", redsync.WithExpiry(time.Minute), redsync.WithTries(1))
	next := rival.NewMutex("m", redsync.WithExpiry(time.Minute), redsync.WithTries(1))
	check(lock.Lock())
	see("taken", next.Lock() != nil)
	extended, err := lock.Extend()
	see("extended", extended, err)
	released, err := lock.Unlock()
	see("released", released, err)
	_, err = lock.Unlock()
	see("twice", err != nil)
	see("free", next.Lock())
}

func redisRate(one, two *redis.Client) {
	mine, other := redis_rate.NewLimiter(one), redis_rate.NewLimiter(two)
	for i, limiter := range []*redis_rate.Limiter{mine, other, mine} {
		found, err := limiter.Allow(ctx, "user", redis_rate.PerHour(2))
		check(err)
		see(fmt.Sprint("allow ", i), found.Allowed, found.Remaining, found.RetryAfter > 20*time.Minute)
	}
	check(mine.Reset(ctx, "user"))
	found, err := other.AllowN(ctx, "user", redis_rate.PerHour(2), 2)
	see("reset", found.Allowed, err)
}

func scsSessions(one, two *redis.Client) {
	mine, other := scs.New(), scs.New()
	mine.Store, other.Store = goredisstore.New(one), goredisstore.New(two)
	session, err := mine.Load(ctx, "")
	check(err)
	mine.Put(session, "user", "seven")
	token, _, err := mine.Commit(session)
	check(err)
	found, err := other.Load(ctx, token)
	see("session", other.GetString(found, "user"), err)
	see("destroyed", other.Destroy(found))
	gone, err := mine.Load(ctx, token)
	see("gone", mine.GetString(gone, "user"), err)
}

func main() {
	frameworks := map[string]func(one, two *redis.Client){
		"go_redis": goRedis, "go_redis_cache": goRedisCache, "redislock": redLock, "redsync": redSync,
		"redis_rate": redisRate, "scs": scsSessions,
	}
	connect := func(port string) *redis.Client { return redis.NewClient(&redis.Options{Addr: os.Args[2] + ":" + port}) }
	frameworks[os.Args[1]](connect(os.Args[3]), connect(os.Args[4]))
}
