// clients PORT: go-redis as a client of rlockd.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"interop/lines"
)

var ctx = context.Background()

func do(c *redis.Client, words []string) (any, error) {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	reply, err := c.Do(ctx, args...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

func subscribe(c *redis.Client, channel string) (any, error) {
	events := c.Subscribe(ctx, channel)
	if _, err := events.Receive(ctx); err != nil {
		return nil, err
	}
	lines.Say("subscribed %s", channel)
	go func() {
		for m := range events.Channel() {
			lines.Say("event %s %s", m.Channel, m.Payload)
		}
	}()
	return 1, nil
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], MaxRetries: -1})
	lines.Serve(func(thread, verb string, w []string) (any, error) {
		switch verb {
		case "version":
			return "v" + redis.Version(), nil
		case "do":
			return do(client, w)
		case "long":
			return do(client.WithTimeout(5*time.Minute), w)
		case "subscribe":
			return subscribe(client, w[0])
		}
		return nil, fmt.Errorf("no verb %s", verb)
	})
}
