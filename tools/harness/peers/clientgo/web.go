package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

func (c *candidate) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.elector.Load().IsLeader() {
			http.Error(w, "not the leader", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := c.config.WatchDog.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/leader", func(w http.ResponseWriter, _ *http.Request) {
		elector := c.elector.Load()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"identity":       c.identity,
			"holderIdentity": elector.GetLeader(),
			"isLeader":       elector.IsLeader(),
		})
	})
	return mux
}

// serve binds before it returns; the port in the journal is the bound one.
func (c *candidate) serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	c.log.write(entry{Event: "listening", Identity: c.identity, Address: listener.Addr().String()})
	go func() {
		err := http.Serve(listener, c.handler())
		fmt.Fprintf(os.Stderr, "candidate: %s: %v\n", address, err)
		os.Exit(1)
	}()
	return nil
}
