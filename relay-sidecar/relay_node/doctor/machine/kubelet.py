"""Kubelet's command line and configuration, as its next start would read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_sidecars.apimachinery.merge_patch import merge_objects
from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.formats.yaml_text import parsed
from relay_node.doctor.machine.runtime import SOCKET
from relay_node.doctor.machine.unit_files import Command, Disk
from relay_node.file_state import read_regular

KIND: Final = "KubeletConfiguration"
# Files that it does not start without, as its configuration names them.
_FILES: Final = (
    *(("authentication", "x509", "clientCAFile"), ("tlsCertFile",), ("tlsPrivateKeyFile",)),
)
_RESOLVERS: Final = "/etc/resolv.conf"


@dataclass(frozen=True)
class Kubelet:
    """`lacks`: why it does not start, or starts no pod. `files`: which it reads as it starts;
    `swap`: what a boot swaps to, "" where nothing, or where it starts all the same."""

    kubeconfig: Path | None
    has_bootstrap: bool
    socket: str
    cluster_dns: tuple[str, ...]
    files: tuple[Path, ...]
    lacks: tuple[str, ...]
    swap: str = ""


def read_kubelet(command: Command, disk: Disk) -> Kubelet:
    named = command.flag("--config")
    lacks: list[str] = []
    content: dict[str, Any] = {}
    folder = command.flag("--config-dir")
    if folder and not disk.at(folder).is_dir():
        lacks.append(f"--config-dir={folder} does not exist")
    drop_ins = _drop_ins(Path(folder), disk) if folder else []
    for flag, path in (("--config", named), *(("--config-dir", it) for it in drop_ins)):
        if path is None:
            continue
        try:
            content = merge_objects(content, _configuration(path, disk))
        except ValueError as error:
            lacks.append(f"{flag}={path}: {error}")
    dns, socket = content.get("clusterDNS"), content.get("containerRuntimeEndpoint")
    flags = {name: command.flag(name) for name in ("--cluster-dns", "--container-runtime-endpoint")}
    if flags["--cluster-dns"]:
        dns = flags["--cluster-dns"].split(",")
    socket = flags["--container-runtime-endpoint"] or socket or SOCKET
    lacks += _missing(content, disk)
    kubeconfig = command.flag("--kubeconfig")
    files = [Path(named)] if named else []
    return Kubelet(
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        has_bootstrap=bool(command.flag("--bootstrap-kubeconfig")),
        socket=str(socket).removeprefix("unix://"),
        cluster_dns=tuple(map(str, dns)) if isinstance(dns, list) else (),
        files=(*files, *map(Path, drop_ins)),
        lacks=tuple(lacks),
        swap="" if command.flag("--fail-swap-on") == "false" else _swap(content, disk),
    )


def _drop_ins(folder: Path, disk: Disk) -> list[str]:
    """In the order in which kubelet lays them over its configuration (cmd/kubelet/app,
    mergeKubeletConfigurations): also of folders in it, and not of links to folders."""
    top = disk.at(folder)
    found = [it.relative_to(top) for it in top.rglob("*.conf") if not it.is_dir()]
    return [str(folder / it) for it in sorted(found, key=lambda it: it.parts)]


def _configuration(path: str, disk: Disk) -> dict[str, Any]:
    """Raises ValueError, in one line."""
    try:
        content = parsed(read_regular(disk.at(path)).decode())
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except ValueError as error:
        raise ValueError(describe_failure(error)) from error
    if not (isinstance(content, dict) and content.get("kind") == KIND):
        raise ValueError(f"it is no {KIND}")
    return content


def _swap(content: Mapping[str, Any], disk: Disk) -> str:
    """As fstab(5) has it."""
    lines = (line.split() for line in (disk.text("/etc/fstab") or "").splitlines())
    found = (it[0] for it in lines if it[2:3] == ["swap"] and "noauto" not in "".join(it[3:4]))
    fails = content.get("failSwapOn", True) is not False
    return next((it for it in found if fails and not it.startswith("#")), "")


def _missing(content: Mapping[str, Any], disk: Disk) -> Iterator[str]:
    for names in _FILES:
        path: Any = content
        for name in names:
            path = path.get(name) if isinstance(path, dict) else None
        if isinstance(path, str) and path and not disk.at(path).is_file():
            yield f"{path}, its {names[-1]}, does not exist"
    resolvers = content.get("resolvConf", _RESOLVERS)
    if resolvers and not disk.at(str(resolvers)).is_file():
        yield f"{resolvers}, its resolvConf, does not exist: no pod starts without it"
