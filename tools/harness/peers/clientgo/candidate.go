package main

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// healthzTimeout is kube-controller-manager's: a leader is unhealthy when
	// it could not renew for this long after its lease expired.
	healthzTimeout = 20 * time.Second
	// dialTimeout and dialKeepAlive are those of client-go's default transport.
	dialTimeout   = 30 * time.Second
	dialKeepAlive = 30 * time.Second
)

// candidate is one contender: its own client, one elector at a time.
type candidate struct {
	identity string
	config   leaderelection.LeaderElectionConfig
	elector  atomic.Pointer[leaderelection.LeaderElector]
	leads    atomic.Bool
	log      *journal
}

func newCandidate(o options, identity string, log *journal) (*candidate, error) {
	client, err := newClient(o, identity)
	if err != nil {
		return nil, err
	}
	c := &candidate{identity: identity, log: log}
	c.config = leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   o.leaseDuration,
		RenewDeadline:   o.renewDeadline,
		RetryPeriod:     o.retryPeriod,
		ReleaseOnCancel: o.releaseOnCancel,
		Name:            o.lease,
		WatchDog:        leaderelection.NewLeaderHealthzAdaptor(healthzTimeout),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: c.startedLeading,
			OnStoppedLeading: c.stoppedLeading,
			OnNewLeader:      c.newLeader,
		},
	}
	return c, c.renewElector()
}

// newClient sets the request timeout that resourcelock.NewFromKubeconfig and
// controller-runtime set: half the renew deadline, at least one second.
func newClient(o options, identity string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags(o.server, o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = max(o.renewDeadline/2, time.Second)
	config.UserAgent = fmt.Sprintf("client-go-candidate/%s/%s", clientGoVersion(), identity)
	if o.candidates > 1 {
		// client-go shares one connection among clients of equal settings; a
		// dialer of its own keeps a candidate apart, as in a pod of its own.
		dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive}
		config.Dial = dialer.DialContext
	}
	return kubernetes.NewForConfig(config)
}

func clientGoVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func (c *candidate) renewElector() error {
	elector, err := leaderelection.NewLeaderElector(c.config)
	if err != nil {
		return err
	}
	c.config.WatchDog.SetLeaderElection(elector)
	c.elector.Store(elector)
	return nil
}

// startedLeading holds the work: it lasts until client-go cancels the context.
func (c *candidate) startedLeading(ctx context.Context) {
	c.leads.Store(true)
	c.log.write(entry{Event: "started_leading", Identity: c.identity})
	<-ctx.Done()
}

// stoppedLeading is called by client-go also when the candidate never led,
// which is no transition.
func (c *candidate) stoppedLeading() {
	if c.leads.Swap(false) {
		c.log.write(entry{Event: "stopped_leading", Identity: c.identity})
	}
}

func (c *candidate) newLeader(holder string) {
	c.log.write(entry{Event: "new_leader", Identity: c.identity, HolderIdentity: &holder})
}

// run contends until the context ends (nil) or, without loop, until a loss.
func (c *candidate) run(ctx context.Context, loop bool) error {
	for {
		c.elector.Load().Run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case !loop:
			return fmt.Errorf("%s: leader election lost", c.identity)
		}
		if err := c.renewElector(); err != nil {
			return err
		}
	}
}
