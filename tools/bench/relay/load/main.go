// Command load puts load on a Kubernetes API and judges what comes back: lists
// and gets at full speed, watchers by the hundred, updates at a steady rate.
//
// It costs as little as a client can, since it shares the machine with what is
// measured: answers are not decoded but for one in advance, events are scanned
// for newlines, the stamp of whoever sent them, and their resourceVersion.
//
// Each command prints {"ready":true} on stdout when all is in place, waits for a
// line on stdin, works, and prints one line of JSON. It ends early when stdin does.
// Exit code: 0, also where a promise was broken, which the line tells; 2 when a
// flag is unusable or the load could not be made.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
)

// command parses its own flags, works until ctx is done, and returns its report.
type command func(ctx context.Context, args []string, ask prompt) (any, error)

var commands = map[string]command{
	"create": create,
	"fetch":  fetch,
	"first":  first,
	"probe":  probe,
	"update": update,
	"watch":  watch,
}

// prompt tells the caller that all is in place and returns when it says go.
type prompt func() error

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "load: create, fetch, first, probe, update or watch")
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	goes := make(chan struct{})
	go listen(goes, cancel)
	ask := func() error {
		fmt.Println(`{"ready":true}`)
		select {
		case <-goes:
			return nil
		case <-ctx.Done():
			return errors.New("stdin ended before go")
		}
	}
	report, err := commands[os.Args[1]](ctx, os.Args[2:], ask)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
}

// listen closes goes at the first line of stdin and ends everything with its end.
func listen(goes chan<- struct{}, end func()) {
	lines := bufio.NewScanner(os.Stdin)
	if lines.Scan() {
		close(goes)
	}
	for lines.Scan() {
	}
	end()
}
