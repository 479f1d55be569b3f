package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bytes of an answer that are looked at: the head of a list, which has its version.
const headBytes = 4096

type fetchReport struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Latency  spread  `json:"latency"`
	// Of the answer that was checked in advance, as it travelled.
	Bytes int `json:"bytes"`
	// Answers that were older than one before to the same client; 0 where answers are compressed
	// and thus not looked into.
	Backwards int `json:"backwards"`
}

// fetcher asks for one path again and again.
type fetcher struct {
	server       target
	path, accept string
	isGzipped    bool
	// Least time from one request of a client to its next.
	interval time.Duration
}

// fetch asks with several clients for some seconds, each as fast as it is answered, or at a rate.
func fetch(ctx context.Context, args []string, ask prompt) (any, error) {
	var to targetFlags
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	to.register(flags, "", "who is asked")
	var f fetcher
	flags.StringVar(&f.path, "path", "", "path and query")
	flags.StringVar(&f.accept, "accept", "application/json", "header Accept")
	flags.BoolVar(&f.isGzipped, "gzip", false, "ask for compressed answers")
	clients := flags.Int("clients", 1, "clients, each with a connection of its own")
	seconds := flags.Float64("seconds", 3, "how long")
	rate := flags.Float64("rate", 0, "requests a second of each client at most; 0: no limit")
	expect := flags.Int("expect", 0, "items of the list; 0: of a single object")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	server, err := to.open()
	if err != nil {
		return nil, err
	}
	f.server = server
	if *rate > 0 {
		f.interval = time.Duration(float64(time.Second) / *rate)
	}
	size, err := f.check(*expect)
	if err != nil {
		return nil, err
	}
	if err := ask(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds*float64(time.Second)))
	defer cancel()
	return f.load(ctx, *clients, size)
}

// check decodes one answer, so that the others need not be; returns its bytes.
func (f *fetcher) check(expect int) (int, error) {
	response, err := f.get(f.server.client())
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || f.accept != "application/json" {
		return len(content), err
	}
	plain := content
	if response.Header.Get("Content-Encoding") == "gzip" {
		reader, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return 0, err
		}
		if plain, err = io.ReadAll(reader); err != nil {
			return 0, err
		}
	} else if f.isGzipped && len(content) > 128<<10 {
		return 0, fmt.Errorf("%s: not compressed", f.path)
	}
	return len(content), checkContent(plain, expect)
}

func checkContent(content []byte, expect int) error {
	var found struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return err
	}
	if len(found.Items) != expect {
		return fmt.Errorf("a %s of %d items, not of %d", found.Kind, len(found.Items), expect)
	}
	return nil
}

func (f *fetcher) get(client *http.Client) (*http.Response, error) {
	request, err := f.server.request(http.MethodGet, f.path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", f.accept)
	if f.isGzipped {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := client.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, failure(response)
	}
	return response, err
}

func (f *fetcher) load(ctx context.Context, clients, size int) (any, error) {
	runs := make([]fetchRun, clients)
	var group sync.WaitGroup
	clock := startClock()
	for i := range runs {
		group.Go(func() { runs[i].repeat(ctx, f, size) })
	}
	group.Wait()
	report := fetchReport{Bytes: size, Seconds: clock.seconds()}
	var all []int64
	for _, run := range runs {
		if run.err != nil {
			return nil, run.err
		}
		report.Backwards += run.backwards
		all = append(all, run.latencies...)
	}
	report.Requests = len(all)
	report.Latency = spreadOf(all)
	return report, nil
}

// fetchRun is what one client sees.
type fetchRun struct {
	latencies []int64
	version   int64
	backwards int
	err       error
}

func (r *fetchRun) repeat(ctx context.Context, f *fetcher, size int) {
	client := f.server.client()
	defer client.CloseIdleConnections()
	buffer := make([]byte, readBuffer)
	for ctx.Err() == nil && r.err == nil {
		sentAt := time.Now()
		response, err := f.get(client)
		if err != nil {
			r.err = err
			return
		}
		head, length, err := readAll(response.Body, buffer)
		response.Body.Close()
		r.latencies = append(r.latencies, int64(time.Since(sentAt)))
		switch {
		case err != nil:
			r.err = err
		case length < size/2:
			r.err = fmt.Errorf("%s: %d bytes, where %d were expected", f.path, length, size)
		case !f.isGzipped && f.accept == "application/json":
			r.note(head)
		}
		if rest := f.interval - time.Since(sentAt); rest > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
	}
}

// note follows the version of the answers.
func (r *fetchRun) note(head []byte) {
	version, err := readVersion(head)
	if err != nil {
		r.err = err
	}
	if version < r.version {
		r.backwards++
	}
	r.version = version
}

// readAll reads to the end into the buffer, over and over; returns the first bytes and the length.
func readAll(body io.Reader, buffer []byte) ([]byte, int, error) {
	head := make([]byte, 0, headBytes)
	length := 0
	for {
		n, err := body.Read(buffer)
		if room := headBytes - len(head); room > 0 {
			head = append(head, buffer[:min(n, room)]...)
		}
		length += n
		if err == io.EOF {
			return head, length, nil
		}
		if err != nil {
			return head, length, err
		}
	}
}
