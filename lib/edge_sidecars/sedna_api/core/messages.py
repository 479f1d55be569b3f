"""The messages of the stream between GM and LC, as values. See stream.proto for what each means.

Knows nothing of their bytes on the wire: that is `stream_codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import Report


@dataclass(frozen=True, slots=True)
class Hello:
    """`known`: by kind, the highest resourceVersion of what LC was given, or at which one left."""

    node: str
    store_id: str
    known: Mapping[str, int]
    version: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    document: Document


@dataclass(frozen=True, slots=True)
class Delete:
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class SnapshotEnd:
    """Whatever was not put since the hello is gone."""


@dataclass(frozen=True, slots=True)
class Ack:
    """This report, and those of the same object and store with a lower seq, are safe."""

    store_id: str
    uid: str
    seq: int


@dataclass(frozen=True, slots=True)
class ReportRefused:
    """GM never takes this report."""

    store_id: str
    uid: str
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Redial now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """The snapshot that follows holds whatever the versions are."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Spread the next dial over so many seconds: as many LCs as there are would come with it."""

    seconds: float


FromNode: TypeAlias = Hello | Report
ToNode: TypeAlias = Put | Delete | SnapshotEnd | Ack | ReportRefused | Drain | Rewound | Pace
