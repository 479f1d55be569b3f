package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Bytes; events are some thousands.
const watchBuffer = 64 << 10

// watcher follows one watch stream and keeps what is needed to judge it.
type watcher struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	client *http.Client
	events atomic.Int64
	// How many events there are in all; 0 while more may come.
	expected   atomic.Int64
	isComplete chan struct{}
	ended      chan struct{}
	isClosing  atomic.Bool
	// Only the reading goroutine writes these, until ended is closed.
	delays     []int64 // nanoseconds by number of update, 0: not seen
	ofPod      []int   // the last one of each pod
	version    int64
	violations []string
}

// openWatcher returns when the server has begun to answer.
func openWatcher(ctx context.Context, at target, path string, pods, most int) (*watcher, error) {
	request, err := at.request(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	client := at.client()
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		return nil, failure(response)
	}
	w := &watcher{
		body:       response.Body,
		cancel:     cancel,
		client:     client,
		isComplete: make(chan struct{}),
		ended:      make(chan struct{}),
		delays:     make([]int64, most),
		ofPod:      make([]int, pods),
	}
	go w.read()
	return w, nil
}

func (w *watcher) close() {
	w.isClosing.Store(true)
	w.cancel()
}

func (w *watcher) read() {
	defer close(w.ended)
	defer w.client.CloseIdleConnections()
	defer w.body.Close()
	buffer := make([]byte, watchBuffer)
	begun := 0 // bytes of a line whose end is not here yet
	isTold := false
	for {
		n, err := w.body.Read(buffer[begun:])
		// One look at the clock for all that came together: it was there then.
		arrivedAt := time.Now().UnixNano()
		rest := buffer[:begun+n]
		for {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			w.note(rest[:end], arrivedAt)
			rest = rest[end+1:]
		}
		begun = copy(buffer, rest)
		if begun == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		if expected := w.expected.Load(); !isTold && expected > 0 && w.events.Load() >= expected {
			isTold = true
			close(w.isComplete)
		}
		if err != nil {
			if !w.isClosing.Load() {
				w.violate("ended: %v", err)
			}
			return
		}
	}
}

func (w *watcher) note(line []byte, arrivedAt int64) {
	if !bytes.HasPrefix(line, []byte(`{"type":"MODIFIED"`)) {
		w.violate("not a change: %.200s", line)
		return
	}
	version, err := readVersion(line)
	if err != nil || version <= w.version {
		w.violate("version %d after %d: %v", version, w.version, err)
	}
	w.version = version
	found, err := readStamp(line)
	if err != nil || found.pod >= len(w.ofPod) || found.number > len(w.delays) {
		w.violate("stamp %v: %v", found, err)
		return
	}
	if last := w.ofPod[found.pod]; found.ofPod != last+1 {
		w.violate("update %d of pod %d after %d", found.ofPod, found.pod, last)
	}
	w.ofPod[found.pod] = found.ofPod
	w.delays[found.number-1] = arrivedAt - found.sentAt
	w.events.Add(1)
}

func (w *watcher) violate(format string, args ...any) {
	if len(w.violations) < 10 {
		w.violations = append(w.violations, fmt.Sprintf(format, args...))
	}
}

// judge tells what was broken, given how many updates each pod has had.
func (w *watcher) judge(ofPod []int) []string {
	for pod, last := range ofPod {
		if w.ofPod[pod] != last {
			w.violate("pod %d: %d of its %d updates", pod, w.ofPod[pod], last)
		}
	}
	return w.violations
}
