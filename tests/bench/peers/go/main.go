// Locks of etcd and ZooKeeper by the recipes of their own clients, and rlockd from the same language:
//
//	main KIND HOST:PORT own|hot CLIENTS WARM SECONDS      KIND etcd, zookeeper or rlockd
//
// One process; each client has a connection and a session of its own. Prints what ../peers.py reads; see peers_py.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type lock interface {
	Lock() error
	Unlock() error
}

type etcdLock struct{ m *concurrency.Mutex }

func (l etcdLock) Lock() error   { return l.m.Lock(context.Background()) }
func (l etcdLock) Unlock() error { return l.m.Unlock(context.Background()) }

func etcd(where, name string) (lock, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + where}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	if err != nil {
		return nil, err
	}
	return etcdLock{concurrency.NewMutex(session, "/"+name)}, nil
}

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

func zookeeper(where, name string) (lock, error) {
	conn, events, err := zk.Connect([]string{where}, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return zk.NewLock(conn, "/"+name, zk.WorldACL(zk.PermAll)), nil
}

type rlockdLock struct {
	conn         net.Conn
	in           *bufio.Reader
	lock, unlock []byte
}

func (l *rlockdLock) ask(what []byte) error {
	if _, err := l.conn.Write(what); err != nil {
		return err
	}
	line, err := l.in.ReadSlice('\n')
	if err == nil && line[0] != ':' {
		err = fmt.Errorf("rlockd: %s", line)
	}
	return err
}

func (l *rlockdLock) Lock() error   { return l.ask(l.lock) }
func (l *rlockdLock) Unlock() error { return l.ask(l.unlock) }

func rlockd(where, name string) (lock, error) {
	conn, err := net.Dial("tcp", where)
	if err != nil {
		return nil, err
	}
	lock, unlock := []byte("LOCK "+name+"\r\n"), []byte("UNLOCK "+name+"\r\n")
	return &rlockdLock{conn, bufio.NewReader(conn), lock, unlock}, nil
}

var kinds = map[string]func(where, name string) (lock, error){"etcd": etcd, "zookeeper": zookeeper, "rlockd": rlockd}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type client struct {
	lock         lock
	pairs, locks []float64
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (c *client) run(begin, end time.Time) {
	now := time.Now()
	for now.Before(end) {
		asked := now
		check(c.lock.Lock())
		got := time.Now()
		check(c.lock.Unlock())
		now = time.Now()
		if !now.Before(begin) && now.Before(end) {
			c.pairs = append(c.pairs, us(now.Sub(asked)))
		}
		if !got.Before(begin) {
			c.locks = append(c.locks, us(got.Sub(asked)))
		}
	}
}

func main() {
	kind, where, mode := os.Args[1], os.Args[2], os.Args[3]
	n, _ := strconv.Atoi(os.Args[4])
	warm, _ := strconv.ParseFloat(os.Args[5], 64)
	seconds, _ := strconv.ParseFloat(os.Args[6], 64)
	clients := make([]client, n)
	for i := range clients {
		name := "bench-hot"
		if mode != "hot" {
			name = fmt.Sprintf("bench-own-%06d", i)
		}
		l, err := kinds[kind](where, name)
		check(err)
		clients[i].lock = l
	}
	begin := time.Now().Add(time.Duration(warm * 1e9))
	end := begin.Add(time.Duration(seconds * 1e9))
	var all sync.WaitGroup
	for i := range clients {
		all.Add(1)
		go func(c *client) { c.run(begin, end); all.Done() }(&clients[i])
	}
	all.Wait()
	out := struct {
		Counts []int     `json:"counts"`
		Pairs  []float64 `json:"pair_us"`
		Locks  []float64 `json:"lock_us"`
	}{[]int{}, []float64{}, []float64{}}
	for i := range clients {
		out.Counts = append(out.Counts, len(clients[i].pairs))
		out.Pairs = append(out.Pairs, clients[i].pairs...)
		out.Locks = append(out.Locks, clients[i].locks...)
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}
