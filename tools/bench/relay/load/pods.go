package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
)

// Bytes of one environment variable of a pod at least.
const variableSize = 50

func podName(i int) string { return fmt.Sprintf("pod-%05d", i) }

// noise is text of that length that is another one for each pod, since what is
// the same in all of them would be compressed away.
func noise(random *rand.Rand, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = "0123456789abcdef"[random.IntN(16)]
	}
	return string(text)
}

type object = map[string]any

// podBody is a pod of nested objects, as controllers make them, not one of long
// strings, which cost less to encode; filler makes up the last bytes.
func podBody(pod int, s shape) ([]byte, error) {
	random := rand.New(rand.NewPCG(uint64(pod), 0))
	env := make([]object, s.variables)
	for i := range env {
		env[i] = object{"name": fmt.Sprintf("VARIABLE_%03d", i), "value": noise(random, 12)}
	}
	return json.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": object{
			"name":   podName(pod),
			"labels": object{"app": "bench", "tier": "front", "pod-template-hash": "7c9d8f6b5"},
			"annotations": object{
				stampKey:      stamp{}.String(),
				"config/hash": noise(random, 16),
				"filler":      noise(random, s.filler),
			},
		},
		"spec": object{
			"nodeName": "edge-1",
			"containers": []object{{
				"name":      "main",
				"image":     "registry.example.com/team/main:1.2.3",
				"env":       env,
				"ports":     []object{{"name": "http", "containerPort": 8080}},
				"resources": object{"requests": object{"cpu": "100m", "memory": "64Mi"}},
			}},
		},
	})
}

type createReport struct {
	Created int     `json:"created"`
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// create makes the pods of a namespace, each of about --size bytes as served.
func create(ctx context.Context, args []string, ask prompt) (any, error) {
	var to targetFlags
	flags := flag.NewFlagSet("create", flag.ContinueOnError)
	to.register(flags, "", "the API server")
	namespace := flags.String("namespace", "", "of the pods, with its default service account")
	count := flags.Int("count", 1000, "pods")
	size := flags.Int("size", 3000, "bytes of a pod's JSON")
	isManaged := flags.Bool("managed-fields", true, "as usual; without, an update costs the API server half")
	workers := flags.Int("workers", 4, "connections")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	server, err := to.open()
	if err != nil {
		return nil, err
	}
	maker := maker{server, "/api/v1/namespaces/" + *namespace + "/pods", *isManaged}
	shape, err := maker.fit(*size)
	if err != nil {
		return nil, err
	}
	if err := ask(); err != nil {
		return nil, err
	}
	clock := startClock()
	var next, bytes atomic.Int64
	failed := make(chan error, *workers)
	var group sync.WaitGroup
	for range *workers {
		group.Go(func() {
			client := server.client()
			for i := int(next.Add(1)) - 1; i < *count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				length, err := maker.create(client, i, shape)
				if err != nil {
					failed <- err
					return
				}
				bytes.Add(int64(length))
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return createReport{*count, int(bytes.Load()) / max(*count, 1), clock.seconds()}, nil
}

// shape is how a pod gets its size.
type shape struct{ variables, filler int }

type maker struct {
	server    target
	path      string
	isManaged bool
}

// fit finds the shape of pods of that size, as the API server would serve them.
func (m maker) fit(size int) (shape, error) {
	client := m.server.client()
	for found := (shape{variables: size / variableSize}); ; found.variables-- {
		length, err := m.post(client, "?dryRun=All", 0, found)
		if err != nil {
			return found, err
		}
		if length <= size {
			found.filler = size - length
			return found, nil
		}
		if found.variables == 0 {
			return found, fmt.Errorf("--size=%d: the smallest pod has %d bytes", size, length)
		}
	}
}

// create makes one pod and returns its bytes.
func (m maker) create(client *http.Client, pod int, s shape) (int, error) {
	length, err := m.post(client, "", pod, s)
	if err != nil || m.isManaged {
		return length, err
	}
	// Once it is empty, kube-apiserver does not fill it again for updates:
	// apimachinery, pkg/util/managedfields/internal/skipnonapplied.go.
	body := []byte(`{"metadata":{"managedFields":[{}]}}`)
	path := m.path + "/" + podName(pod)
	content, err := m.send(client, http.MethodPatch, path, "application/merge-patch+json", body)
	return len(content), err
}

// post returns how many bytes the pod has.
func (m maker) post(client *http.Client, query string, pod int, s shape) (int, error) {
	body, err := podBody(pod, s)
	if err != nil {
		return 0, err
	}
	content, err := m.send(client, http.MethodPost, m.path+query, "application/json", body)
	if err != nil || m.isManaged {
		return len(content), err
	}
	start := bytes.Index(content, []byte(`"managedFields":[`))
	end := bytes.Index(content, []byte(`},"spec":{`))
	if start < 0 || end < start {
		return 0, fmt.Errorf("no managedFields at the end of the metadata: %.300s", content)
	}
	return len(content) - (end - start), nil
}

func (m maker) send(client *http.Client, method, path, kind string, body []byte) ([]byte, error) {
	request, err := m.server.request(method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, failure(response)
	}
	return io.ReadAll(response.Body)
}
