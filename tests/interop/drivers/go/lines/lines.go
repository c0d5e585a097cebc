// Package lines is the line protocol of the drivers: `id thread verb words...` in, `id ok value`, `id no` or
// `id err why` out.
package lines

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
)

var mutex sync.Mutex

// Say writes one line.
func Say(format string, args ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Fprintln(os.Stdout, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// Verbs runs one verb: nil is `no`, everything else `ok` and the value.
type Verbs func(thread, verb string, words []string) (any, error)

func work(verbs Verbs, queue chan []string) {
	for p := range queue {
		value, err := verbs(p[1], p[2], p[3:])
		switch {
		case err != nil:
			Say("%s err %v", p[0], err)
		case value == nil:
			Say("%s no", p[0])
		default:
			Say("%s ok %v", p[0], value)
		}
	}
}

// Serve reads standard input to its end; each thread is a goroutine.
func Serve(verbs Verbs) {
	threads := map[string]chan []string{}
	in := bufio.NewScanner(os.Stdin)
	Say("ready")
	for in.Scan() {
		p := strings.Split(in.Text(), " ")
		if threads[p[1]] == nil {
			threads[p[1]] = make(chan []string, 64)
			go work(verbs, threads[p[1]])
		}
		threads[p[1]] <- p
	}
}
