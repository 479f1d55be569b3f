"""A PoolMember: one node of a pool, as the API has it. Pure.

Owns names, shapes and bounds of the document; the CRD (`manifests/crds/poolmembers.yaml`) has the
same bounds. The controller writes the labels, `spec` and `status.conditions`, the node's own member
everything else of `status`. Guarantees: a field that is missing is as if it were empty; a status
beyond the bounds counts as none at all and is named by `defect`, so that one node's status cannot
stop those who follow the collection. Knows nothing of votes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final, Self

from edge_sidecars.apimachinery.watch_events import decode_object
from edge_sidecars.runtime.formats.rfc1123 import MAX_SUBDOMAIN, is_label

Json = dict[str, Any]

GROUP: Final = "pool.edge-sidecars.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PoolMember"
PATH: Final = f"/apis/{API_VERSION}/poolmembers"
POOL_LABEL: Final = f"{GROUP}/pool"
MAY_LEAD_LABEL: Final = f"{GROUP}/may-lead"
TRUE: Final = "true"

# A full mesh: each member probes all others (pool.md 2).
MAX_MEMBERS: Final = 64
# Dual stack, and a second LAN.
MAX_ADDRESSES: Final = 4
# A key and its successor.
MAX_CERTIFICATES: Final = 2
# Characters; a self-signed P-256 certificate in PEM has about 600.
MAX_CERTIFICATE: Final = 2048
MAX_NAME: Final = MAX_SUBDOMAIN
# Seconds between two reports; the longest that a report may name counts three times.
MAX_EVERY: Final = 60
# etcd's revisions, and all numbers here, are int64.
MAX_NUMBER: Final = 2**63 - 1

_PEM: Final = "-----BEGIN CERTIFICATE-----"


def is_pool_name(text: str) -> bool:
    """Whether it is an RFC 1123 label, which the name of a pool's Lease is made of."""
    return is_label(text)


class OutOfBounds(ValueError):
    """A status that the CRD refuses; the message names the field and its bound."""


def _check(is_within: bool, field: str, bound: str) -> None:
    if not is_within:
        raise OutOfBounds(f"status.{field}: {bound}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    # Of a link-local address: it is this machine's alone.
    return "%" not in text


class Link(StrEnum):
    """How a member reaches the cloud."""

    OWN = "Own"
    LENT = "Lent"
    NONE = "None"


class Verdict(StrEnum):
    """What a member says of another one. A report names no ALIVE one."""

    ALIVE = "Alive"
    DEGRADED = "Degraded"
    SILENT = "Silent"
    NEVER_HEARD = "NeverHeard"


@dataclass(frozen=True, slots=True)
class PeerVerdict:
    """`seconds`: for how long it has been so; `heard`: how many ago the node was heard, where that
    was before the member's start."""

    node: str
    verdict: Verdict
    seconds: int = 0
    heard: int | None = None

    def __post_init__(self) -> None:
        _check(0 < len(self.node) <= MAX_NAME, "report.verdicts.node", f"1-{MAX_NAME} characters")
        _check(self.verdict is not Verdict.ALIVE, "report.verdicts.verdict", "not Alive")
        for name, seconds in (("seconds", self.seconds), ("heardSeconds", self.heard or 0)):
            _check(0 <= seconds <= MAX_NUMBER, f"report.verdicts.{name}", "an int64 from 0")

    def document(self) -> Json:
        document: Json = {"node": self.node, "verdict": self.verdict.value, "seconds": self.seconds}
        return document if self.heard is None else document | {"heardSeconds": self.heard}

    @classmethod
    def decode(cls, found: Any) -> Self:
        document = _object(found, "report.verdicts")
        verdict = _text(document, "verdict")
        _check(verdict in set(Verdict), "report.verdicts.verdict", "a known one")
        has_heard = document.get("heardSeconds") is not None
        heard = _number(document, "heardSeconds") if has_heard else None
        seconds = _number(document, "seconds")
        return cls(_text(document, "node"), Verdict(verdict), seconds, heard)


@dataclass(frozen=True, slots=True)
class Report:
    """`sequence` grows with each; the next one comes within `every` seconds."""

    sequence: int
    every: int
    verdicts: tuple[PeerVerdict, ...] = ()

    def __post_init__(self) -> None:
        _check(0 <= self.sequence <= MAX_NUMBER, "report.sequence", "an int64 from 0")
        _check(1 <= self.every <= MAX_EVERY, "report.every", f"1-{MAX_EVERY}")
        nodes = {it.node for it in self.verdicts}
        _check(len(self.verdicts) < MAX_MEMBERS, "report.verdicts", f"below {MAX_MEMBERS}")
        _check(len(nodes) == len(self.verdicts), "report.verdicts", "one for each node")

    def document(self) -> Json:
        verdicts = [it.document() for it in self.verdicts]
        return {"sequence": self.sequence, "every": self.every, "verdicts": verdicts}

    @classmethod
    def decode(cls, found: Any) -> Self:
        document = _object(found, "report")
        verdicts = tuple(map(PeerVerdict.decode, _array(document, "verdicts")))
        return cls(_number(document, "sequence"), _number(document, "every"), verdicts)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What the member itself writes. `via`: the lender, "" where there is none; `link`: None where
    the member has not written. Raises `OutOfBounds`."""

    addresses: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    link: Link | None = None
    via: str = ""
    report: Report | None = None

    def __post_init__(self) -> None:
        _check(len(self.addresses) <= MAX_ADDRESSES, "addresses", f"at most {MAX_ADDRESSES}")
        _check(all(map(_is_address, self.addresses)), "addresses", "IP addresses")
        count = len(self.certificates)
        _check(count <= MAX_CERTIFICATES, "certificates", f"at most {MAX_CERTIFICATES}")
        for each in self.certificates:
            _check(each.startswith(_PEM), "certificates", "PEM")
            _check(len(each) <= MAX_CERTIFICATE, "certificates", f"{MAX_CERTIFICATE} characters")
        _check(len(self.via) <= MAX_NAME, "via", f"at most {MAX_NAME} characters")

    def document(self) -> Json:
        """The whole of it: what is empty is null, which takes it away in a merge patch."""
        return {
            "addresses": list(self.addresses),
            "certificates": list(self.certificates),
            "link": None if self.link is None else self.link.value,
            "via": self.via or None,
            "report": None if self.report is None else self.report.document(),
        }

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> Self:
        """Raises `OutOfBounds`."""
        link = _text(document, "link")
        _check(link in {"", *Link}, "link", "a known one")
        report = document.get("report")
        return cls(
            addresses=_texts(document, "addresses"),
            certificates=_texts(document, "certificates"),
            link=Link(link) if link else None,
            via=_text(document, "via"),
            report=None if report is None else Report.decode(report),
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """Of the controller's; `since` is its lastTransitionTime, which is only passed on."""

    type: str
    status: str
    reason: str
    message: str
    since: str = ""

    def document(self) -> Json:
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.since,
        }

    @classmethod
    def decode(cls, found: Any) -> Self:
        document = _object(found, "conditions")
        names = ("type", "status", "reason", "message", "lastTransitionTime")
        return cls(*(_text(document, name) for name in names))


@dataclass(frozen=True, slots=True)
class PoolMember:
    """`name` is the node's. `pool`: "" where the node is in none. `is_dead`: `spec.judged` says so;
    `is_lost`: `spec.lost` does, that the API does not hear the node.
    `owner`: the uid of the Node. `defect`: why the status that is in the API does not count."""

    name: str
    uid: str = ""
    resource_version: int = 0
    pool: str = ""
    may_lead: bool = False
    is_dead: bool = False
    owner: str = ""
    status: MemberStatus = MemberStatus()
    conditions: tuple[Condition, ...] = ()
    defect: str = ""
    is_lost: bool = False

    @property
    def key(self) -> str:
        return self.name

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Raises ValueError for what is no object of the API."""
        document = decode_object(raw)
        metadata = _object(document.get("metadata"), "metadata")
        labels = _object(metadata.get("labels"), "metadata.labels")
        owners = _array(metadata, "ownerReferences")
        spec = _object(document.get("spec"), "spec")
        name, version = _text(metadata, "name"), _text(metadata, "resourceVersion")
        if not name or not (version.isascii() and version.isdecimal()):
            raise ValueError(f"a PoolMember without a name or a version: {raw[:80]!r}")
        status, conditions, defect = _status(document.get("status"))
        return cls(
            name=name,
            uid=_text(metadata, "uid"),
            resource_version=int(version),
            pool=_text(labels, POOL_LABEL),
            may_lead=labels.get(MAY_LEAD_LABEL) == TRUE,
            is_dead=spec.get("judged") == "Dead",
            owner=next((_text(_object(it, "owner"), "uid") for it in owners), ""),
            status=status,
            conditions=conditions,
            defect=defect,
            is_lost=spec.get("lost") is True,
        )


def status_patch(status: MemberStatus) -> bytes:
    """A merge patch of `PATH/<node>/status`: the member's whole status, and no condition."""
    return json.dumps({"status": status.document()}, separators=(",", ":")).encode()


def _status(found: Any) -> tuple[MemberStatus, tuple[Condition, ...], str]:
    conditions: tuple[Condition, ...] = ()
    try:
        document = _object(found, "status")
        conditions = tuple(map(Condition.decode, _array(document, "conditions")))
        return MemberStatus.decode(document), conditions, ""
    except OutOfBounds as error:
        return MemberStatus(), conditions, str(error)


def _object(found: Any, field: str) -> Json:
    if found is None:
        return {}
    _check(isinstance(found, dict), field, "an object")
    return dict(found)


def _array(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    if found is None:
        return []
    _check(isinstance(found, list), name, "a list")
    return list(found)


def _text(document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    _check(found is None or isinstance(found, str), name, "a text")
    return found or ""


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = _array(document, name)
    _check(all(isinstance(it, str) for it in found), name, "texts")
    return tuple(found)


def _number(document: Mapping[str, Any], name: str) -> int:
    found = document.get(name, 0)
    _check(isinstance(found, int) and not isinstance(found, bool), name, "an integer")
    return int(found)
