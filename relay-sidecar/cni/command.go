package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

const usage = `sticky-ipam COMMAND: reservations of pods' addresses
  list                  as JSON
  gc                    ends those of pods that are gone; --present FILE names the pods that are there
  release KEY... | --all   ends them now: --all those of pods without a sandbox`

// command is what `relay-sidecar node` runs; a runtime speaks CNI instead.
func command(arguments []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("sticky-ipam "+arguments[0], flag.ContinueOnError)
	stateDir := flags.String("state-dir", defaultStateDir, "where the reservations are")
	cniPath := flags.String("cni-path", beside()+":/opt/cni/bin", "where host-local is")
	present := flags.String("present", "", "gc: a file, or - for stdin, with the uids of all pods of this node, one a line; without it only --max-age ends reservations")
	grace := flags.Duration("grace", 5*time.Minute, "gc: of running time that a pod has to be absent")
	maxAge := flags.Duration("max-age", 0, "gc: of running time without a sandbox; 0: no limit")
	everything := flags.Bool("all", false, "release: all that have no sandbox")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	switch arguments[0] {
	case "list":
		return list(*stateDir, stdout)
	case "gc":
		uids, err := presentUIDs(*present, stdin)
		if err != nil {
			return err
		}
		return gc(*stateDir, *cniPath, rule{uids, *grace, *maxAge}, stdout)
	case "release":
		if *everything == (flags.NArg() > 0) {
			return errors.New("release: name keys of `sticky-ipam list`, or --all")
		}
		return release(*stateDir, *cniPath, flags.Args(), stdout)
	}
	return fmt.Errorf("%q is no command\n%s", arguments[0], usage)
}

func beside() string {
	executable, err := os.Executable()
	if err != nil {
		return "/opt/cni/bin"
	}
	return filepath.Dir(executable)
}

// networks runs work on each network's reservations, one after another.
func networks(stateDir string, work func(string, *store, []*reservation) error) error {
	folders, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		reservations, known, err := readStore(stateDir, folder.Name())
		if err != nil {
			return err
		}
		err = work(folder.Name(), reservations, known)
		reservations.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// listed is a reservation as `list` prints it.
type listed struct {
	Network string `json:"network"`
	Key     string `json:"key"`
	*reservation
	Config *struct{} `json:"config,omitempty"`
}

func list(stateDir string, stdout io.Writer) error {
	found := []listed{}
	err := networks(stateDir, func(network string, _ *store, known []*reservation) error {
		for _, r := range known {
			found = append(found, listed{network, r.key, r, nil})
		}
		return nil
	})
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(found)
}

// rule says which reservations end. present is nil where nobody knows which pods there are.
type rule struct {
	present       map[string]bool
	grace, maxAge time.Duration
}

func presentUIDs(name string, stdin io.Reader) (map[string]bool, error) {
	if name == "" {
		return nil, nil
	}
	content, err := io.ReadAll(stdin)
	if name != "-" {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	uids := map[string]bool{}
	for _, uid := range strings.Fields(string(content)) {
		uids[uid] = true
	}
	return uids, nil
}

// ends counts the running time since the gc before, and judges.
func (rule rule) ends(r *reservation, elapsed time.Duration) bool {
	if r.Attached {
		r.DetachedSeconds = 0
	} else {
		r.DetachedSeconds += elapsed.Seconds()
	}
	if rule.present != nil {
		switch {
		case r.UID == "" || rule.present[r.UID]:
			r.Absent, r.AbsentSeconds = false, 0
		case r.Absent:
			r.AbsentSeconds += elapsed.Seconds()
		default:
			r.Absent = true
		}
	}
	if r.Attached {
		return false
	}
	isGone := rule.present != nil && r.Absent && r.AbsentSeconds >= rule.grace.Seconds()
	isOld := rule.maxAge > 0 && r.DetachedSeconds >= rule.maxAge.Seconds()
	return isGone || isOld
}

func gc(stateDir, cniPath string, rule rule, stdout io.Writer) error {
	elapsed, err := sinceLast(stateDir)
	if err != nil {
		return err
	}
	return networks(stateDir, func(network string, reservations *store, known []*reservation) error {
		for _, r := range known {
			before := *r
			if rule.ends(r, elapsed) {
				if err := end(network, cniPath, reservations, r, stdout); err != nil {
					return err
				}
			} else if r.Absent != before.Absent || r.AbsentSeconds != before.AbsentSeconds || r.DetachedSeconds != before.DetachedSeconds {
				if err := reservations.put(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func release(stateDir, cniPath string, keys []string, stdout io.Writer) error {
	left := slices.Clone(keys)
	err := networks(stateDir, func(network string, reservations *store, known []*reservation) error {
		for _, r := range known {
			named := slices.Contains(keys, r.key)
			if !named && (len(keys) > 0 || r.Attached) {
				continue
			}
			left = slices.DeleteFunc(left, func(key string) bool { return key == r.key })
			if err := end(network, cniPath, reservations, r, stdout); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("no reservation of %s: see `sticky-ipam list`", strings.Join(left, ", "))
	}
	return err
}

// end gives the addresses back to the delegate first: a reservation without addresses is found
// again, addresses without a reservation are not.
func end(network, cniPath string, reservations *store, r *reservation, stdout io.Writer) error {
	var conf types.PluginConf
	if err := json.Unmarshal(r.Config, &conf); err != nil {
		return fmt.Errorf("reservation %s: %w", r.key, err)
	}
	if r.Attached {
		// Its sandbox lives: the delegate's own record stays until its DEL.
		fmt.Fprintf(stdout, "%s %s: reservation ended, the sandbox keeps %v\n", network, r.key, r.Addresses)
		return reservations.remove(r)
	}
	host, err := delegateOf(conf.IPAM.Type, &skel.CmdArgs{Path: cniPath})
	if err != nil {
		return err
	}
	for _, sandbox := range append(r.Former, r.ContainerID) {
		if err := host.as(sandbox, r.IfName).run("DEL", r.Config); err != nil {
			return fmt.Errorf("%v of %s cannot be given back: %w", r.Addresses, r.key, err)
		}
	}
	fmt.Fprintf(stdout, "%s %s: %v are free\n", network, r.key, r.Addresses)
	return reservations.remove(r)
}

// sinceLast is the running time since the gc before, 0 for the first one of a boot. No wall clock
// takes part: nobody knows what it says after a reboot without a network.
func sinceLast(stateDir string) (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, err
	}
	last := struct {
		Boot string `json:"boot"`
		At   int64  `json:"at"`
	}{}
	name := filepath.Join(stateDir, ".last-gc.json")
	content, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	elapsed := time.Duration(0)
	if err == nil && json.Unmarshal(content, &last) == nil && last.Boot == strings.TrimSpace(string(boot)) {
		elapsed = max(time.Duration(now.Nano()-last.At), 0)
	}
	last.Boot, last.At = strings.TrimSpace(string(boot)), now.Nano()
	if content, err = json.Marshal(last); err != nil {
		return 0, err
	}
	if err := os.WriteFile(name, content, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	return elapsed, nil
}
