"""Which pods take part in the election for a Lease, by their spec and status. Pure.

A pod takes part if the elector of one of its containers names the Lease, as a flag or as a
variable; injection and the manifests set the variable. A file (`--lease-file`) and a ConfigMap are
not read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.lease import pod_name
from elector_sidecar.core.moves.annotations import MAX_PRIORITY, PRIORITY_ANNOTATION

# Contrib's names of --lease and --namespace, which the elector takes too.
_LEASE = ("lease", "election")
_NAMESPACE = ("namespace", "election-namespace")
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_ELIGIBLE, _READY = "/eligible", "/readyz"


@dataclass(frozen=True)
class CandidatePod:
    """`is_eligible`: None where the readiness probe of the elector's container does not say it."""

    name: str
    container: str
    node: str
    status: str
    is_eligible: bool | None
    priority: int
    is_leader: bool
    created: str | None


def candidates(
    pods: Iterable[Mapping[str, Any]], *, lease: str, namespace: str, holder: str
) -> list[CandidatePod]:
    """By name."""
    found = []
    for pod in pods:
        for container in _containers(pod):
            named = _flag(pod, container, _LEASE)
            where = _flag(pod, container, _NAMESPACE) or namespace
            if named == lease and where == namespace:
                found.append(_candidate(pod, container, holder=holder))
                break
    return sorted(found, key=lambda it: it.name)


def _candidate(
    pod: Mapping[str, Any], container: Mapping[str, Any], *, holder: str
) -> CandidatePod:
    metadata, status = pod["metadata"], pod.get("status") or {}
    is_ending = metadata.get("deletionTimestamp") is not None
    return CandidatePod(
        name=metadata["name"],
        container=container["name"],
        node=pod["spec"].get("nodeName") or "",
        status="Terminating" if is_ending else status.get("phase") or "Unknown",
        is_eligible=_is_eligible(status, container),
        priority=_priority(pod, container),
        is_leader=holder != "" and pod_name(holder) == metadata["name"],
        created=metadata.get("creationTimestamp"),
    )


def _containers(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    spec = pod.get("spec") or {}
    return (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))


def _is_eligible(status: Mapping[str, Any], container: Mapping[str, Any]) -> bool | None:
    """By the sidecar's readiness, whose probe asks /eligible in our manifests."""
    states = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    is_ready = any(it["name"] == container["name"] and it.get("ready") for it in states)
    probe = ((container.get("readinessProbe") or {}).get("httpGet") or {}).get("path") or ""
    path = probe.partition("?")[0]
    if path == _ELIGIBLE:
        return is_ready
    # Only a leader is ready there, and a leader is eligible.
    return True if path == _READY and is_ready else None


def _priority(pod: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    text = _flag(pod, container, ("priority",))
    if not text:
        text = (pod["metadata"].get("annotations") or {}).get(PRIORITY_ANNOTATION) or ""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PRIORITY))
    return int(text) if is_number else 0


# ── flags and variables of a container ──


def _flag(pod: Mapping[str, Any], container: Mapping[str, Any], names: Sequence[str]) -> str:
    """The value of the first one of these flags, else of the variable of one; "" for none."""
    environ = _environ(pod, container)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    words = [_VARIABLE.sub(lambda it: environ.get(it[1], it[0]), word) for word in words]
    for place, word in enumerate(words):
        flag, is_joined, value = word.partition("=")
        if flag.startswith("-") and flag.lstrip("-") in names:
            return value if is_joined else "".join(words[place + 1 : place + 2])
    for name in names:
        if value := environ.get(f"ELECTOR_{name.upper().replace('-', '_')}"):
            return value
    return ""


def _environ(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    metadata = pod["metadata"]
    found: dict[str, str] = {}
    for it in container.get("env") or ():
        path = ((it.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath") or ""
        field = _FIELD.fullmatch(path)
        if field is not None:
            found[it["name"]] = (metadata.get(field[1]) or {}).get(field[2]) or ""
        elif path.startswith("metadata."):
            found[it["name"]] = str(metadata.get(path.removeprefix("metadata.")) or "")
        elif it.get("value"):
            found[it["name"]] = it["value"]
    return found
