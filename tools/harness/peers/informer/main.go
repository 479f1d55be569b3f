// Command informer runs client-go's shared informers the way controllers do, as
// many as asked for in one process, so that tests can put the real thing behind
// a relay and compare what it ends up with.
//
// It adds nothing to the informers: how they list, watch, resume and back off is
// client-go's. It keeps its own copy of the objects from the event handlers, and
// judges on the wire that no stream repeats, reorders or goes back in time.
//
// /state tells which objects each informer holds, /stats what it took to get
// them and every broken promise. The first line on stdout is JSON with the
// address; client-go's own log goes to stderr.
//
// Exit code: 0 after SIGTERM or SIGINT, 2 when a flag is unusable.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// specs are the values of a flag that may be repeated.
type specs []string

func (s *specs) String() string { return strings.Join(*s, " ") }

func (s *specs) Set(value string) error {
	*s = append(*s, value)
	return nil
}

type options struct {
	kubeconfig, server string
	userAgent, accept  string
	listen             string
	watchList          bool
	count              int
	informers          specs
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("informer", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig; without it and --server: in-cluster")
	flags.StringVar(&o.server, "server", "", "URL of the API server, instead of the kubeconfig's")
	flags.StringVar(&o.userAgent, "user-agent", "informer", "User-Agent of every request")
	flags.StringVar(&o.accept, "accept", "", "what typed clients accept, instead of client-go's default")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "ADDRESS:PORT to serve /state and /stats on")
	flags.BoolVar(&o.watchList, "watch-list", true, "the feature gate WatchListClient")
	flags.IntVar(&o.count, "count", 1, "how many of each informer to run")
	flags.Var(&o.informers, "informer", "KIND:RESOURCE[.VERSION[.GROUP]][?namespace=N&labelSelector=L&fieldSelector=F] (repeatable); KIND is typed, dynamic or metadata")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case len(o.informers) == 0:
		return o, errors.New("--informer is required")
	case o.count < 1:
		return o, fmt.Errorf("--count=%d: at least 1", o.count)
	}
	return o, nil
}

func newConfig(o options) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags(o.server, o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = o.userAgent
	// Many informers in one process stand for many processes of one informer.
	config.QPS = -1
	return config, nil
}

func newInformers(o options) ([]*informer, error) {
	config, err := newConfig(o)
	if err != nil {
		return nil, err
	}
	var all []*informer
	for _, text := range o.informers {
		s, err := parseSpec(text)
		if err != nil {
			return nil, err
		}
		for range o.count {
			it, err := newInformer(config, s, o.accept)
			if err != nil {
				return nil, err
			}
			all = append(all, it)
		}
	}
	return all, nil
}

func run(ctx context.Context, o options) error {
	// client-go reads its gates from the environment, once and at first use.
	os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(o.watchList))
	all, err := newInformers(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"address": listener.Addr().String()})
	for _, it := range all {
		go it.shared.RunWithContext(ctx)
	}
	server := &http.Server{Handler: newHandler(all)}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "informer: %v\n", err)
		os.Exit(2)
	}
}
