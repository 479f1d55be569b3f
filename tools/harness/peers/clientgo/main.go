// Command candidate runs client-go's own leader election the way its users do,
// so that tests can set elector-sidecar against the real thing on one Lease.
//
// It adds nothing to the election: the Lease, the timings, when work starts and
// stops, and what happens on loss are client-go's. /readyz answers from
// IsLeader(), /healthz from HealthzAdaptor, as programs built on client-go do.
//
// Every transition is one JSON line on stdout, stamped with CLOCK_REALTIME and
// CLOCK_BOOTTIME in seconds; client-go's own log goes to stderr.
//
// Exit code: 0 after SIGTERM or SIGINT, 1 after a loss of leadership (without
// --loop), 2 when a flag is unusable.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// listenOff is the value of --listen for no HTTP server.
const listenOff = "off"

type options struct {
	kubeconfig, server    string
	namespace, lease      string
	identity, listen      string
	leaseDuration         time.Duration
	renewDeadline         time.Duration
	retryPeriod           time.Duration
	releaseOnCancel, loop bool
	candidates            int
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("candidate", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig; without it and --server: in-cluster")
	flags.StringVar(&o.server, "server", "", "URL of the API server, instead of the kubeconfig's")
	flags.StringVar(&o.namespace, "namespace", "default", "namespace of the Lease")
	flags.StringVar(&o.lease, "lease", "", "name of the Lease (required)")
	flags.StringVar(&o.identity, "identity", "", "holderIdentity, used verbatim; with --candidates, -INDEX is appended (default HOSTNAME_UUID)")
	flags.StringVar(&o.listen, "listen", listenOff, "ADDRESS:PORT to serve /readyz, /healthz and /leader on; port 0 is allowed; off: no server")
	flags.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "LeaseDuration")
	flags.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "RenewDeadline")
	flags.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "RetryPeriod")
	flags.BoolVar(&o.releaseOnCancel, "release-on-cancel", false, "ReleaseOnCancel")
	flags.BoolVar(&o.loop, "loop", false, "after a loss contend again with a new elector, instead of exit code 1")
	flags.IntVar(&o.candidates, "candidates", 1, "how many candidates to run, each with its own client and connection")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.lease == "":
		return o, errors.New("--lease is required")
	case o.candidates < 1:
		return o, fmt.Errorf("--candidates=%d: at least 1", o.candidates)
	case o.candidates > 1 && o.listen != listenOff:
		return o, fmt.Errorf("--listen=%s answers for one candidate, --candidates=%d", o.listen, o.candidates)
	}
	return o, nil
}

func identities(o options) ([]string, error) {
	base := o.identity
	if base == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		base = hostname + "_" + string(uuid.NewUUID())
	}
	if o.candidates == 1 {
		return []string{base}, nil
	}
	all := make([]string, o.candidates)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", base, i)
	}
	return all, nil
}

func newCandidates(o options) ([]*candidate, error) {
	names, err := identities(o)
	if err != nil {
		return nil, err
	}
	log := &journal{}
	all := make([]*candidate, len(names))
	for i, name := range names {
		if all[i], err = newCandidate(o, name, log); err != nil {
			return nil, err
		}
	}
	if o.listen != listenOff {
		err = all[0].serve(o.listen)
	}
	return all, err
}

// runAll returns the number of candidates that lost.
func runAll(ctx context.Context, all []*candidate, loop bool) int64 {
	var group sync.WaitGroup
	var lost atomic.Int64
	for _, c := range all {
		group.Add(1)
		go func(c *candidate) {
			defer group.Done()
			if err := c.run(ctx, loop); err != nil {
				lost.Add(1)
				fmt.Fprintf(os.Stderr, "candidate: %v\n", err)
			}
		}(c)
	}
	group.Wait()
	return lost.Load()
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	var all []*candidate
	if err == nil {
		all, err = newCandidates(o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "candidate: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process at once, also while a release hangs.
	context.AfterFunc(ctx, stop)
	if runAll(ctx, all, o.loop) > 0 {
		os.Exit(1)
	}
}
