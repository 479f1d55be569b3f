"""What a node tells of itself to `node doctor` and `node status`: its files, the relay, the API by
way of the relay. Changes nothing."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.kubeapi.kubeconfig_file import KubeContext
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables
from edge_sidecars.runtime.cli.status_command import StatusDocument, connection_to
from edge_sidecars.runtime.cli.values import Address, BadInput, address
from relay_sidecar.config import DEFAULT_LISTEN, DEFAULT_STATUS_LISTEN
from relay_sidecar.node.doctor.facts import (
    Certificate,
    Deviation,
    Facts,
    Kubeconfig,
    Relay,
    Reservation,
    Unknown,
)
from relay_sidecar.node.doctor.pods import Pod, images_of, pods_of
from relay_sidecar.node.identity import context_of, identity_of
from relay_sidecar.node.installer import cni, snapshot, units
from relay_sidecar.node.installer.installation import Installation
from relay_sidecar.node.installer.kubelet import leads_to
from relay_sidecar.node.kubelet_api import PODS, KubeletApi, NodeAnswer, node_of

# Seconds, of one call of `sticky-ipam list`.
TIMEOUT: Final = 10.0
MOUNTS: Final = Path("/proc/self/mountinfo")
_STATUS: Final = StatusDocument("relay", "the relay", frozenset({"link", "journal", "streams"}))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a node has what is looked at. `root`: before the paths of units and snapshots."""

    root: Path
    data_dir: Path
    kubeconfig: Path
    listen: Address
    status_url: str
    cni_folder: Path
    sticky_ipam: Path
    proxies: ProxyVariables = NO_PROXIES

    @property
    def installation(self) -> Installation:
        return Installation(self.root, self.data_dir)


def installed_flag(root: Path, name: str) -> str | None:
    """Of the relay's unit; None where there is none, or no such flag."""
    unit = root / (units.FOLDER / units.RELAY).relative_to("/")
    return units.flag_of(unit.read_text(), name) if unit.is_file() else None


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
    own = identity_of(context, places.kubeconfig)
    relay = _relay(status_of(places.status_url))
    api = KubeletApi(places.kubeconfig, command="doctor", proxies=places.proxies)
    asked = asyncio.run(_asked(api, node=node_of(own.user)))
    return Facts(
        now=time.time(),
        relay=relay,
        pods=asked.pods,
        images=asked.images,
        reservations=_reservations(places),
        certificate=Certificate(own.not_before, own.not_after),
        upstream_time=asked.upstream_time,
        kubeconfig=kubeconfig_of(places, context),
        filesystem=_filesystem(relay, MOUNTS.read_text()),
        outdated=snapshot.outdated(places.root, places.data_dir),
        deviations=list(_deviations(places.installation)),
    )


def kubeconfig_of(places: Places, context: KubeContext | None = None) -> Kubeconfig:
    """Raises `BadInput`."""
    server = (context or context_of(places.kubeconfig)).server
    is_by_relay = leads_to(server, places.listen.dialled)
    return Kubeconfig(places.kubeconfig, server, is_by_relay)


# ── files ──


def _filesystem(relay: Relay | Unknown, mounts: str) -> str:
    directory = None if isinstance(relay, Unknown) else relay.journal.directory
    return "" if directory is None else filesystem_of(Path(directory).resolve(), mounts)


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


def _deviations(installation: Installation) -> Iterator[Deviation]:
    for change in installation.deviating():
        backup = installation.backup(change) if change.backup else None
        yield Deviation(change.path, backup)


def _reservations(places: Places) -> Sequence[Reservation] | Unknown | None:
    default = places.data_dir / cni.STATE
    state_dir = cni.reservations(places.cni_folder, state_dir=default)
    if state_dir is None:
        return None
    command = [str(places.sticky_ipam), "list", f"--state-dir={state_dir}"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
        return msgspec.json.decode(done.stdout, type=list[Reservation])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = " ".join(str(getattr(error, "stderr", "") or error).split())
        return Unknown(f"{' '.join(command)}: {why}")


# ── the relay, and the API ──


def _relay(told: Mapping[str, Any] | Unknown) -> Relay | Unknown:
    if isinstance(told, Unknown):
        return told
    try:
        return msgspec.convert(told, Relay)
    except msgspec.ValidationError as error:
        return Unknown(f"its /status is of another version ({error}): restart it")


@dataclass(frozen=True)
class _Asked:
    pods: Sequence[Pod] | Unknown
    images: frozenset[str] | None
    upstream_time: float | None


async def _asked(api: KubeletApi, *, node: str) -> _Asked:
    try:
        async with api:
            review = await api.who_am_i()
            pods = await api.ask("GET", PODS + node)
            own = await api.ask("GET", f"/api/v1/nodes/{node}")
    except Unreachable as error:
        return _Asked(Unknown(str(error)), None, None)
    upstream_time = review.date if review.is_success and review.is_live else None
    images = images_of(own.body) if own.is_success else None
    return _Asked(_pods(pods), images, upstream_time)


def _pods(answer: NodeAnswer) -> Sequence[Pod] | Unknown:
    if answer.is_success:
        return pods_of(answer.body)
    try:
        why = json.loads(answer.body)["message"]
    except (ValueError, TypeError, KeyError):
        why = "no Status"
    return Unknown(f"{answer.status}: {why}")
