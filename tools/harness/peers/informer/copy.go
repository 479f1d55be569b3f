package main

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// copyOfEvents is what a controller knows: only what its handlers were told.
// Handlers of one informer are called one after the other.
type copyOfEvents struct {
	mutex   sync.Mutex
	objects map[string]metav1.Object
	ledger  *ledger
}

func newCopy(notes *ledger) *copyOfEvents {
	return &copyOfEvents{objects: map[string]metav1.Object{}, ledger: notes}
}

func (c *copyOfEvents) violated(format string, args ...any) {
	c.ledger.mutex.Lock()
	defer c.ledger.mutex.Unlock()
	c.ledger.violated(format, args...)
}

func (c *copyOfEvents) OnAdd(object any, _ bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	added, key := read(object)
	if known, exists := c.objects[key]; exists {
		c.violated("added %s twice, at %s and %s", key, known.GetResourceVersion(), added.GetResourceVersion())
	}
	c.objects[key] = added
}

func (c *copyOfEvents) OnUpdate(_, object any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	updated, key := read(object)
	known, exists := c.objects[key]
	if !exists {
		c.violated("updated %s, which was not added", key)
	} else if known.GetUID() == updated.GetUID() {
		c.compare(key, version(known), version(updated))
	}
	c.objects[key] = updated
}

// compare knows that client-go updates each object that a relist brought again.
func (c *copyOfEvents) compare(key string, before, now uint64) {
	if now < before {
		c.violated("updated %s from %d back to %d", key, before, now)
	}
	if now == before {
		c.ledger.mutex.Lock()
		c.ledger.Resyncs++
		c.ledger.mutex.Unlock()
	}
}

func (c *copyOfEvents) OnDelete(object any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
		object = unknown.Obj
	}
	_, key := read(object)
	if _, exists := c.objects[key]; !exists {
		c.violated("deleted %s, which was not there", key)
	}
	delete(c.objects, key)
}

// read panics at what no informer hands out.
func read(object any) (metav1.Object, string) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return accessor, accessor.GetNamespace() + "/" + accessor.GetName()
}

func version(object metav1.Object) uint64 {
	// The ledger has complained already about one that is no number.
	number, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return number
}
