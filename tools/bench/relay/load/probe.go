package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// initialEnd ends the initial events of a watch that asked for them (KEP-3157).
var initialEnd = []byte(`"k8s.io/initial-events-end":"true"`)

// asked is one request: when it was sent, and how long until its whole answer,
// or all initial events, were there.
type asked struct {
	SentAt int64   `json:"sentAt"` // Unix nanoseconds
	Millis float64 `json:"millis"`
	// 0: no answer at all, or no end of it.
	Status int `json:"status"`
	Bytes  int `json:"bytes"`
}

// asks are the values of --ask: NAME=PATH.
type asks []string

func (a *asks) String() string { return strings.Join(*a, " ") }

func (a *asks) Set(value string) error {
	if !strings.Contains(value, "=") {
		return fmt.Errorf("%q is not NAME=PATH", value)
	}
	*a = append(*a, value)
	return nil
}

// prober asks each path again and again, whatever became of earlier requests.
type prober struct {
	server  target
	timeout time.Duration
	mutex   sync.Mutex
	answers map[string][]asked
}

func probe(ctx context.Context, args []string, ask prompt) (any, error) {
	var to targetFlags
	var paths asks
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	to.register(flags, "", "who is asked")
	flags.Var(&paths, "ask", "NAME=PATH (repeatable)")
	interval := flags.Duration("interval", 250*time.Millisecond, "between two requests of a path")
	length := flags.Float64("seconds", 3, "how long")
	timeout := flags.Duration("timeout", 15*time.Second, "of a request")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	server, err := to.open()
	if err != nil {
		return nil, err
	}
	p := prober{server: server, timeout: *timeout, answers: map[string][]asked{}}
	if err := ask(); err != nil {
		return nil, err
	}
	p.run(ctx, paths, *interval, seconds(*length))
	return p.answers, nil
}

// run spreads the requests of one round over the interval.
func (p *prober) run(ctx context.Context, paths asks, interval, length time.Duration) {
	var group sync.WaitGroup
	pause := interval / time.Duration(max(len(paths), 1))
	for started := time.Now(); time.Since(started) < length && ctx.Err() == nil; {
		for _, each := range paths {
			name, path, _ := strings.Cut(each, "=")
			group.Go(func() { p.note(ctx, name, path) })
			time.Sleep(pause)
		}
	}
	group.Wait()
}

func (p *prober) note(ctx context.Context, name, path string) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	client := p.server.client()
	defer client.CloseIdleConnections()
	sentAt := time.Now()
	status, length, err := p.ask(ctx, client, path)
	if err != nil {
		status = 0
	}
	found := asked{sentAt.UnixNano(), time.Since(sentAt).Seconds() * 1000, status, length}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answers[name] = append(p.answers[name], found)
}

func (p *prober) ask(ctx context.Context, client *http.Client, path string) (int, int, error) {
	request, err := p.server.request(http.MethodGet, path, nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK && strings.Contains(path, "watch=") {
		length, err := readInitial(response.Body)
		return response.StatusCode, length, err
	}
	length, err := io.Copy(io.Discard, response.Body)
	return response.StatusCode, int(length), err
}

// readInitial reads up to the end of the initial events.
func readInitial(body io.Reader) (int, error) {
	reader := bufio.NewReaderSize(body, readBuffer)
	length := 0
	for {
		line, err := reader.ReadSlice('\n')
		length += len(line)
		if bytes.Contains(line, initialEnd) {
			return length, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return length, err
		}
	}
}
