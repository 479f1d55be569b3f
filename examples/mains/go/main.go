// Command main works only while its elector proves that this pod leads.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// The elector sends a line each second: after this much silence the stream is dead.
	silence = 3 * time.Second
	// Electors and mains start in any order.
	redial = 200 * time.Millisecond
)

// document has the fields of GET /leader that a main needs.
type document struct {
	IsLeader     bool     `json:"isLeader"`
	ValidUntil   *float64 `json:"validUntil"`
	FencingToken *int64   `json:"fencingToken"`
}

// boottime is the clock that validUntil counts. Go's time.Now has a monotonic reading that stops
// while the machine is suspended: a lead would seem to last longer than it is proven.
func boottime() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		log.Fatal(err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

// lead is the newest line of the elector.
type lead struct {
	mutex  sync.Mutex
	newest document
}

func (l *lead) hear(heard document) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.newest = heard
}

// token returns the fencing token while the lead is proven.
func (l *lead) token() (int64, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	n := l.newest
	if !n.IsLeader || n.ValidUntil == nil || n.FencingToken == nil || boottime() >= *n.ValidUntil {
		return 0, false
	}
	return *n.FencingToken, true
}

// follow hears the elector for one connection. The last proof ends by itself, at validUntil.
func (l *lead) follow(elector string) {
	response, err := http.Get(elector + "/leader?watch=true")
	if err != nil {
		return
	}
	defer response.Body.Close()
	watchdog := time.AfterFunc(silence, func() { response.Body.Close() })
	defer watchdog.Stop()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var heard document
		if json.Unmarshal(lines.Bytes(), &heard) != nil {
			return
		}
		watchdog.Reset(silence)
		l.hear(heard)
	}
}

func main() {
	elector := os.Getenv("ELECTOR")
	if elector == "" {
		elector = "http://127.0.0.1:4040"
	}
	ledger, err := os.OpenFile(os.Getenv("LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	l := &lead{}
	go func() {
		for ; ; time.Sleep(redial) {
			l.follow(elector)
		}
	}()
	// SIGTERM ends the process at once, and its work with it.
	for ; ; time.Sleep(50 * time.Millisecond) {
		if token, isLeader := l.token(); isLeader {
			fmt.Fprintln(ledger, token) // one unit of work
		}
	}
}
