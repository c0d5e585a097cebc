// rueidis PORT: rueidis as a client of rlockd, as it is set up by default: RESP3, client-side caching asked for.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/redis/rueidis"

	"interop/lines"
)

var ctx = context.Background()

func value(r rueidis.RedisResult) (any, error) {
	reply, err := r.ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return reply, err
}

func subscribe(c rueidis.Client, channel string) (any, error) {
	events, _ := c.Dedicate()
	events.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) { lines.Say("subscribed %s", s.Channel) },
		OnMessage:      func(m rueidis.PubSubMessage) { lines.Say("event %s %s", m.Channel, m.Message) },
	})
	if err := events.Do(ctx, c.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return nil, err
	}
	return 1, nil
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/redis/rueidis" {
			return m.Version
		}
	}
	return "?"
}

func main() {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Args[1]}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines.Serve(func(thread, verb string, w []string) (any, error) {
		switch verb {
		case "version":
			return version(), nil
		case "do":
			return value(c.Do(ctx, c.B().Arbitrary(w[0]).Args(w[1:]...).Build()))
		case "long":
			return value(c.Do(ctx, c.B().Arbitrary(w[0]).Args(w[1:]...).Blocking()))
		case "cached":
			return value(c.DoCache(ctx, c.B().Get().Key(w[0]).Cache(), time.Minute))
		case "subscribe":
			return subscribe(c, w[0])
		}
		return nil, fmt.Errorf("no verb %s", verb)
	})
}
