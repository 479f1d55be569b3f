package main

import (
	"slices"
	"time"
)

// clock measures from its start.
type clock struct{ at time.Time }

func startClock() clock { return clock{time.Now()} }

func (c clock) seconds() float64 { return time.Since(c.at).Seconds() }

// spread is a distribution in milliseconds.
type spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// spreadOf sorts the nanoseconds that it is given.
func spreadOf(values []int64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	at := func(share float64) float64 {
		return float64(values[int(share*float64(len(values)-1))]) / 1e6
	}
	return spread{len(values), at(0.5), at(0.99), at(1)}
}
