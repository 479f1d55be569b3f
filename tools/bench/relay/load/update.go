package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Updates that may wait for a connection before the updater falls behind its rate.
const backlog = 4096

// updater stamps pods at a steady rate, over connections that nothing else uses,
// with the requests that cost the API server least: PUTs of whole pods.
// Updates of one pod follow each other; those of different pods overlap.
type updater struct {
	server    target
	namespace string
	pods      int
	rate      float64
	templates [][2][]byte
	queues    []chan stamp
	failed    atomic.Pointer[error]
	sent      sync.WaitGroup
	// How many updates each pod has had.
	ofPod []int
	// How many there were.
	number int
}

// newUpdater reads the pods that it is going to update.
func newUpdater(server target, f updateFlags) (*updater, error) {
	u := &updater{server: server, namespace: f.namespace, pods: f.pods, rate: f.rate}
	u.ofPod = make([]int, f.pods)
	u.templates = make([][2][]byte, f.pods)
	client := server.client()
	defer client.CloseIdleConnections()
	for pod := range u.templates {
		content, err := u.get(client, pod)
		if err == nil {
			u.templates[pod], err = split(content)
		}
		if err != nil {
			return nil, err
		}
	}
	for range min(f.connections, f.pods) {
		queue := make(chan stamp, backlog)
		u.queues = append(u.queues, queue)
		u.sent.Go(func() { u.work(queue) })
	}
	return u, nil
}

func (u *updater) path(pod int) string {
	return "/api/v1/namespaces/" + u.namespace + "/pods/" + podName(pod)
}

func (u *updater) get(client *http.Client, pod int) ([]byte, error) {
	request, err := u.server.request(http.MethodGet, u.path(pod)+"?resourceVersion=0", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, failure(response)
	}
	return io.ReadAll(response.Body)
}

// split returns what stands before and after the stamp; without resourceVersion,
// so that the update is unconditional.
func split(content []byte) ([2][]byte, error) {
	version, err := quoted(content, versionMark)
	if err != nil {
		return [2][]byte{}, err
	}
	whole := fmt.Appendf(nil, "%s%s\",", versionMark, version)
	content = bytes.Replace(content, whole, nil, 1)
	before, rest, isFound := bytes.Cut(content, stampMark)
	end := bytes.IndexByte(rest, '"')
	if !isFound || end < 0 {
		return [2][]byte{}, errNoStamp
	}
	return [2][]byte{append(before, stampMark...), rest[end:]}, nil
}

// run makes updates for the time, and returns when all were answered.
func (u *updater) run(ctx context.Context, duration time.Duration) error {
	started := time.Now()
	for ; u.failed.Load() == nil; u.number++ {
		due := started.Add(time.Duration(float64(u.number) / u.rate * float64(time.Second)))
		if due.Sub(started) >= duration {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
		if ctx.Err() != nil {
			break
		}
		pod := u.number % u.pods
		u.ofPod[pod]++
		u.queues[pod%len(u.queues)] <- stamp{number: u.number + 1, pod: pod, ofPod: u.ofPod[pod]}
	}
	for _, queue := range u.queues {
		close(queue)
	}
	u.sent.Wait()
	if err := u.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (u *updater) work(queue <-chan stamp) {
	client := u.server.client()
	defer client.CloseIdleConnections()
	for each := range queue {
		if err := u.send(client, each); err != nil {
			u.failed.Store(&err)
			for range queue {
			}
			return
		}
	}
}

func (u *updater) send(client *http.Client, s stamp) error {
	s.sentAt = time.Now().UnixNano()
	template := u.templates[s.pod]
	body := slices.Concat(template[0], []byte(s.String()), template[1])
	request, err := u.server.request(http.MethodPut, u.path(s.pod), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return failure(response)
	}
	return drain(response.Body)
}

// updateFlags are the same for whatever makes updates.
type updateFlags struct {
	namespace         string
	pods, connections int
	rate, seconds     float64
}

func (f *updateFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.namespace, "namespace", "", "of the pods that create made")
	flags.IntVar(&f.pods, "pods", 1000, "how many of them are updated, in turn")
	flags.IntVar(&f.connections, "connections", 4, "of the updater")
	flags.Float64Var(&f.rate, "rate", 10, "updates a second")
	flags.Float64Var(&f.seconds, "seconds", 3, "how long")
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

type updateReport struct {
	Updates int     `json:"updates"`
	Seconds float64 `json:"seconds"`
}

// update stamps pods in the background, until --seconds or the end of stdin.
func update(ctx context.Context, args []string, ask prompt) (any, error) {
	var to targetFlags
	var f updateFlags
	flags := flag.NewFlagSet("update", flag.ContinueOnError)
	to.register(flags, "", "the API server")
	f.register(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	server, err := to.open()
	if err != nil {
		return nil, err
	}
	u, err := newUpdater(server, f)
	if err != nil {
		return nil, err
	}
	if err := ask(); err != nil {
		return nil, err
	}
	clock := startClock()
	err = u.run(ctx, seconds(f.seconds))
	return updateReport{u.number, clock.seconds()}, err
}
