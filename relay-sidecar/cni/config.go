package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"

	"github.com/containernetworking/cni/pkg/types"
)

const (
	defaultStateDir = "/var/lib/relay-sidecar/cni"
	defaultDelegate = "host-local"
	// host-local's own default: backend/disk/backend.go.
	defaultDataDir = "/var/lib/cni/networks"
)

// What becomes a part of a file's name. CNI's network names are a subset of the first.
var (
	safeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	safeUID  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9-]*$`)
)

// netConf is what sticky-ipam reads of a network's configuration; all of it travels on to the
// delegate.
type netConf struct {
	CNIVersion    string `json:"cniVersion"`
	Name          string `json:"name"`
	IPAM          ipam   `json:"ipam"`
	RuntimeConfig struct {
		IPs []string `json:"ips"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			IPs []string `json:"ips"`
		} `json:"cni"`
	} `json:"args"`
	raw map[string]json.RawMessage
}

type ipam struct {
	Type    string    `json:"type"`
	Subnet  string    `json:"subnet"`
	Ranges  [][]cidr  `json:"ranges"`
	DataDir string    `json:"dataDir"`
	Sticky  stickyOps `json:"sticky"`
}

type cidr struct {
	Subnet string `json:"subnet"`
}

// stickyOps are the options of sticky-ipam itself.
type stickyOps struct {
	// StateDir is on a disk that a reboot keeps.
	StateDir string `json:"stateDir"`
	Delegate string `json:"delegate"`
}

// podArgs are what a runtime of Kubernetes says of the pod in CNI_ARGS.
type podArgs struct {
	types.CommonArgs
	IP                types.UnmarshallableString
	K8S_POD_NAMESPACE types.UnmarshallableString
	K8S_POD_NAME      types.UnmarshallableString
	K8S_POD_UID       types.UnmarshallableString
}

func parseConf(stdin []byte) (*netConf, error) {
	conf := &netConf{}
	if err := json.Unmarshal(stdin, conf); err != nil {
		return nil, fmt.Errorf("the network configuration is no JSON that CNI knows: %w", err)
	}
	if err := json.Unmarshal(stdin, &conf.raw); err != nil {
		return nil, err
	}
	if !safeName.MatchString(conf.Name) {
		return nil, fmt.Errorf("network name %q: use letters, digits, '_', '.' and '-'", conf.Name)
	}
	sticky := &conf.IPAM.Sticky
	if sticky.StateDir == "" {
		sticky.StateDir = defaultStateDir
	}
	if !filepath.IsAbs(sticky.StateDir) {
		return nil, fmt.Errorf("ipam.sticky.stateDir %q: name an absolute path", sticky.StateDir)
	}
	if sticky.Delegate == "" {
		sticky.Delegate = defaultDelegate
	}
	if sticky.Delegate == conf.IPAM.Type {
		return nil, fmt.Errorf("ipam.sticky.delegate %q is this plugin: name host-local", sticky.Delegate)
	}
	if conf.IPAM.DataDir == "" {
		conf.IPAM.DataDir = defaultDataDir
	}
	return conf, nil
}

// podOf names the pod: by its uid, else by namespace and name; "" for what is no pod.
func podOf(args string) (key string, pod podArgs, err error) {
	pod.IgnoreUnknown = true
	if err := types.LoadArgs(args, &pod); err != nil {
		return "", pod, fmt.Errorf("CNI_ARGS %q: %w", args, err)
	}
	uid, namespace, name := string(pod.K8S_POD_UID), string(pod.K8S_POD_NAMESPACE), string(pod.K8S_POD_NAME)
	switch {
	case uid != "":
		if !safeUID.MatchString(uid) {
			return "", pod, fmt.Errorf("K8S_POD_UID %q is no uid", uid)
		}
		return uid, pod, nil
	case namespace != "" && name != "":
		if !safeName.MatchString(namespace) || !safeName.MatchString(name) {
			return "", pod, fmt.Errorf("K8S_POD_NAMESPACE %q and K8S_POD_NAME %q name no pod", namespace, name)
		}
		// No uid and no name of Kubernetes contains an underscore.
		return namespace + "_" + name, pod, nil
	}
	return "", pod, nil
}

// asksForAddresses tells whether the caller itself names addresses, which wins over a reservation.
func (conf *netConf) asksForAddresses(pod podArgs) bool {
	return pod.IP != "" || len(conf.RuntimeConfig.IPs)+len(conf.Args.CNI.IPs) > 0
}

// contains tells whether the address is within a configured subnet. Ranges that only the runtime
// names (capability ipRanges) are not known here: then the delegate decides.
func (conf *netConf) contains(address net.IP) bool {
	subnets := []string{conf.IPAM.Subnet}
	for _, set := range conf.IPAM.Ranges {
		for _, each := range set {
			subnets = append(subnets, each.Subnet)
		}
	}
	known := false
	for _, subnet := range subnets {
		if _, network, err := net.ParseCIDR(subnet); err == nil {
			known = true
			if network.Contains(address) {
				return true
			}
		}
	}
	return !known
}

// forDelegate is the configuration as the delegate shall see it, with the addresses that are
// asked for.
func (conf *netConf) forDelegate(addresses []string) ([]byte, error) {
	config := map[string]json.RawMessage{}
	for name, value := range conf.raw {
		config[name] = value
	}
	ipam := map[string]json.RawMessage{}
	if err := json.Unmarshal(conf.raw["ipam"], &ipam); err != nil {
		return nil, err
	}
	delete(ipam, "sticky")
	ipam["type"], _ = json.Marshal(conf.IPAM.Sticky.Delegate)
	var err error
	if config["ipam"], err = json.Marshal(ipam); err != nil {
		return nil, err
	}
	if len(addresses) > 0 {
		args := map[string]any{}
		if conf.raw["args"] != nil {
			if err := json.Unmarshal(conf.raw["args"], &args); err != nil {
				return nil, err
			}
		}
		cni, _ := args["cni"].(map[string]any)
		if cni == nil {
			cni = map[string]any{}
		}
		cni["ips"] = addresses
		args["cni"] = cni
		if config["args"], err = json.Marshal(args); err != nil {
			return nil, err
		}
	}
	return json.Marshal(config)
}
