// Command shardobserver asks electors from outside which shards they own: the document every 10 ms,
// and /owns for some shards. It keeps, for each shard and term, when it was owned first and last. A
// restore of etcd gives fencing tokens out again: once a pod has answered that it does not own the
// shard in that term, or listens on another port, a later answer that it does begins another span.
//
// It reads lines: "pod NAME PORT" (again after a restart), "report". A report is one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	interval = 10 * time.Millisecond
	// A frozen process answers when it wakes, and may say then what was true when it was asked.
	patience = 30 * time.Second
)

// term is one acquisition of one shard by one pod.
type term struct {
	Pod   string `json:"pod"`
	Shard int    `json:"shard"`
	Token int64  `json:"token"`
}

// span: an answer that was received at First was the first one that said so, and one that was asked
// for at Last the last one. Seconds on CLOCK_BOOTTIME, as candidates of client-go write them.
type span struct {
	term
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	// When an answer to a later request was received that did not say so; +Inf before.
	ended float64
}

type observer struct {
	mutex   sync.Mutex
	ports   map[string]string
	spans   map[term]*span
	over    []*span
	answers int
}

func (o *observer) seconds() float64 {
	var at syscall.Timespec
	const boottime = 7
	_, _, errno := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&at)), 0)
	if errno != 0 {
		panic(errno)
	}
	return float64(at.Nano()) / 1e9
}

func (o *observer) saw(of term, sent, received float64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	found, known := o.spans[of]
	if known && sent > found.ended {
		o.over = append(o.over, found)
		known = false
	}
	if !known {
		o.spans[of] = &span{of, received, sent, math.Inf(1)}
		return
	}
	found.First = min(found.First, received)
	found.Last = max(found.Last, sent)
}

// ends ends the spans that an answer did not name, though it was asked for after their last one.
func (o *observer) ends(is func(term) bool, sent, received float64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for of, found := range o.spans {
		if is(of) && sent > found.Last {
			found.ended = min(found.ended, received)
		}
		if sent > found.ended+patience.Seconds() {
			// No answer that belongs to it is under way any more.
			o.over = append(o.over, found)
			delete(o.spans, of)
		}
	}
}

func (o *observer) port(pod string) string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.ports[pod]
}

func (o *observer) count() {
	o.mutex.Lock()
	o.answers++
	o.mutex.Unlock()
}

// watch asks one pod for ever; each question has its own goroutine, so that none waits for another.
func (o *observer) watch(pod string, path string, note func(*http.Response, float64, float64)) {
	client := &http.Client{Timeout: patience}
	for ; ; time.Sleep(interval) {
		sent := o.seconds()
		response, err := client.Get("http://127.0.0.1:" + o.port(pod) + path)
		if err != nil {
			continue
		}
		o.count()
		note(response, sent, o.seconds())
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

func (o *observer) watchDocument(pod string) {
	o.watch(pod, "/shards?promise=false", func(response *http.Response, sent, received float64) {
		var document struct {
			Owned []struct {
				Shard        int   `json:"shard"`
				FencingToken int64 `json:"fencingToken"`
			} `json:"owned"`
		}
		if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&document) != nil {
			return
		}
		owned := map[term]bool{}
		for _, it := range document.Owned {
			of := term{pod, it.Shard, it.FencingToken}
			owned[of] = true
			o.saw(of, sent, received)
		}
		o.ends(func(it term) bool { return it.Pod == pod && !owned[it] }, sent, received)
	})
}

func (o *observer) watchShard(pod string, shard int) {
	path := fmt.Sprintf("/owns?shard=%d", shard)
	o.watch(pod, path, func(response *http.Response, sent, received float64) {
		var owned term
		if response.StatusCode == http.StatusOK {
			var token int64
			if _, err := fmt.Sscan(response.Header.Get("X-Shard-Fencing-Token"), &token); err != nil {
				panic("a 200 without a fencing token")
			}
			owned = term{pod, shard, token}
			o.saw(owned, sent, received)
		}
		o.ends(func(it term) bool {
			return it.Pod == pod && it.Shard == shard && it != owned
		}, sent, received)
	})
}

func (o *observer) report() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	spans := append(make([]*span, 0, len(o.over)+len(o.spans)), o.over...)
	for _, it := range o.spans {
		spans = append(spans, it)
	}
	line, err := json.Marshal(map[string]any{"answers": o.answers, "spans": spans})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func main() {
	var asked []int
	for _, argument := range os.Args[1:] {
		var shard int
		if _, err := fmt.Sscan(argument, &shard); err != nil {
			fmt.Fprintf(os.Stderr, "usage: %s [SHARD...]: %q is no shard\n", os.Args[0], argument)
			os.Exit(2)
		}
		asked = append(asked, shard)
	}
	observer := &observer{ports: map[string]string{}, spans: map[term]*span{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var pod, port string
		if lines.Text() == "report" {
			observer.report()
		} else if _, err := fmt.Sscanf(lines.Text(), "pod %s %s", &pod, &port); err != nil {
			fmt.Fprintf(os.Stderr, "%q is neither a pod nor a question\n", lines.Text())
			os.Exit(2)
		} else {
			observer.mutex.Lock()
			_, known := observer.ports[pod]
			observer.ports[pod] = port
			observer.mutex.Unlock()
			now := observer.seconds()
			observer.ends(func(it term) bool { return it.Pod == pod }, now, now)
			if !known {
				go observer.watchDocument(pod)
				for _, shard := range asked {
					go observer.watchShard(pod, shard)
				}
			}
		}
	}
}
