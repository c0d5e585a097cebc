// locks redsync|redsync-fills|redislock PORT: redsync and bsm/redislock over go-redis; redsync also PORT,PORT,PORT.
// redsync-fills is redsync with WithSetNXOnExtend.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"interop/lines"
)

var ctx = context.Background()

// lock is what both libraries give.
type lock interface {
	release() error
	extend(lease time.Duration) error
}

type library interface {
	module() string
	acquire(name string, lease, wait time.Duration) (lock, error) // nil, nil: not in time
}

const pause = 50 * time.Millisecond

type syncLib struct {
	rs      *redsync.Redsync
	options []redsync.Option
}

type syncLock struct{ m *redsync.Mutex }

func (syncLib) module() string { return "github.com/go-redsync/redsync/v4" }

func (l syncLib) acquire(name string, lease, wait time.Duration) (lock, error) {
	tries := int(wait/pause) + 1
	options := append([]redsync.Option{redsync.WithExpiry(lease), redsync.WithTries(tries),
		redsync.WithRetryDelay(pause)}, l.options...)
	m := l.rs.NewMutex(name, options...)
	var taken *redsync.ErrTaken
	if err := m.Lock(); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return syncLock{m}, nil
}

func (l syncLock) release() error {
	ok, err := l.m.Unlock()
	if err == nil && !ok {
		err = errors.New("not held")
	}
	return err
}

func (l syncLock) extend(time.Duration) error {
	ok, err := l.m.Extend()
	if err == nil && !ok {
		err = errors.New("not held")
	}
	return err
}

type bsmLib struct{ client *redislock.Client }
type bsmLock struct{ l *redislock.Lock }

func (bsmLib) module() string { return "github.com/bsm/redislock" }

func (l bsmLib) acquire(name string, lease, wait time.Duration) (lock, error) {
	retry := redislock.LimitRetry(redislock.LinearBackoff(pause), int(wait/pause))
	limited, cancel := context.WithTimeout(ctx, wait+time.Minute)
	defer cancel()
	got, err := l.client.Obtain(limited, name, lease, &redislock.Options{RetryStrategy: retry})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return bsmLock{got}, nil
}

func (l bsmLock) release() error                   { return l.l.Release(ctx) }
func (l bsmLock) extend(lease time.Duration) error { return l.l.Refresh(ctx, lease, nil) }

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "?"
}

func ms(word string) time.Duration {
	n, _ := strconv.Atoi(word)
	if n == 0 {
		n = 30000
	}
	return time.Duration(n) * time.Millisecond
}

func main() {
	var clients []*redis.Client
	var pools []syncredis.Pool
	for _, port := range strings.Split(os.Args[2], ",") {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		clients, pools = append(clients, client), append(pools, goredis.NewPool(client))
	}
	var lib library
	switch os.Args[1] {
	case "redislock":
		lib = bsmLib{redislock.New(clients[0])}
	case "redsync-fills":
		lib = syncLib{redsync.New(pools...), []redsync.Option{redsync.WithSetNXOnExtend()}}
	default:
		lib = syncLib{redsync.New(pools...), nil}
	}
	var held sync.Map
	lines.Serve(func(thread, verb string, w []string) (any, error) {
		if verb == "version" {
			return version(lib.module()), nil
		}
		place := thread + " " + w[0]
		switch verb {
		case "lock", "trylock":
			wait, lease := time.Minute, w[1]
			if verb == "trylock" {
				n, _ := strconv.Atoi(w[1])
				wait, lease = time.Duration(n)*time.Millisecond, w[2]
			}
			got, err := lib.acquire(w[0], ms(lease), wait)
			if got == nil {
				return nil, err
			}
			held.Store(place, got)
			return 1, nil
		case "unlock":
			got, ok := held.LoadAndDelete(place)
			if !ok {
				return nil, errors.New("not held")
			}
			return 1, got.(lock).release()
		case "extend":
			got, ok := held.Load(place)
			if !ok {
				return nil, errors.New("not held")
			}
			return 1, got.(lock).extend(ms(w[1]))
		}
		return nil, fmt.Errorf("no verb %s", verb)
	})
}
