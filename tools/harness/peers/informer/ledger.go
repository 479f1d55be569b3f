package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// mostViolations bounds what is kept of a broken promise that repeats.
const mostViolations = 20

// counts are what an informer asked and was told.
type counts struct {
	Lists        int            `json:"lists"`
	Watches      int            `json:"watches"`
	WatchLists   int            `json:"watchLists"`
	CompleteSets int            `json:"completeSets"`
	Added        int            `json:"added"`
	Modified     int            `json:"modified"`
	Deleted      int            `json:"deleted"`
	Bookmarks    int            `json:"bookmarks"`
	Resyncs      int            `json:"resyncs"`
	Errors       map[string]int `json:"errors"`
	Violations   []string       `json:"violations"`
}

// ledger notes every request of one informer and judges what comes back, over
// all of its streams: resourceVersions of one stream grow strictly, and no
// complete set is older than what was seen before it.
type ledger struct {
	mutex sync.Mutex
	counts
	seen uint64
}

func newLedger() *ledger {
	return &ledger{counts: counts{Errors: map[string]int{}, Violations: []string{}}}
}

func (l *ledger) snapshot() counts {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	taken := l.counts
	taken.Errors = make(map[string]int, len(l.Errors))
	for key, value := range l.Errors {
		taken.Errors[key] = value
	}
	taken.Violations = append([]string{}, l.Violations...)
	return taken
}

// violated needs the mutex.
func (l *ledger) violated(format string, args ...any) {
	if len(l.Violations) < mostViolations {
		l.Violations = append(l.Violations, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) failed(err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		l.Errors[strconv.Itoa(int(status.Status().Code))]++
	} else {
		l.Errors["unreachable"]++
	}
}

func (l *ledger) listed(list runtime.Object, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.Lists++
	if err != nil {
		l.failed(err)
		return
	}
	version, err := listVersion(list)
	if err != nil {
		l.violated("a list without a version: %v", err)
		return
	}
	l.complete(version)
}

// complete notes a complete set at a version: of a list or of initial events.
func (l *ledger) complete(version uint64) {
	l.CompleteSets++
	if version < l.seen {
		l.violated("a complete set at %d after %d was seen", version, l.seen)
	}
	l.seen = max(l.seen, version)
}

func (l *ledger) watched(w watch.Interface, o metav1.ListOptions, err error) (watch.Interface, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	s := &stream{ledger: l, source: w}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		l.WatchLists++
		s.isInitial = true
	} else {
		l.Watches++
		s.last, _ = strconv.ParseUint(o.ResourceVersion, 10, 64)
	}
	if err != nil {
		l.failed(err)
		return nil, err
	}
	s.results = make(chan watch.Event)
	s.stopped = make(chan struct{})
	go s.forward()
	return s, nil
}

// stream hands events on as they come and judges their order.
type stream struct {
	ledger    *ledger
	source    watch.Interface
	results   chan watch.Event
	stopped   chan struct{}
	stopOnce  sync.Once
	isInitial bool
	// last is the highest version of the stream, highest that of its initial events.
	last, highest uint64
}

func (s *stream) ResultChan() <-chan watch.Event { return s.results }

func (s *stream) Stop() {
	s.stopOnce.Do(func() {
		close(s.stopped)
		s.source.Stop()
	})
}

func (s *stream) forward() {
	defer close(s.results)
	for event := range s.source.ResultChan() {
		s.note(event)
		select {
		case s.results <- event:
		case <-s.stopped:
			return
		}
	}
}

func (s *stream) note(event watch.Event) {
	l := s.ledger
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if event.Type == watch.Error {
		l.failed(apierrors.FromObject(event.Object))
		return
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		l.violated("%s of %T: %v", event.Type, event.Object, err)
		return
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		l.violated("%s of %s: %v", event.Type, object.GetName(), err)
		return
	}
	switch event.Type {
	case watch.Added:
		l.Added++
	case watch.Modified:
		l.Modified++
	case watch.Deleted:
		l.Deleted++
	case watch.Bookmark:
		l.Bookmarks++
		s.bookmark(object, version)
		return
	}
	if s.isInitial {
		// What happens before the bookmark may be told before it: in what order is not promised.
		s.highest = max(s.highest, version)
		return
	}
	if version <= s.last {
		l.violated("%s %s at %d after %d", event.Type, object.GetName(), version, s.last)
	}
	s.last = max(s.last, version)
	l.seen = max(l.seen, version)
}

// bookmark needs the mutex.
func (s *stream) bookmark(object metav1.Object, version uint64) {
	if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		if !s.isInitial {
			s.ledger.violated("a second end of the initial events at %d", version)
		}
		if s.highest > version {
			s.ledger.violated("initial events end at %d, and one was at %d", version, s.highest)
		}
		s.isInitial = false
		s.ledger.complete(version)
	} else if s.isInitial {
		s.ledger.violated("a bookmark at %d before the initial events ended", version)
	}
	if version < s.last {
		s.ledger.violated("a bookmark at %d after %d", version, s.last)
	}
	s.last = max(s.last, version)
	s.ledger.seen = max(s.ledger.seen, version)
}

func listVersion(list runtime.Object) (uint64, error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(accessor.GetResourceVersion(), 10, 64)
}
