// What runs in the pods of a node under test, as their only file. `workload pause` holds a pod's
// network. `workload print WORD` prints the word. `workload web` answers on :8080:
//
//	/            its pod, addresses, and the files that it was given (below FILES), as JSON
//	/fetch?url=  what another server answers, asked from inside this pod; 502 where it does not
//	             within &timeout=, a duration of Go's
//	/end         ends the container
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type answer struct {
	Pod       string            `json:"pod"`
	Node      string            `json:"node"`
	Addresses []string          `json:"addresses"`
	Files     map[string]string `json:"files"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "web" {
		web()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "print" {
		fmt.Println(os.Args[2])
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

func web() {
	fmt.Println("serving")
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(answer{
			os.Getenv("POD_NAME"), os.Getenv("NODE_NAME"), addresses(), files(os.Getenv("FILES")),
		})
	})
	// A connection of its own for each: a Service is to choose anew.
	transport := &http.Transport{DisableKeepAlives: true}
	http.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		client := &http.Client{Timeout: timeout, Transport: transport}
		found, err := client.Get(r.URL.Query().Get("url"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer found.Body.Close()
		w.WriteHeader(found.StatusCode)
		io.Copy(w, found.Body)
	})
	http.HandleFunc("/end", func(http.ResponseWriter, *http.Request) { os.Exit(1) })
	if err := http.ListenAndServe(":8080", nil); err != nil {
		panic(err)
	}
}

func addresses() []string {
	found := []string{}
	all, _ := net.InterfaceAddrs()
	for _, each := range all {
		if it, ok := each.(*net.IPNet); ok && !it.IP.IsLoopback() && !it.IP.IsLinkLocalUnicast() {
			found = append(found, it.IP.String())
		}
	}
	return found
}

// By path below root, a projected volume: its files are links into a directory of their version.
func files(root string) map[string]string {
	found := map[string]string{}
	data, err := filepath.EvalSymlinks(filepath.Join(root, "..data"))
	if err != nil {
		return found
	}
	filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if content, err := os.ReadFile(path); err == nil {
				found[strings.TrimPrefix(path, data+"/")] = string(content)
			}
		}
		return nil
	})
	return found
}
