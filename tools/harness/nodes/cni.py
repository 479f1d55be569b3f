"""The CNI plugins: the project's sticky-ipam, and host-local, in front of which it stands."""

from functools import cache
from pathlib import Path

from tools.harness.controlplane.build import Program, program_binary
from tools.harness.peers.build import local_binary

CNI_SOURCE = Path(__file__).parents[3] / "relay-sidecar" / "cni"
PLUGINS_VERSION = "v1.9.1"
_PLUGINS = "github.com/containernetworking/plugins"


@cache
def host_local() -> Path:
    """Built first where it is missing. Raises BuildError."""
    package = f"{_PLUGINS}/plugins/ipam/host-local"
    return program_binary(Program("host-local", _PLUGINS, PLUGINS_VERSION, package))


@cache
def sticky_ipam() -> Path:
    """As `host_local`, of the sources in this checkout."""
    return local_binary("sticky-ipam", CNI_SOURCE / "go.mod", version="v0.3")
