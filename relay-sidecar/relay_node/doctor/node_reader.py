"""What a node tells of itself to `node doctor` and `node status`: its files, the relay, the API by
way of the relay. Changes nothing."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from edge_sidecars.kubeapi.kubeconfig_file import KubeContext, context_of_texts
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables
from edge_sidecars.runtime.cli.status_command import StatusDocument, connection_to
from edge_sidecars.runtime.cli.values import Address, BadInput, address, describe_failure
from relay_node.doctor.facts import (
    Certificate,
    Deviation,
    Facts,
    KubeconfigFacts,
    Relay,
    Reservation,
)
from relay_node.doctor.findings import VOLATILE
from relay_node.doctor.machine.machine import Machine, Sought, read_machine
from relay_node.doctor.machine.runtime import Runtime
from relay_node.doctor.machine.unit_files import Disk
from relay_node.doctor.node_answers import NodeAnswers, ask_all
from relay_node.doctor.unknown import Unknown
from relay_node.file_state import read_regular
from relay_node.identity import Identity, context_of, identity_of
from relay_node.installer import cni, snapshot
from relay_node.installer.installation import Installation
from relay_node.installer.kubelet import leads_to
from relay_node.installer.plan import POD_KUBECONFIG
from relay_node.installer.systemd import units
from relay_node.kubelet_api import KubeletApi, node_of
from relay_sidecar.config import DEFAULT_LISTEN, DEFAULT_STATUS_LISTEN

# Seconds, of one call of `sticky-ipam list`.
TIMEOUT: Final = 10.0
MOUNTS: Final = Path("/proc/self/mountinfo")
_STATUS: Final = StatusDocument("relay", "the relay", frozenset({"link", "journal", "streams"}))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a node has what is looked at. `root`: before the paths of units, configurations and
    snapshots; `cni_folder`: None where it is the one that the runtime names."""

    root: Path
    data_dir: Path
    kubeconfig: Path
    listen: Address
    status_url: str
    cni_folder: Path | None
    sticky_ipam: Path
    proxies: ProxyVariables = NO_PROXIES

    @property
    def installation(self) -> Installation:
        return Installation(self.root, self.data_dir)


def installed_flag(root: Path, name: str) -> str | None:
    """Of the relay's unit; None where there is none, or no such flag."""
    unit = root / (units.FOLDER / units.RELAY).relative_to("/")
    return units.flag_of(unit.read_text(errors="replace"), name) if unit.is_file() else None


def listen_of(root: Path) -> Address:
    """Where the relay that is installed serves kubelet."""
    return address(installed_flag(root, "--listen") or DEFAULT_LISTEN)


def status_url_of(root: Path) -> str:
    told = installed_flag(root, "--status-listen") or DEFAULT_STATUS_LISTEN
    return f"http://{address(told).dialled}"


def status_of(url: str) -> dict[str, Any] | Unknown:
    """The relay's /status. Raises `BadInput` for a URL that is none."""
    try:
        return _STATUS.ask(connection_to(url, like=f"http://{DEFAULT_STATUS_LISTEN}"), url)
    except BadInput:
        raise
    except ValueError as error:
        return Unknown(str(error))


def collect(places: Places) -> Facts:
    """Raises `BadInput`, where a file that is named cannot be used."""
    context = context_of(places.kubeconfig)
    own = _identity(context, places.kubeconfig)
    machine = read_machine(Sought(root=places.root, networks=places.cni_folder))
    # Before anything is asked: what a question teaches the relay is not what it had.
    relay = _relay(status_of(places.status_url))
    node = "" if isinstance(own, Unknown) else node_of(own.user)
    if isinstance(own, Unknown):
        asked = NodeAnswers(pods=own)
    else:
        api = KubeletApi(places.kubeconfig, command="doctor", proxies=places.proxies)
        asked = asyncio.run(ask_all(api, node=node, relay=relay, resolvers=_resolvers(machine)))
    mounts = MOUNTS.read_text()
    return Facts(
        now=time.time(),
        node=node,
        machine=machine,
        relay=relay,
        pods=asked.pods,
        names=asked.names,
        volumes=asked.volumes,
        images=asked.images,
        reservations=_reservations(places, machine),
        certificate=own if isinstance(own, Unknown) else Certificate(own.not_before, own.not_after),
        upstream_time=asked.upstream_time,
        kubeconfig=replace(
            kubeconfig_of(places, context), other=_other_kubeconfig(places, machine)
        ),
        filesystem=_filesystem(relay, mounts),
        volatile=_volatile(places, machine, context, mounts),
        pod_kubeconfig=places.data_dir / POD_KUBECONFIG,
        pod_kubeconfig_lack=_pod_kubeconfig_lack(places),
        outdated=snapshot.outdated(places.root, places.data_dir),
        deviations=list(_deviations(places.installation)),
    )


def _identity(context: KubeContext, kubeconfig: Path) -> Identity | Unknown:
    """Unknown where the file with the certificate is gone: kubelet does not start then."""
    path = None if context.pair is None else context.pair[0].path
    if path is not None and not path.exists():
        return Unknown(f"{path}, which {kubeconfig} names, does not exist")
    return identity_of(context, kubeconfig)


def _other_kubeconfig(places: Places, machine: Machine) -> Path | None:
    settings = machine.kubelet_settings
    named = None if settings is None else settings.kubeconfig
    if named is None or Disk(places.root).at(named) == _real(places.kubeconfig):
        return None
    return named


def _resolvers(machine: Machine) -> list[str]:
    """Addresses at which pods ask for names, but for those that the relay's unit sets."""
    own = () if machine.start is None else machine.start.addresses
    settings = machine.kubelet_settings
    return [] if settings is None else [it for it in settings.cluster_dns if it not in own]


def kubeconfig_of(places: Places, context: KubeContext | None = None) -> KubeconfigFacts:
    """Raises `BadInput`."""
    server = (context or context_of(places.kubeconfig)).server
    is_by_relay = leads_to(server, places.listen.dialled)
    return KubeconfigFacts(places.kubeconfig, server, is_by_relay)


# ── files ──


def _filesystem(relay: Relay | Unknown, mounts: str) -> str:
    directory = None if isinstance(relay, Unknown) else relay.journal.directory
    return "" if directory is None else filesystem_of(_real(Path(directory)), mounts)


def _volatile(
    places: Places, machine: Machine, context: KubeContext, mounts: str
) -> dict[str, Path]:
    """Of what a start needs beside the relay's data. A key of a systemd credential lies elsewhere
    while the relay runs."""
    start, runtime, disk = machine.start, machine.runtime_settings, Disk(places.root)
    named: dict[str, Path | None] = {
        "kubelet's kubeconfig": places.kubeconfig,
        "the node's certificate": None if context.pair is None else context.pair[0].path,
        "the sealing key": _on(disk, None if start is None else start.keep_secrets),
        "images of pods": _on(disk, runtime.folder if isinstance(runtime, Runtime) else None),
    }
    return {
        what: path
        for what, path in named.items()
        if path is not None and filesystem_of(_real(path), mounts) in VOLATILE
    }


def _real(path: Path) -> Path:
    """Also of links that lead in a circle, of which Path.resolve makes a RuntimeError."""
    return Path(os.path.realpath(path))


def _on(disk: Disk, path: Path | None) -> Path | None:
    return disk.at(path) if path is not None and path.is_absolute() else None


def filesystem_of(path: Path, mounts: str) -> str:
    """The type of the filesystem with `path`. `mounts`: mountinfo of proc(5), in the order of
    mounting, so that the last one of a place covers those before."""
    found = (0, "")
    for line in mounts.splitlines():
        mounted, _, source = line.partition(" - ")
        place = Path(mounted.split()[4].replace("\\040", " "))
        if path.is_relative_to(place):
            found = max((len(place.parts), source.split()[0]), found, key=lambda it: it[0])
    return found[1]


def _pod_kubeconfig_lack(places: Places) -> str:
    path = Disk(places.root).at(places.data_dir / POD_KUBECONFIG)
    try:
        server = context_of_texts({path: read_regular(path).decode()}, None).server
    except (OSError, ValueError) as error:
        return describe_failure(error)
    is_by_relay = leads_to(server, places.listen.dialled)
    return "" if is_by_relay else f"it leads to {server}, not to the relay"


def _deviations(installation: Installation) -> Iterator[Deviation]:
    for change in installation.deviating():
        backup = installation.backup(change) if change.backup else None
        yield Deviation(change.path, backup)


def _reservations(places: Places, machine: Machine) -> Sequence[Reservation] | Unknown | None:
    default = places.data_dir / cni.STATE
    state_dir = cni.reservations(_networks_folder(places, machine), state_dir=default)
    if not machine.networks and default.is_dir():
        # A pod writes the configuration as it starts; what it reserved last is there.
        state_dir = default
    if state_dir is None:
        return None
    command = [str(places.sticky_ipam), "list", f"--state-dir={state_dir}"]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=TIMEOUT
        )
        return msgspec.json.decode(done.stdout, type=list[Reservation])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = " ".join(str(getattr(error, "stderr", "") or error).split())
        return Unknown(f"{' '.join(command)}: {why}")


def _networks_folder(places: Places, machine: Machine) -> Path:
    if places.cni_folder is not None:
        return places.cni_folder
    runtime = machine.runtime_settings
    named = cni.CONFIGURATIONS if isinstance(runtime, Unknown) else runtime.networks_folder
    return Disk(places.root).at(named)


# ── the relay ──


def _relay(told: Mapping[str, Any] | Unknown) -> Relay | Unknown:
    if isinstance(told, Unknown):
        return told
    try:
        return msgspec.convert(told, Relay)
    except msgspec.ValidationError as error:
        return Unknown(f"its /status is of another version ({error}): restart it")
