package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// journal writes one JSON line for each event, in the order of the calls.
type journal struct{ mutex sync.Mutex }

type entry struct {
	Event          string  `json:"event"`
	Identity       string  `json:"identity"`
	HolderIdentity *string `json:"holderIdentity,omitempty"`
	Address        string  `json:"address,omitempty"`
	Realtime       float64 `json:"realtime"`
	Boottime       float64 `json:"boottime"`
}

func (j *journal) write(e entry) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	e.Realtime, e.Boottime = seconds(unix.CLOCK_REALTIME), seconds(unix.CLOCK_BOOTTIME)
	// Errors are not handled: a reader that went away must not end the election.
	_ = json.NewEncoder(os.Stdout).Encode(e)
}

func seconds(clock int32) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(fmt.Sprintf("clock_gettime(%d): %v", clock, err))
	}
	return float64(t.Nano()) / float64(time.Second)
}
