package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// An elector sends its document each second.
	silence = 3 * time.Second
	redial  = 300 * time.Millisecond
)

type shard struct {
	Shard        uint64 `json:"shard"`
	FencingToken string `json:"fencingToken"`
}

// document is what GET /shards of an elector answers, as far as it is needed here.
type document struct {
	Shards      uint64   `json:"shards"`
	Owned       []shard  `json:"owned"`
	HandingOver []shard  `json:"handingOver"`
	Selector    *string  `json:"selector"`
	ValidUntil  *float64 `json:"validUntil"`
}

// Shards follows an elector's /shards and knows at any moment which objects are this replica's.
type Shards struct {
	elector string

	mu      sync.RWMutex
	newest  document
	owned   map[uint64]bool
	changed chan struct{}
	// Held for reading while something is written: locked, all that was begun has ended.
	working sync.RWMutex
}

func NewShards(elector string) *Shards {
	return &Shards{elector: elector, changed: make(chan struct{})}
}

// Do runs write if the object is this replica's for at least as long as limit, which write must
// keep; says whether it ran. A hand-over of the object's shard is confirmed only after it.
func (s *Shards) Do(uid types.UID, limit time.Duration, write func() error) (bool, error) {
	s.working.RLock()
	defer s.working.RUnlock()
	if !s.owns(uid, limit) {
		return false, nil
	}
	return true, write()
}

// Selector is the shardSelector of what is owned, "" where nothing is; changed is closed when it
// is another one.
func (s *Shards) Selector() (selector string, changed <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.newest.selector(), s.changed
}

// Run follows the elector until the context ends.
func (s *Shards) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			log.Printf("the elector does not answer: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(redial):
		}
	}
}

func (s *Shards) owns(uid types.UID, limit time.Duration) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.newest.ValidUntil == nil || boottime()+limit.Seconds() >= *s.newest.ValidUntil {
		return false
	}
	return s.owned[shardOf(string(uid), s.newest.Shards)]
}

func (s *Shards) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", s.elector+"/shards?watch=true", nil)
	if err != nil {
		return err
	}
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/shards: %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		watchdog.Reset(silence)
		var newest document
		if err := json.Unmarshal(lines.Bytes(), &newest); err != nil {
			return err
		}
		s.learn(newest)
		if err := s.confirm(ctx, newest.HandingOver); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *Shards) learn(newest document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.newest.selector()
	s.newest, s.owned = newest, make(map[uint64]bool, len(newest.Owned))
	for _, it := range newest.Owned {
		s.owned[it.Shard] = true
	}
	if newest.selector() != before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// confirm tells the elector that nothing is done in these shards any more.
func (s *Shards) confirm(ctx context.Context, shards []shard) error {
	if len(shards) == 0 {
		return nil
	}
	// What was begun has ended; what begins from now on sees the newest document.
	s.working.Lock()
	s.working.Unlock() //nolint:staticcheck
	for _, it := range shards {
		query := url.Values{"token": {it.FencingToken}}.Encode()
		path := fmt.Sprintf("%s/shards/%d/released?%s", s.elector, it.Shard, query)
		request, err := http.NewRequestWithContext(ctx, "POST", path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
	}
	return nil
}

func (d document) selector() string {
	if d.Selector == nil {
		return ""
	}
	return *d.Selector
}

// boottime is in seconds, on the clock of validUntil, which all containers of a node share.
func boottime() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		log.Fatal(err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}
