// Command shardobserver asks electors from outside which shards they own: the document every 10 ms,
// and /owns for some shards. It keeps, for each shard and term, when it was owned first and last.
//
// It reads lines: "pod NAME PORT" (again after a restart), "report". A report is one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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
}

type observer struct {
	mutex   sync.Mutex
	ports   map[string]string
	spans   map[term]*span
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
	if !known {
		o.spans[of] = &span{of, received, sent}
		return
	}
	found.First = min(found.First, received)
	found.Last = max(found.Last, sent)
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
		for _, it := range document.Owned {
			o.saw(term{pod, it.Shard, it.FencingToken}, sent, received)
		}
	})
}

func (o *observer) watchShard(pod string, shard int) {
	path := fmt.Sprintf("/owns?shard=%d", shard)
	o.watch(pod, path, func(response *http.Response, sent, received float64) {
		var token int64
		if response.StatusCode != http.StatusOK {
			return
		}
		if _, err := fmt.Sscan(response.Header.Get("X-Shard-Fencing-Token"), &token); err != nil {
			panic("a 200 without a fencing token")
		}
		o.saw(term{pod, shard, token}, sent, received)
	})
}

func (o *observer) report() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	spans := make([]*span, 0, len(o.spans))
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
			if !known {
				go observer.watchDocument(pod)
				for _, shard := range asked {
					go observer.watchShard(pod, shard)
				}
			}
		}
	}
}
