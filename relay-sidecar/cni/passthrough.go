package main

import (
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// marker lies beside the plugin once the relay was taken off the node: no relay would end reservations
// any more, and sandboxes of before still need the plugin by its name.
const marker = ".passthrough"

func isUninstalled() bool {
	executable, err := os.Executable()
	if err != nil {
		return false
	}
	_, err = os.Stat(executable + marker)
	return err == nil
}

// addUnreserved gives what host-local gives.
func addUnreserved(conf *netConf, args *skel.CmdArgs) error {
	host, err := delegateOf(conf.IPAM.Sticky.Delegate, args)
	if err != nil {
		return err
	}
	config, err := conf.forDelegate(nil)
	if err != nil {
		return err
	}
	result, err := host.add(config)
	if err != nil {
		return err
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// delUnreserved frees the addresses of a sandbox, and ends its reservation where there is one.
// A state directory that is gone, or damaged, keeps nothing from being freed.
func delUnreserved(conf *netConf, args *skel.CmdArgs) error {
	if err := pass(conf, args, "DEL"); err != nil {
		return err
	}
	if _, err := os.Stat(conf.IPAM.Sticky.StateDir); err != nil {
		return nil
	}
	reservations, known, err := readStore(conf.IPAM.Sticky.StateDir, conf.Name)
	if err != nil {
		return nil
	}
	defer reservations.close()
	own := find(known, func(r *reservation) bool {
		return r.ContainerID == args.ContainerID && r.IfName == args.IfName
	})
	if own != nil {
		return reservations.remove(own)
	}
	return nil
}
