"""What still needs the relay, or sticky-ipam, once both are taken back.

The containers of pods outlive an installation: their networks were made by sticky-ipam, and its
name is in what the runtime keeps to end them (libcni's results, flannel's copies) and in what
flannel's DaemonSet writes. Guarantee: while any of them names the plugin, it stays where it is; it
passes all on to host-local then.
"""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.formats.yaml_text import parsed
from relay_node.file_state import FileChange, read_regular
from relay_node.installer import cni
from relay_node.installer.installation import Installation

# libcni (defaultCacheDir) and flannel's plugin (stateDir), for containers that run.
CACHES: Final = (Path("/var/lib/cni/results"), Path("/var/lib/cni/cache/results"))
FLANNEL_STATE: Final = Path("/var/lib/cni/flannel")
# One folder for each pod of the node, as kubelet makes and removes them: NAMESPACE_NAME_UID.
POD_LOGS: Final = Path("/var/log/pods")
# DaemonSets of manifests/overlays/node, and what they are for.
OVERLAY: Final = {
    "kube-proxy-relay": "overlays/node/kube-proxy",
    "kube-flannel-relay": "overlays/node/kube-flannel",
    "coredns-node": "overlays/node",
}
LABEL: Final = "edge-sidecars.io/relay"
KUBELET_CONFIG: Final = Path("/var/lib/kubelet/config.yaml")
_NAME: Final = cni.STICKY.encode()


@dataclass(frozen=True)
class Leftovers:
    """`naming`: files that name sticky-ipam; `pods`: of the overlay; `dns_file`: kubelet's
    configuration, where its clusterDNS is `address`; `address`: of --pod-listen, "" where there was
    none."""

    naming: list[Path]
    pods: list[str]
    dns_file: Path | None
    address: str

    @property
    def needs_address(self) -> bool:
        """Whether somebody on the node still speaks to it."""
        return bool(self.address) and (self.dns_file is not None or "coredns-node" in self.pods)


def look(installation: Installation, *, address: str, kubelet_config: Path | None) -> Leftovers:
    """`address`: as in `Leftovers`; `kubelet_config`: None where it is not known."""
    path = kubelet_config or KUBELET_CONFIG
    has_dns = bool(address) and _names_dns(installation.on_node(path), address)
    return Leftovers(
        naming=naming(installation),
        pods=sorted(set(_pods(installation.on_node(POD_LOGS)))),
        dns_file=path if has_dns else None,
        address=address,
    )


def naming(installation: Installation) -> list[Path]:
    """Files of the node that name sticky-ipam; of a configuration that this installation changed
    counts what it was before."""
    found = []
    for file in cni.configurations(installation.on_node(cni.CONFIGURATIONS)):
        path = cni.CONFIGURATIONS / file.name
        if _NAME in (installation.original(path) or b""):
            found.append(path)
    for folder in (*CACHES, FLANNEL_STATE):
        on_node = installation.on_node(folder)
        files = sorted(on_node.iterdir()) if on_node.is_dir() else []
        found += [folder / file.name for file in files if _names_plugin(file)]
    return found


def kept_plugin(installation: Installation) -> list[FileChange]:
    """The changes with which the plugin that is installed stays, as long as it is named."""
    if cni.BINARY not in installation.recorded() or not naming(installation):
        return []
    content = installation.on_node(cni.BINARY).read_bytes()
    return [FileChange(cni.PASSTHROUGH, b""), FileChange(cni.BINARY, content, 0o755)]


def remedies(found: Leftovers, node: str) -> list[str]:
    """One line for each thing that is left to be done, with what it is for."""
    return [*_of_pods(found, node), *_of_dns(found), *_of_plugin(found)]


def _of_pods(found: Leftovers, node: str) -> Iterator[str]:
    if not found.pods:
        return
    folders = sorted({OVERLAY[name] for name in found.pods})
    yield (
        f"{', '.join(found.pods)} run here and ask the relay: take the label off "
        f"(kubectl label node {node} {LABEL}-), which ends them, and the cluster's own kube-proxy "
        "and flannel start; after the last such node take away manifests/"
        f"{', manifests/'.join(folders)} and the patch of other-nodes.yaml"
    )


def _of_dns(found: Leftovers) -> Iterator[str]:
    if found.dns_file is not None:
        yield (
            f"{found.dns_file} has clusterDNS {found.address}, where CoreDNS of the overlay "
            "answers: put back the cluster's own (kubectl get service kube-dns -n kube-system), "
            "restart kubelet, and make the pods anew that have the old one"
        )
    if found.needs_address:
        yield (
            f"{found.address} stays on lo as long as DNS is asked there; a reboot takes it away: "
            "`relay-sidecar node uninstall` again removes it"
        )


def _of_plugin(found: Leftovers) -> Iterator[str]:
    if not found.naming:
        return
    configured = [path for path in found.naming if path.is_relative_to(cni.CONFIGURATIONS)]
    others = len(found.naming) - len(configured)
    whom = [str(path) for path in configured]
    whom += [f"{others} running sandboxes"] if others else []
    remedy = (
        'take "ipam" out of cni-conf.json in the ConfigMap kube-flannel-cfg, and '
        if configured
        else ""
    )
    yield (
        f"{cni.BINARY} stays, and passes all on to host-local, as long as it is named by "
        f"{' and '.join(whom)}: {remedy}run `relay-sidecar node uninstall` again once the pods of "
        "now have ended"
    )


def _names_plugin(file: Path) -> bool:
    """libcni has the configuration in base64, in a field of JSON."""
    try:
        content = read_regular(file)
    except OSError:
        return False
    if _NAME in content:
        return True
    try:
        return _NAME in base64.b64decode(json.loads(content)["config"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _pods(folder: Path) -> Iterator[str]:
    for entry in folder.iterdir() if folder.is_dir() else ():
        name = entry.name.split("_")[1] if entry.name.count("_") >= 2 else ""
        for daemon in OVERLAY:
            if re.fullmatch(rf"{daemon}-[a-z0-9]{{5}}", name):
                yield daemon


def _names_dns(file: Path, address: str) -> bool:
    try:
        content = parsed(read_regular(file).decode())
    except (OSError, ValueError):
        return False
    servers = content.get("clusterDNS") if isinstance(content, dict) else None
    return isinstance(servers, list) and address in servers
