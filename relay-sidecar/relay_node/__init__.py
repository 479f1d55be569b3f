"""What a node needs around the relay, done by commands that end: never imported by the relay.

commands/    `relay-sidecar node …` and `relay-sidecar in-cluster`
installer/   `node install`, `uninstall`, `snapshot`: files and units, changed and taken back
doctor/      `node doctor`, `node status`: what would fail at a reboot now
in_cluster/  the directory that in-cluster clients of a pod read
file_state   what lies at a path: kept, changed, put back, written whole
identity     whose certificate kubelet's kubeconfig has
kubelet_api  requests as kubelet sends them
ipam_gc      when the reserved addresses of pods end
"""

from typing import Final

# What clients of a cluster call the API server, and a node itself: of the relay's certificates.
NAMES: Final = ("kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost")
ADDRESSES: Final = ("127.0.0.1", "::1")
