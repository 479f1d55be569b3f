"""What is known of a node. `Unknown`: it could not be looked at, and why."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from edge_sidecars.apimachinery.selection.fields import FieldSelector
from relay_sidecar.node.doctor.pods import Pod


@dataclass(frozen=True)
class Unknown:
    why: str


class _Struct(msgspec.Struct, rename="camel"):
    pass


class Link(_Struct):
    is_up: bool
    state: Literal["up", "unauthorized", "relayed", "down"]


class JournalState(_Struct):
    directory: str | None
    failure: str | None


class SecretsState(_Struct):
    is_kept: bool
    failure: str | None


class KeptToken(_Struct):
    namespace: str
    service_account: str
    pod_uid: str = msgspec.field(name="podUID")
    audiences: tuple[str, ...]
    expiration_seconds: int | None


class Stream(_Struct):
    """`resource_version` None: not listed yet."""

    resource: str
    namespace: str
    field_selector: str
    objects: int
    resource_version: str | None


class Relay(_Struct):
    """What is needed of its /status."""

    lack: str | None
    link: Link
    journal: JournalState
    secrets: SecretsState
    tokens: tuple[KeptToken, ...]
    streams: tuple[Stream, ...]

    def streams_by_name(self, resource: str) -> dict[tuple[str, str], Stream]:
        """Those by name, by namespace and name."""
        found = {}
        for stream in self.streams:
            if stream.resource == resource and stream.namespace:
                name = FieldSelector.parse(stream.field_selector).exact("metadata.name")
                found[stream.namespace, name or ""] = stream
        return found


class Reservation(msgspec.Struct, frozen=True):
    """As `sticky-ipam list` has it; `uid` "" where the runtime did not name it."""

    addresses: list[str]
    uid: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Certificate:
    """The node's; Unix times."""

    not_before: float
    not_after: float


@dataclass(frozen=True)
class Kubeconfig:
    """Kubelet's; `is_by_relay`: its server is the relay."""

    path: Path
    server: str
    is_by_relay: bool


@dataclass(frozen=True)
class Deviation:
    """A file that is not as it was installed; `backup`: of what was before, None for nothing."""

    path: Path
    backup: Path | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of one node. `images`: their full names, None where nobody lists all of them;
    `reservations`: None where the pods' network is not sticky-ipam's; `upstream_time`: Unix time of
    the API server, None where it was not heard; `filesystem`: of the relay's data directory;
    `outdated`: files of which the snapshot is missing or old."""

    now: float
    relay: Relay | Unknown
    pods: Sequence[Pod] | Unknown
    images: Collection[str] | None
    reservations: Sequence[Reservation] | Unknown | None
    certificate: Certificate
    upstream_time: float | None
    kubeconfig: Kubeconfig
    filesystem: str
    outdated: Sequence[Path]
    deviations: Sequence[Deviation]
