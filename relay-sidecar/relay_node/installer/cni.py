"""Networks of the node whose pods keep their addresses: sticky-ipam takes host-local's place.

flannel's configuration is written by its own DaemonSet at each start; it is changed there. What the
plugin of a network reads itself before host-local sees it stays as it is.
"""

import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from relay_node.file_state import FileChange, read_regular

CONFIGURATIONS: Final = Path("/etc/cni/net.d")
BINARY: Final = Path("/opt/cni/bin/sticky-ipam")
# While it is there, the plugin passes all on to host-local: relay-sidecar/cni, passthrough.go.
PASSTHROUGH: Final = BINARY.with_name("sticky-ipam.passthrough")
STATE: Final = Path("cni")  # in the data directory
STICKY: Final = "sticky-ipam"
DELEGATE: Final = "host-local"
FLANNEL: Final = "flannel"


def configurations(folder: Path) -> list[Path]:
    """Of a directory, in the order in which runtimes take the first (libcni, ConfFiles)."""
    found = (path for end in ("conflist", "conf", "json") for path in folder.glob(f"*.{end}"))
    return sorted(path for path in found if path.is_file())


def sticky(
    path: Path, content: bytes, *, state_dir: Path, mode: int = 0o644
) -> tuple[FileChange | None, list[str]]:
    """The change of one configuration, and what there is to say about it."""
    try:
        network = json.loads(content)
    except (ValueError, RecursionError):
        return None, [f"{path} is no JSON: left as it is"]
    try:
        plugins = list(_plugins(network))
    except ValueError as error:
        return None, [f"{path} is no network that CNI knows ({error}): left as it is"]
    notes, changed = list[str](), False
    for plugin in plugins:
        ipam = _ipam(plugin)
        kind = ipam.get("type")
        if kind == DELEGATE and _is_read_before(ipam):
            notes.append(
                f"{path}: {plugin.get('type')} fills in the subnet (usePodCidr) for host-local "
                f"alone: {_MOVING}"
            )
        elif kind == DELEGATE:
            plugin["ipam"] = ipam | {"type": STICKY, "sticky": {"stateDir": str(state_dir)}}
            changed = True
        else:
            notes += _note(path, plugin, kind)
    if not changed:
        return None, notes
    return FileChange(path, json.dumps(network, indent=2).encode() + b"\n", mode), notes


_MOVING: Final = (
    "left as it is: its pods may come back with other addresses, and services be dead until the "
    "link is back"
)


def _note(path: Path, plugin: dict[str, Any], kind: Any) -> list[str]:
    name = plugin.get("type")
    if name == FLANNEL and kind != STICKY:
        return [
            f'{path}: flannel writes it itself: add "ipam": {{"type": "{STICKY}"}} to its '
            "plugin in the ConfigMap kube-flannel-cfg, as manifests/overlays/node does"
        ]
    if kind not in (None, STICKY):
        return [f"{path}: addresses come from {kind}, before which {STICKY} cannot be: {_MOVING}"]
    if kind is None and _gives_addresses(name):
        return [f"{path}: {name} gives the addresses itself: {_MOVING}"]
    return []


def _gives_addresses(name: Any) -> bool:
    """Of the network plugins that bring their own: Cilium, and Multus, which asks others."""
    return isinstance(name, str) and name.startswith(("cilium", "multus", "calico", "azure", "aws"))


def _is_read_before(ipam: dict[str, Any]) -> bool:
    """Whether a subnet is a word of the plugin above, like Calico's `usePodCidr`: it replaces it
    only for host-local, and only by this name (cni-plugin, ReplaceHostLocalIPAMPodCIDRs)."""
    ranges = ipam.get("ranges")
    sets = ranges if isinstance(ranges, list) else []
    entries = [ipam, *(each for found in sets if isinstance(found, list) for each in found)]
    subnets = [each.get("subnet") for each in entries if isinstance(each, dict)]
    return any(not _is_network(subnet) for subnet in subnets if subnet is not None)


def _is_network(subnet: object) -> bool:
    try:
        ipaddress.ip_network(str(subnet), strict=False)
    except ValueError:
        return False
    return "/" in str(subnet)


def reservations(folder: Path, *, state_dir: Path) -> Path | None:
    """Where the network that pods get has its reservations; None where none are made. Of several
    configurations the runtime takes the first (libcni, and containerd with max_conf_num = 1)."""
    for path in configurations(folder):
        try:
            plugins = list(_plugins(json.loads(read_regular(path))))
        except (OSError, ValueError, RecursionError):
            continue
        return _reservations(plugins, state_dir)
    return None


def _reservations(plugins: list[dict[str, Any]], state_dir: Path) -> Path | None:
    for plugin in plugins:
        ipam = _ipam(plugin)
        if ipam.get("type") == STICKY:
            own = ipam.get("sticky")
            told = own.get("stateDir") if isinstance(own, dict) else None
            return Path(told) if isinstance(told, str) and told else state_dir
    return None


def _plugins(network: Any) -> Iterator[dict[str, Any]]:
    """Of a list of plugins (.conflist), or the one of a .conf. Raises ValueError."""
    if not isinstance(network, dict):
        raise ValueError("no mapping")
    plugins = network.get("plugins", [network])
    if not isinstance(plugins, list) or not all(isinstance(each, dict) for each in plugins):
        raise ValueError("plugins is no list of mappings")
    yield from plugins


def _ipam(plugin: dict[str, Any]) -> dict[str, Any]:
    found = plugin.get("ipam")
    return found if isinstance(found, dict) else {}
