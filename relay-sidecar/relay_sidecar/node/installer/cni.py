"""Networks of the node whose pods keep their addresses: sticky-ipam takes host-local's place.

flannel's configuration is written by its own DaemonSet at each start; it is changed there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from relay_sidecar.node.installer.installation import FileChange

CONFIGURATIONS: Final = Path("/etc/cni/net.d")
BINARY: Final = Path("/opt/cni/bin/sticky-ipam")
STATE: Final = Path("cni")  # in the data directory
STICKY: Final = "sticky-ipam"
DELEGATE: Final = "host-local"
FLANNEL: Final = "flannel"


def sticky(path: Path, content: bytes, *, state_dir: Path) -> tuple[FileChange | None, list[str]]:
    """The change of one configuration, and what there is to say about it."""
    try:
        network = json.loads(content)
    except ValueError:
        return None, [f"{path} is no JSON: left as it is"]
    notes: list[str] = []
    changed = False
    for plugin in _plugins(network):
        ipam = plugin.get("ipam", {})
        kind = ipam.get("type")
        if plugin.get("type") == FLANNEL and kind != STICKY:
            notes.append(
                f'{path}: flannel writes it itself: add "ipam": {{"type": "{STICKY}"}} to its '
                "plugin in the ConfigMap kube-flannel-cfg, as manifests/overlays/node does"
            )
        elif kind == DELEGATE:
            ipam |= {"type": STICKY, "sticky": {"stateDir": str(state_dir)}}
            changed = True
        elif kind not in (None, STICKY):
            notes.append(
                f"{path}: addresses come from {kind}, before which {STICKY} cannot stand: pods may "
                "come back with other addresses, and services be dead until the link is back"
            )
    if not changed:
        return None, notes
    return FileChange(path, json.dumps(network, indent=2).encode() + b"\n"), notes


def reservations(folder: Path, *, state_dir: Path) -> Path | None:
    """Where the network that pods get has its reservations; None where none are made. Of several
    configurations the runtime takes the first (libcni, and containerd with max_conf_num = 1)."""
    for path in sorted((*folder.glob("*.conflist"), *folder.glob("*.conf"))):
        try:
            network = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        return _reservations(network, state_dir)
    return None


def _reservations(network: Any, state_dir: Path) -> Path | None:
    for plugin in _plugins(network):
        ipam = plugin.get("ipam", {})
        if ipam.get("type") == STICKY:
            return Path(ipam.get("sticky", {}).get("stateDir", state_dir))
    return None


def _plugins(network: Any) -> Iterator[dict[str, Any]]:
    """Of a list of plugins (.conflist), or the one of a .conf."""
    if isinstance(network, dict):
        plugins = network.get("plugins", [network])
        yield from (each for each in plugins if isinstance(each, dict))
