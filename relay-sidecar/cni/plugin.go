package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// delegate runs host-local in the name of one sandbox.
type delegate struct {
	path        string
	cniPath     string
	containerID string
	netns       string
	ifName      string
	args        string
}

func delegateOf(name string, args *skel.CmdArgs) (*delegate, error) {
	path, err := invoke.FindInPath(name, filepath.SplitList(args.Path))
	if err != nil {
		return nil, fmt.Errorf("ipam.sticky.delegate %q: %w", name, err)
	}
	return &delegate{path, args.Path, args.ContainerID, args.Netns, args.IfName, args.Args}, nil
}

// as is the same delegate in the name of another sandbox.
func (d *delegate) as(containerID, ifName string) *delegate {
	return &delegate{d.path, d.cniPath, containerID, d.netns, ifName, ""}
}

func (d *delegate) invocation(command string) *invoke.Args {
	args := d.args
	if args == "" {
		args = "IgnoreUnknown=1"
	}
	return &invoke.Args{
		Command: command, ContainerID: d.containerID, NetNS: d.netns,
		PluginArgsStr: args, IfName: d.ifName, Path: d.cniPath,
	}
}

func (d *delegate) add(config []byte) (types.Result, error) {
	return invoke.ExecPluginWithResult(context.Background(), d.path, config, d.invocation("ADD"), nil)
}

func (d *delegate) run(command string, config []byte) error {
	return invoke.ExecPluginWithoutResult(context.Background(), d.path, config, d.invocation(command), nil)
}

func add(args *skel.CmdArgs) error {
	conf, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	if isUninstalled() {
		return addUnreserved(conf, args)
	}
	key, pod, err := podOf(args.Args)
	if err != nil {
		return err
	}
	host, err := delegateOf(conf.IPAM.Sticky.Delegate, args)
	if err != nil {
		return err
	}
	reservations, known, err := readStore(conf.IPAM.Sticky.StateDir, conf.Name)
	if err != nil {
		return err
	}
	defer reservations.close()
	own := find(known, func(r *reservation) bool { return r.key == key && r.IfName == args.IfName })
	for _, r := range known {
		if r != own {
			hold(conf, host, r)
		}
	}
	if own != nil {
		// From here on both may hold the addresses, whenever this process ends.
		own.Former = append(own.Former, own.ContainerID)
		own.ContainerID, own.Attached = args.ContainerID, true
		if err := reservations.put(own); err != nil {
			return fmt.Errorf("the reservation is not kept: %v", err)
		}
	}
	result, config, err := allocate(conf, host, own, conf.asksForAddresses(pod))
	if err != nil {
		return explained(err, conf, known, own)
	}
	if key != "" {
		made := &reservation{
			UID: string(pod.K8S_POD_UID), Namespace: string(pod.K8S_POD_NAMESPACE),
			Name: string(pod.K8S_POD_NAME), IfName: args.IfName, ContainerID: args.ContainerID,
			Attached: true, Config: config, key: key,
		}
		if made.Addresses, err = addressesOf(result); err == nil {
			err = reservations.put(made)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("the reservation is not kept: %v", err), host.run("DEL", config))
		}
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// allocate asks the delegate: for the reserved addresses, where there are any that the network can
// still give. It returns the configuration without those, to give them back with.
func allocate(conf *netConf, host *delegate, own *reservation, asks bool) (types.Result, []byte, error) {
	config, err := conf.forDelegate(nil)
	if err != nil {
		return nil, nil, err
	}
	var addresses []string
	if own != nil {
		// The sandboxes before this one are dead: the pod has one at a time.
		for _, sandbox := range append(own.Former, own.ContainerID) {
			if err := host.as(sandbox, own.IfName).run("DEL", config); err != nil {
				return nil, nil, err
			}
		}
		discardTorn(conf, own)
		if addresses = own.usable(conf); addresses == nil {
			fmt.Fprintf(os.Stderr, "sticky-ipam: %v of %s are in no subnet of network %s any more\n",
				own.Addresses, own.key, conf.Name)
		}
	}
	if asks {
		addresses = nil
	}
	asked, err := conf.forDelegate(addresses)
	if err != nil {
		return nil, nil, err
	}
	result, err := host.add(asked)
	return result, config, err
}

// hold gives a reservation back to its sandbox where the delegate has forgotten it, or one of its
// addresses: after a power cut, or when its data directory is not on a disk.
func hold(conf *netConf, host *delegate, r *reservation) {
	addresses := r.usable(conf)
	discardTorn(conf, r)
	missing := false
	for _, address := range addresses {
		if _, err := os.Stat(dataFile(conf, address)); err != nil {
			missing = true
		}
	}
	if !missing {
		return
	}
	sandbox := host.as(r.ContainerID, r.IfName)
	config, err := conf.forDelegate(addresses)
	if err == nil {
		// All or none: what is left of them would be refused as taken.
		err = sandbox.run("DEL", config)
	}
	if err == nil {
		_, err = sandbox.add(config)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sticky-ipam: %v of %s cannot be held: %v\n", addresses, r.key, err)
	}
}

// discardTorn removes the delegate's files that a power cut left empty: it would never free them.
func discardTorn(conf *netConf, r *reservation) {
	for _, address := range r.Addresses {
		info, err := os.Stat(dataFile(conf, address))
		if err == nil && info.Size() == 0 {
			os.Remove(dataFile(conf, address))
		}
	}
}

func dataFile(conf *netConf, address string) string {
	return filepath.Join(conf.IPAM.DataDir, conf.Name, address)
}

func addressesOf(result types.Result) ([]string, error) {
	got, err := current.NewResultFromResult(result)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, each := range got.IPs {
		addresses = append(addresses, each.Address.IP.String())
	}
	if len(addresses) == 0 {
		return nil, errors.New("the delegate gave no address")
	}
	return addresses, nil
}

// explained says what helps where a range is full of what nobody uses, and who has an address that
// is reserved for this pod. Of a wrapped CNI error the runtime would hear the inner one only.
func explained(err error, conf *netConf, known []*reservation, own *reservation) error {
	if strings.Contains(err.Error(), "no IP addresses available") {
		unused := 0
		for _, r := range known {
			if !r.Attached {
				unused++
			}
		}
		if unused > 0 {
			return fmt.Errorf("%v; %d of them are reserved for pods without a sandbox: run "+
				"`relay-sidecar node ipam-gc` while the cloud can be reached", err, unused)
		}
	}
	if own == nil {
		return err
	}
	for _, address := range own.Addresses {
		if content, reading := os.ReadFile(dataFile(conf, address)); reading == nil {
			holder, _, _ := strings.Cut(string(content), "\n")
			return fmt.Errorf("%v; %s is reserved for this pod and held by sandbox %s: delete that "+
				"pod, or run `sticky-ipam release %s`", err, address, strings.TrimSpace(holder), own.key)
		}
	}
	return err
}

func del(args *skel.CmdArgs) error {
	conf, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	if isUninstalled() {
		return delUnreserved(conf, args)
	}
	reservations, known, err := readStore(conf.IPAM.Sticky.StateDir, conf.Name)
	if err != nil {
		return err
	}
	defer reservations.close()
	own := find(known, func(r *reservation) bool {
		return r.ContainerID == args.ContainerID && r.IfName == args.IfName
	})
	if own != nil {
		own.Attached = false
		return reservations.put(own)
	}
	return pass(conf, args, "DEL")
}

func check(args *skel.CmdArgs) error {
	conf, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	return pass(conf, args, "CHECK")
}

// status says whether ADD could work: host-local itself does not know the verb.
func status(args *skel.CmdArgs) error {
	conf, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := delegateOf(conf.IPAM.Sticky.Delegate, args); err != nil || isUninstalled() {
		return err
	}
	reservations, err := openStore(conf.IPAM.Sticky.StateDir, conf.Name)
	if err != nil {
		return err
	}
	reservations.close()
	return nil
}

// collect answers CNI's GC: sandboxes that the runtime does not know are gone; their pods keep
// their addresses.
func collect(args *skel.CmdArgs) error {
	conf, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	if isUninstalled() {
		return nil
	}
	var gc types.PluginConf
	if err := json.Unmarshal(args.StdinData, &gc); err != nil {
		return err
	}
	reservations, known, err := readStore(conf.IPAM.Sticky.StateDir, conf.Name)
	if err != nil {
		return err
	}
	defer reservations.close()
	for _, r := range known {
		sandbox := types.GCAttachment{ContainerID: r.ContainerID, IfName: r.IfName}
		if r.Attached && !slices.Contains(gc.ValidAttachments, sandbox) {
			r.Attached = false
			if err := reservations.put(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func pass(conf *netConf, args *skel.CmdArgs, command string) error {
	host, err := delegateOf(conf.IPAM.Sticky.Delegate, args)
	if err != nil {
		return err
	}
	config, err := conf.forDelegate(nil)
	if err != nil {
		return err
	}
	return host.run(command, config)
}

func find(known []*reservation, matches func(*reservation) bool) *reservation {
	for _, r := range known {
		if matches(r) {
			return r
		}
	}
	return nil
}
