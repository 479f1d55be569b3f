package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"
)

type watchReport struct {
	Updates int `json:"updates"`
	// Until the last update was answered, and until the last watcher had it.
	UpdateSeconds float64 `json:"updateSeconds"`
	Seconds       float64 `json:"seconds"`
	// To all watchers but the reference.
	Delivered int `json:"delivered"`
	// Watchers that did not get every event of every pod, each once and in order.
	Incomplete int      `json:"incomplete"`
	Violations []string `json:"violations"`
	// From when an update was sent, after the warm-up; of the reference: what the
	// API server itself takes.
	Delay     spread `json:"delay"`
	Reference spread `json:"reference"`
	// Of each event, how much later it was there than at the reference.
	Added spread `json:"added"`
}

type watchOptions struct {
	direct, at  targetFlags
	updates     updateFlags
	watchers    int
	isCompared  bool
	warmUp      float64
	drainWithin time.Duration
}

func parseWatch(args []string) (watchOptions, error) {
	var o watchOptions
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	o.direct.register(flags, "", "the API server, which is updated")
	o.at.register(flags, "at-", "who is watched")
	o.updates.register(flags)
	flags.IntVar(&o.watchers, "watchers", 1, "each with a connection of its own")
	flags.BoolVar(&o.isCompared, "reference", false, "one more watcher, at the API server itself")
	flags.Float64Var(&o.warmUp, "warm-up", 1, "seconds before --seconds: counted, not timed")
	flags.DurationVar(&o.drainWithin, "drain-within", time.Minute, "for the last events")
	return o, flags.Parse(args)
}

// watch updates pods and follows how the events reach many watchers.
func watch(ctx context.Context, args []string, ask prompt) (any, error) {
	o, err := parseWatch(args)
	if err != nil {
		return nil, err
	}
	direct, err := o.direct.open()
	if err != nil {
		return nil, err
	}
	at, err := o.at.open()
	if err != nil {
		return nil, err
	}
	f := o.updates
	most := int(f.rate*(f.seconds+o.warmUp)) + 1
	watchers, err := openAll(ctx, direct, at, o.watchers, f, most)
	if err != nil {
		return nil, err
	}
	var reference *watcher
	all := watchers
	if o.isCompared {
		references, err := openAll(ctx, direct, direct, 1, f, most)
		if err != nil {
			return nil, err
		}
		reference = references[0]
		all = append(watchers[:len(watchers):len(watchers)], reference)
	}
	u, err := newUpdater(direct, f)
	if err != nil {
		return nil, err
	}
	if err := ask(); err != nil {
		return nil, err
	}
	report := watchReport{Violations: []string{}}
	clock := startClock()
	if err := u.run(ctx, seconds(f.seconds+o.warmUp)); err != nil {
		return nil, err
	}
	report.UpdateSeconds = clock.seconds()
	report.Updates = u.number
	finish(all, u.number, o.drainWithin)
	report.Seconds = clock.seconds()
	report.judge(watchers, reference, u, int(f.rate*o.warmUp))
	return report, nil
}

// openAll returns watchers that are told of everything from now on, and of
// nothing before: who is watched must have come to where the API server is now.
func openAll(ctx context.Context, direct, at target, count int, f updateFlags, most int) ([]*watcher, error) {
	path := "/api/v1/namespaces/" + f.namespace + "/pods"
	version, err := listVersion(direct, path+"?limit=1")
	if err != nil {
		return nil, err
	}
	version, err = listVersion(at, path+"?resourceVersionMatch=NotOlderThan&resourceVersion="+version)
	if err != nil {
		return nil, err
	}
	query := fmt.Sprintf("%s?watch=1&resourceVersion=%s&timeoutSeconds=3600", path, version)
	watchers := make([]*watcher, count)
	for i := range watchers {
		if watchers[i], err = openWatcher(ctx, at, query, f.pods, most); err != nil {
			return nil, err
		}
	}
	return watchers, nil
}

// listVersion returns the version of a list.
func listVersion(at target, path string) (string, error) {
	client := at.client()
	defer client.CloseIdleConnections()
	request, err := at.request(http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", failure(response)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err = json.NewDecoder(response.Body).Decode(&list)
	if err == nil && list.Metadata.ResourceVersion == "" {
		err = errors.New("a list without a version")
	}
	return list.Metadata.ResourceVersion, err
}

// finish waits until every watcher has the last of the updates or has ended, and ends all.
func finish(watchers []*watcher, updates int, within time.Duration) {
	deadline := time.After(within)
	for _, w := range watchers {
		w.expected.Store(int64(updates))
		if w.events.Load() >= int64(updates) {
			continue
		}
		select {
		case <-w.isComplete:
		case <-w.ended:
		case <-deadline:
			// The others are not waited for either.
			deadline = time.After(0)
		}
	}
	for _, w := range watchers {
		w.close()
	}
	for _, w := range watchers {
		<-w.ended
	}
}

func (r *watchReport) judge(watchers []*watcher, reference *watcher, u *updater, warmUp int) {
	var delays, added []int64
	for i, w := range watchers {
		r.Delivered += int(w.events.Load())
		violations := w.judge(u.ofPod)
		if len(violations) > 0 {
			r.Incomplete++
			r.Violations = append(r.Violations, fmt.Sprintf("watcher %d: %s", i, violations[0]))
		}
		for number := warmUp; number < len(w.delays); number++ {
			delay := w.delays[number]
			if delay == 0 {
				continue
			}
			delays = append(delays, delay)
			if reference != nil && reference.delays[number] != 0 {
				added = append(added, delay-reference.delays[number])
			}
		}
	}
	r.Violations = r.Violations[:min(len(r.Violations), 10)]
	r.Delay, r.Added = spreadOf(delays), spreadOf(added)
	if reference != nil {
		for _, violation := range reference.judge(u.ofPod) {
			r.Violations = append(r.Violations, "reference: "+violation)
		}
		var timed []int64
		for _, delay := range reference.delays[min(warmUp, len(reference.delays)):] {
			if delay != 0 {
				timed = append(timed, delay)
			}
		}
		r.Reference = spreadOf(timed)
	}
}
