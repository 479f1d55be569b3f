package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Between two tries: shorter than anything that is told of a start.
const retryInterval = 2 * time.Millisecond

type firstReport struct {
	// Unix nanoseconds.
	AnsweredAt int64 `json:"answeredAt"`
	// How often there was something else: a status code, or "none" for no answer.
	Before map[string]int `json:"before"`
}

// first asks until there is a complete answer.
func first(ctx context.Context, args []string, ask prompt) (any, error) {
	var to targetFlags
	flags := flag.NewFlagSet("first", flag.ContinueOnError)
	to.register(flags, "", "who is asked")
	path := flags.String("path", "", "path and query")
	expect := flags.Int("expect", 0, "items of the list; 0: the answer is not looked into")
	timeout := flags.Duration("timeout", time.Minute, "when to give up")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	server, err := to.open()
	if err != nil {
		return nil, err
	}
	if err := ask(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	report := firstReport{Before: map[string]int{}}
	client := server.client()
	for ; ctx.Err() == nil; time.Sleep(retryInterval) {
		request, err := server.request("GET", *path, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request.WithContext(ctx))
		if err != nil {
			report.Before["none"]++
			continue
		}
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 {
			report.Before[strconv.Itoa(response.StatusCode)]++
			continue
		}
		report.AnsweredAt = time.Now().UnixNano()
		if *expect > 0 {
			err = checkContent(content, *expect)
		}
		return report, err
	}
	return nil, fmt.Errorf("%s%s: no answer in %s: %v", server.server, *path, *timeout, report.Before)
}
