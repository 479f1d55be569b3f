// sticky-ipam is a CNI IPAM plugin in front of host-local: the sandbox that a pod gets after a
// reboot has the addresses that its first one had, so that EndpointSlices, DNAT rules and DNS
// records that were written before stay right while no cloud can be asked.
//
// The reservation belongs to the pod (K8S_POD_UID), not to its sandbox: DEL frees the interface
// only. A reservation ends when `sticky-ipam gc` was told, by a relay whose stream of pods is
// complete and live, that there is no such pod any more.
//
// In a network's configuration it takes host-local's place, with all of its fields:
//
//	"ipam": {"type": "sticky-ipam", "subnet": "10.244.1.0/24", "sticky": {"stateDir": "/var/lib/relay-sidecar/cni"}}
//
// https://www.cni.dev/docs/spec/, https://www.cni.dev/plugins/current/ipam/host-local/
package main

import (
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
)

const about = "sticky-ipam: a pod keeps its addresses; in front of host-local"

func main() {
	if os.Getenv("CNI_COMMAND") == "" && len(os.Args) > 1 {
		if err := command(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "sticky-ipam:", err)
			os.Exit(2)
		}
		return
	}
	skel.PluginMainFuncs(
		skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status, GC: collect},
		version.All, about,
	)
}
