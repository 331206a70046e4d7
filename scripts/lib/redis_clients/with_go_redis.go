// Uses go-redis as programs do, against the gateway at the address that is given, and ends with an error where an answer is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	keys       = 500
	goroutines = 16
	increments = 200
)

var ctx = context.Background()

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "go-redis: "+format+"\n", arguments...)
	os.Exit(1)
}

// equal ends the program unless a command had the expected answer, and no error.
func equal[T comparable](found T, err error, expected T) {
	if err != nil {
		fail("%v instead of %v", err, expected)
	}
	if found != expected {
		fail("%v instead of %v", found, expected)
	}
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func name(number int) string { return fmt.Sprintf("go:%04d", number) }

func useStrings(client *redis.Client) {
	check(client.FlushDB(ctx).Err())
	pong, err := client.Ping(ctx).Result()
	equal(pong, err, "PONG")
	check(client.Set(ctx, "go:a", 1, 0).Err())
	set, err := client.SetNX(ctx, "go:a", 2, 0).Result()
	equal(set, err, false)
	old, err := client.SetArgs(ctx, "go:a", 2, redis.SetArgs{Get: true, Mode: "XX"}).Result()
	equal(old, err, "1")
	number, err := client.IncrBy(ctx, "go:a", 5).Result()
	equal(number, err, 7)
	fraction, err := client.IncrByFloat(ctx, "go:a", 0.5).Result()
	equal(fraction, err, 7.5)
	if err := client.Get(ctx, "go:none").Err(); !errors.Is(err, redis.Nil) {
		fail("an absent key is %v", err)
	}
	length, err := client.Append(ctx, "go:b", "abc").Result()
	equal(length, err, 3)
	part, err := client.GetRange(ctx, "go:b", 1, -1).Result()
	equal(part, err, "bc")
	taken, err := client.GetDel(ctx, "go:b").Result()
	equal(taken, err, "abc")
	pairs := []any{}
	for number := range keys {
		pairs = append(pairs, name(number), number)
	}
	check(client.MSet(ctx, pairs...).Err())
	values, err := client.MGet(ctx, name(0), "go:none", name(keys-1)).Result()
	check(err)
	equal(fmt.Sprint(values), nil, fmt.Sprintf("[0 <nil> %d]", keys-1))
	kind, err := client.Type(ctx, name(0)).Result()
	equal(kind, err, "string")
}

func useIterators(client *redis.Client) {
	found := 0
	iterator := client.Scan(ctx, 0, "go:0*", 7).Iterator()
	for ; iterator.Next(ctx); found++ {
		equal(iterator.Val(), nil, name(found))
	}
	equal(found, iterator.Err(), keys)
	size, err := client.DBSize(ctx).Result()
	equal(size, err, keys+1)
}

func usePipelines(client *redis.Client) {
	gets := make([]*redis.StringCmd, keys)
	counts := make([]*redis.IntCmd, keys)
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range keys {
			pipe.Set(ctx, name(number), 2*number, 0)
			gets[number] = pipe.Get(ctx, name(number))
			counts[number] = pipe.Incr(ctx, name(number))
		}
		return nil
	})
	check(err)
	for number := range keys {
		equal(gets[number].Val(), gets[number].Err(), strconv.Itoa(2*number))
		equal(counts[number].Val(), counts[number].Err(), int64(2*number+1))
	}
}

func refused(err error, sentence string) {
	if err == nil || !strings.Contains(err.Error(), sentence) {
		fail("the error is %v, without %s", err, sentence)
	}
}

func useErrors(client *redis.Client) {
	refused(client.Do(ctx, "BOGUS").Err(), "unknown command 'BOGUS'")
	refused(client.Do(ctx, "GET").Err(), "wrong number of arguments for 'get' command")
	refused(client.LPush(ctx, "go:a", 1).Err(), "there are no lists")
	refused(client.Set(ctx, "go:a", 1, time.Minute).Err(), "keys do not expire")
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Get(ctx, "go:a").Err() })
	refused(err, "there are no transactions")
	pong, err := client.Ping(ctx).Result()
	equal(pong, err, "PONG")
}

func useServer(client *redis.Client) {
	info, err := client.Info(ctx, "server").Result()
	equal(strings.Contains(info, "redis_version:"), err, true)
	commands, err := client.Command(ctx).Result()
	equal(len(commands) > 30 && commands["get"].Arity == 2, err, true)
	policy, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	equal(policy["maxmemory-policy"], err, "noeviction")
	check(client.SlowLogGet(ctx, 5).Err())
	id, err := client.ClientID(ctx).Result()
	equal(id > 0, err, true)
}

// useConnections has more goroutines than connections, and ends connections under them: no increment is lost.
func useConnections(client *redis.Client, protocol int) {
	pool := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Protocol: protocol, PoolSize: goroutines / 2, PoolTimeout: time.Minute})
	defer pool.Close()
	check(pool.Del(ctx, "go:count").Err())
	var group sync.WaitGroup
	for range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for range increments {
				check(pool.Incr(ctx, "go:count").Err())
			}
		}()
	}
	group.Wait()
	count, err := pool.Get(ctx, "go:count").Int()
	equal(count, err, goroutines*increments)
	_, err = client.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Result()
	check(err)
	check(pool.Set(ctx, "go:again", 1, 0).Err())
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol, ClientName: "of_go-redis"})
		useStrings(client)
		useIterators(client)
		usePipelines(client)
		useErrors(client)
		useServer(client)
		useConnections(client, protocol)
		check(client.Close())
	}
	fmt.Printf("go-redis %s: RESP2 and RESP3, pipelines, iterators, errors, pools, connections that end\n", redis.Version())
}
