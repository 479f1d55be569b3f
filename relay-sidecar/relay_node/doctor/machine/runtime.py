"""The container runtime of a node: its configuration, the images that it has, and the networks of
pods that it would choose.

Guarantee: asked is the runtime itself, by the programs that come with it; what these do not tell is
`Unknown`.
"""

import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from relay_node.doctor.machine.unit_files import Disk
from relay_node.doctor.pods import image_name
from relay_node.doctor.unknown import Unknown
from relay_node.file_state import read_regular

# Seconds, of one call of a program.
TIMEOUT: Final = 10.0
CONTAINERD: Final = "containerd.service"
SOCKET: Final = "/run/containerd/containerd.sock"
# Units by a part of the socket's name.
_UNITS: Final = {
    "containerd": CONTAINERD,
    "crio": "crio.service",
    "cri-dockerd": "cri-docker.service",
}
_IMAGES, _RUNTIME = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"
# Of containerd 1.
_FORMER: Final = "io.containerd.grpc.v1.cri"
_FLANNEL, _STICKY = "flannel", "sticky-ipam"
# What is called where nothing else is named: flannel's meta plugin, and its addresses.
_BRIDGE, _HOST_LOCAL, _LOOPBACK = "bridge", "host-local", "loopback"


@dataclass(frozen=True)
class Runtime:
    """containerd's configuration, as a start would read it."""

    sandbox_image: str
    folder: Path
    plugin_folders: tuple[Path, ...]
    networks_folder: Path
    max_networks: int
    needs_loopback: bool

    @property
    def own_plugins(self) -> tuple[str, ...]:
        """Which it calls for each pod, whatever the network."""
        return (_LOOPBACK,) if self.needs_loopback else ()


@dataclass(frozen=True)
class Network:
    """One configuration of CNI that the runtime takes. `failure`: why it cannot be used, or "";
    `plugins`: names of all that it calls."""

    path: Path
    plugins: tuple[str, ...]
    failure: str = ""


def unit_of(socket: str) -> str | None:
    """Of the runtime at a socket; None where it is an unknown one."""
    return next((unit for part, unit in _UNITS.items() if part in Path(socket).name), None)


def read_runtime(program: str, configuration: str | None, disk: Disk) -> Runtime | Unknown:
    """By `containerd config dump`; `configuration`: its --config."""
    command = [str(disk.at(program))]
    command += ["--config", str(disk.at(configuration))] if configuration else []
    told = _output([*command, "config", "dump"])
    if isinstance(told, Unknown):
        return told
    try:
        return _runtime(tomllib.loads(told))
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError) as error:
        return Unknown(f"`{program} config dump`: {error}")


def read_images(socket: str) -> frozenset[str] | Unknown:
    """Full names of all that containerd has. Without the names that are a digest alone: kubelet
    asks for an image as the pod names it."""
    told = _output(["ctr", f"--address={socket}", "--namespace=k8s.io", "images", "ls", "-q"])
    if isinstance(told, Unknown):
        return told
    return frozenset(image_name(it) for it in told.split() if not it.startswith("sha256:"))


def networks(folder: Path, most: int, disk: Disk) -> list[Network] | Unknown:
    """In the order of their names, `most` of them, 0 for all; go-cni ends at the first that it
    cannot read."""
    try:
        names = sorted(
            each.name
            for each in disk.at(folder).iterdir()
            if each.suffix in (".conf", ".conflist", ".json")
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        return Unknown(f"{folder}: {error.strerror or error}")
    return [_network(folder / name, disk) for name in (names[:most] if most else names)]


# ── containerd ──


def _runtime(content: Mapping[str, Any]) -> Runtime:
    plugins: Mapping[str, Any] = content.get("plugins", {})
    former = plugins.get(_FORMER, {})
    own = plugins.get(_RUNTIME, former)
    cni = own.get("cni", {})
    images = plugins.get(_IMAGES, {})
    sandbox = images.get("pinned_images", {}).get("sandbox") or former.get("sandbox_image") or ""
    folders = cni.get("bin_dirs") or [cni.get("bin_dir") or "/opt/cni/bin"]
    return Runtime(
        sandbox_image=str(sandbox),
        folder=Path(content.get("root") or "/var/lib/containerd"),
        plugin_folders=tuple(Path(each) for each in folders),
        networks_folder=Path(cni.get("conf_dir") or "/etc/cni/net.d"),
        max_networks=int(cni.get("max_conf_num", 1)),
        needs_loopback=not cni.get("use_internal_loopback", False),
    )


def _output(command: Sequence[str]) -> str | Unknown:
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=TIMEOUT
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return Unknown(f"`{' '.join(command)}`: {said[-1] if said else error}")
    return done.stdout


# ── networks ──


def _network(path: Path, disk: Disk) -> Network:
    try:
        content = json.loads(read_regular(disk.at(path)))
    except (OSError, ValueError, RecursionError) as error:
        return Network(path, (), f"it cannot be read: {error}")
    if not isinstance(content, dict):
        return Network(path, (), "it is no object")
    plugins = content.get("plugins", []) if path.suffix == ".conflist" else [content]
    if not isinstance(plugins, list) or not plugins:
        return Network(path, (), "it names no plugin")
    found: dict[str, None] = {}
    for plugin in plugins:
        if not (isinstance(plugin, dict) and isinstance(plugin.get("type"), str)):
            return Network(path, (), "one of its plugins has no type")
        found |= dict.fromkeys(_called(plugin))
    return Network(path, tuple(found))


def _called(plugin: Mapping[str, Any]) -> Iterator[str]:
    """The plugin itself, and what it calls."""
    kind = plugin["type"]
    yield kind
    ipam = plugin.get("ipam")
    addresses = ipam.get("type", "") if isinstance(ipam, dict) else ""
    if kind == _FLANNEL:
        delegate = plugin.get("delegate")
        yield (delegate.get("type") if isinstance(delegate, dict) else None) or _BRIDGE
        addresses = addresses or _HOST_LOCAL
    if isinstance(addresses, str) and addresses:
        yield addresses
    if addresses == _STICKY:
        yield _HOST_LOCAL
