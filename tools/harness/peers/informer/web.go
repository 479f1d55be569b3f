package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is what one informer holds. Hash covers a line "NAMESPACE/NAME/VERSION"
// per object, in order of the keys; ContentHash the whole objects as JSON.
type state struct {
	Informer    string      `json:"informer"`
	Synced      bool        `json:"synced"`
	Version     string      `json:"version"`
	Count       int         `json:"count"`
	Hash        string      `json:"hash"`
	ContentHash string      `json:"contentHash,omitempty"`
	Objects     [][2]string `json:"objects,omitempty"`
}

func (it *informer) state(withObjects, withContent bool) state {
	it.copy.mutex.Lock()
	defer it.copy.mutex.Unlock()
	versions, contents := sha256.New(), sha256.New()
	found := state{
		Informer: it.spec.text,
		Synced:   it.shared.HasSynced(),
		Version:  it.shared.LastSyncResourceVersion(),
		Count:    len(it.copy.objects),
	}
	for _, key := range slices.Sorted(maps.Keys(it.copy.objects)) {
		object := it.copy.objects[key]
		fmt.Fprintf(versions, "%s/%s\n", key, object.GetResourceVersion())
		if withObjects {
			found.Objects = append(found.Objects, [2]string{key, object.GetResourceVersion()})
		}
		if withContent {
			_ = json.NewEncoder(contents).Encode(comparable(object))
		}
	}
	found.Hash = hex.EncodeToString(versions.Sum(nil))
	if withContent {
		found.ContentHash = hex.EncodeToString(contents.Sum(nil))
	}
	return found
}

// comparable is equal for objects that came as JSON or protobuf: metadata alone has
// its kind in a list of the one, and has none in a list of the other.
func comparable(object metav1.Object) any {
	if metadata, is := object.(*metav1.PartialObjectMetadata); is {
		return metadata.ObjectMeta
	}
	return object
}

func newHandler(all []*informer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/state", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		states := make([]state, len(all))
		for i, it := range all {
			states[i] = it.state(query.Has("objects"), query.Has("content"))
		}
		answer(w, states)
	})
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		stats := make([]counts, len(all))
		for i, it := range all {
			stats[i] = it.ledger.snapshot()
		}
		answer(w, stats)
	})
	return mux
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
