"""The Lease record: what is read from and written to coordination.k8s.io/v1.

Owns the wire format (KEP-589 fields, MicroTime) and our annotation. Does not know
clocks, elections or HTTP. Guarantees: an update keeps every field of metadata and spec
that it does not own; `renewTime` and `acquireTime` have exactly six fractional digits
(fewer are refused by kube-apiserver with 400).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from edge_sidecars.runtime.formats import rfc3339

# Set to the holder identity by every acquiring and renewing write of ours, removed by our release.
HOLDER_ANNOTATION = "edge-sidecars.io/holder"
# Where the holder answers, and when it sent this write: by each acquiring and renewing write.
ANSWERS_AT_ANNOTATION = "edge-sidecars.io/answers-at"
# Seconds since the epoch: when a process of the holder's pod went on where another had died.
RESUMED_ANNOTATION = "edge-sidecars.io/resumed"

# A resourceVersion is etcd's revision, an int64.
MAX_VERSION = 2**63 - 1
MAX_DIGITS = len(str(MAX_VERSION))

# client-go's release writes 1, because kube-apiserver refuses 0 (leaderelection.go, release()).
RELEASED_DURATION = 1
MAX_DURATION = 2**31 - 1


class MalformedLease(ValueError):
    """An object that is no usable Lease; the message names the field and its value."""


@dataclass(frozen=True)
class Spec:
    """The fields that an election depends on. `holder_identity` "" is null too."""

    holder_identity: str
    lease_duration: float | None
    acquire_time: str | None
    renew_time: str | None
    lease_transitions: int
    strategy: str | None
    preferred_holder: str | None


@dataclass(frozen=True)
class Lease:
    """One version of one Lease object; `raw` is the object as the API server sent it."""

    uid: str
    resource_version: int
    spec: Spec
    marked_holder: str | None
    raw: Mapping[str, Any]

    def annotation(self, name: str) -> str | None:
        found = (self.raw["metadata"].get("annotations") or {}).get(name)
        return found if isinstance(found, str) else None

    @property
    def is_marked(self) -> bool:
        """Whether the present holder is an elector of ours, which stops before its lease ends."""
        return self.spec.holder_identity != "" and self.marked_holder == self.spec.holder_identity


def parse_lease(raw: object) -> Lease:
    """A Lease from decoded JSON; raises `MalformedLease` for anything that is none."""
    body = _mapping(raw, "body")
    metadata = _mapping(body.get("metadata"), "metadata")
    spec = _mapping(body.get("spec") or {}, "spec")
    annotations = _mapping(metadata.get("annotations") or {}, "metadata.annotations")
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not version.isdecimal() or len(version) > MAX_DIGITS:
        raise MalformedLease(f"metadata.resourceVersion is {version!r:.80}, not a whole number")
    if int(version) > MAX_VERSION:
        raise MalformedLease(f"metadata.resourceVersion is {version}, more than an int64")
    return Lease(
        uid=_text(metadata, "uid") or "",
        resource_version=int(version),
        spec=Spec(
            holder_identity=_text(spec, "holderIdentity") or "",
            lease_duration=_seconds(spec.get("leaseDurationSeconds")),
            acquire_time=_text(spec, "acquireTime"),
            renew_time=_text(spec, "renewTime"),
            lease_transitions=_count(spec.get("leaseTransitions")),
            strategy=_text(spec, "strategy"),
            preferred_holder=_text(spec, "preferredHolder"),
        ),
        marked_holder=_text(annotations, HOLDER_ANNOTATION),
        raw=body,
    )


def held(
    base: Lease | None,
    *,
    namespace: str,
    name: str,
    holder_identity: str,
    lease_duration: int,
    acquire_time: str,
    renew_time: str,
    lease_transitions: int,
    answers_at: str | None = None,
    resumed: str | None = None,
    more: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """The body that makes or keeps `holder_identity` the holder. `answers_at`, `resumed`, and
    `more` by their names: the annotations, None for none.

    With a `base` it is an update that carries that version's uid and resourceVersion, so that
    it applies to this very record or not at all; without, it is a create.
    """
    body = _copy(base, namespace, name)
    body["spec"].update(
        holderIdentity=holder_identity,
        leaseDurationSeconds=lease_duration,
        acquireTime=acquire_time,
        renewTime=renew_time,
        leaseTransitions=lease_transitions,
    )
    ours = {ANSWERS_AT_ANNOTATION: answers_at, RESUMED_ANNOTATION: resumed, **(more or {})}
    _annotate(body, {HOLDER_ANNOTATION: holder_identity, **ours})
    return body


def annotated(base: Lease, annotations: Mapping[str, str | None]) -> dict[str, Any]:
    """The body that changes these annotations of `base` and nothing else; None: taken off."""
    body = _copy(base, "", "")
    _annotate(body, annotations)
    return body


def vacant(
    *, namespace: str, name: str, holder_identity: str, lease_duration: int
) -> dict[str, Any]:
    """The body that creates a Lease without a holder, which no candidate may take for its duration.

    To electors of ours it looks blanked (the annotation is there, the holder is not): all wait,
    and from now on every write has a version to compare.
    """
    body = _copy(None, namespace, name)
    body["spec"]["leaseDurationSeconds"] = lease_duration
    body["metadata"]["annotations"] = {HOLDER_ANNOTATION: holder_identity}
    return body


def released(
    base: Lease, *, now: str, more: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """The body that gives `base` up as client-go does: no holder, one second, same transitions.
    `more`: annotations, None for none."""
    body = _copy(base, "", "")
    body["spec"].update(
        holderIdentity="",
        leaseDurationSeconds=RELEASED_DURATION,
        acquireTime=now,
        renewTime=now,
        leaseTransitions=base.spec.lease_transitions,
    )
    ours = dict.fromkeys((HOLDER_ANNOTATION, ANSWERS_AT_ANNOTATION, RESUMED_ANNOTATION))
    _annotate(body, {**ours, **(more or {})})
    return body


def micro_time(wall: float) -> str:
    """Kubernetes' MicroTime of seconds since the epoch: UTC, exactly six fractional digits."""
    return rfc3339.stamp_of(wall, "microseconds")


def wall_seconds(stamp: str | None) -> float | None:
    """Seconds since the epoch of a MicroTime, or None where it is absent or unreadable."""
    moment = None if stamp is None else rfc3339.parse(stamp, zone=UTC)
    return None if moment is None else moment.timestamp()


def pod_name(holder_identity: str) -> str:
    """The name before the last `_` of a holder identity; all of it where there is none."""
    return holder_identity.rpartition("_")[0] or holder_identity


def _copy(base: Lease | None, namespace: str, name: str) -> dict[str, Any]:
    if base is None:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {},
        }
    metadata = dict(base.raw["metadata"])
    metadata["annotations"] = dict(metadata.get("annotations") or {})
    # What the API server manages itself; sending it back only costs bytes.
    metadata.pop("managedFields", None)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": dict(base.raw.get("spec") or {}),
    }


def _annotate(body: dict[str, Any], annotations: Mapping[str, str | None]) -> None:
    present = body["metadata"].setdefault("annotations", {})
    for name, value in annotations.items():
        present.pop(name, None)
        if value is not None:
            present[name] = value


def _mapping(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedLease(f"{field} is {value!r:.80}, not an object")
    return value


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise MalformedLease(f"{key} is {value!r:.80}, not a string")
    return value


def _seconds(value: object) -> float | None:
    """Null and 0 are the same: unknown (kube-apiserver refuses 0, older objects may hold it)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedLease(f"leaseDurationSeconds is {value!r:.80}, not a number")
    if value > MAX_DURATION:
        raise MalformedLease(f"leaseDurationSeconds is {value!r:.80}, more than an int32")
    return float(value) if value > 0 else None


def _count(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedLease(f"leaseTransitions is {value!r:.80}, not a whole number")
    return value
