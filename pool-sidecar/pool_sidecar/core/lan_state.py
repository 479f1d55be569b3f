"""What members tell each other every 2 s: the document of `GET /state`. Pure.

Guarantees: what a peer sends is bounded, and either is a state in every field or none at all
(ValueError). A state is believed only in what it says of its sender.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pool_sidecar.core.pool_member import MAX_MEMBERS, MAX_NAME, Link, Verdict
from pool_sidecar.core.pool_streams import MAX_STREAMS, PoolStream

PROTOCOL: Final = 1
# Bytes; 63 verdicts on the longest names are below 20,000, and 16 streams below 6,000.
MAX_STATE: Final = 32 * 1024
# The longest term of a Lease that is believed, in seconds; elector-sidecar's is 20 in a pool.
MAX_TERM: Final = 300.0
# leaseTransitions is an int32.
MAX_TRANSITIONS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A member says that it leads, for so many seconds from when it says so."""

    transitions: int
    remaining: float

    def document(self) -> dict[str, Any]:
        return {"transitions": self.transitions, "remainingSeconds": round(self.remaining, 3)}


@dataclass(frozen=True, slots=True)
class LanState:
    """`incarnation`: of the process. `is_kubelet_ok`: the node's kubelet answers. `verdicts`: on
    members that are not Alive to the sender. `streams`: the pool-scoped ones of its relay."""

    node: str
    incarnation: str
    link: Link
    is_kubelet_ok: bool
    leads: Claim | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    streams: tuple[PoolStream, ...] = ()

    def encode(self) -> bytes:
        document: dict[str, Any] = {
            "protocol": PROTOCOL,
            "node": self.node,
            "incarnation": self.incarnation,
            "link": self.link.value,
            "kubelet": self.is_kubelet_ok,
        }
        if self.leads is not None:
            document["leads"] = self.leads.document()
        if self.streams:
            document["streams"] = [it.document() for it in self.streams]
        if self.verdicts:
            document["verdicts"] = {name: it.value for name, it in self.verdicts.items()}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Raises ValueError."""
        if len(raw) > MAX_STATE:
            raise ValueError(f"a state of {len(raw)} bytes: at most {MAX_STATE}")
        try:
            found = json.loads(raw)
        except RecursionError as error:
            raise ValueError("a state that is nested too deep") from error
        if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
            raise ValueError(f"not a state of protocol {PROTOCOL}")
        kubelet = found.get("kubelet")
        if not isinstance(kubelet, bool):
            raise ValueError("a state that does not say whether kubelet answers")
        return cls(
            _name(found.get("node")),
            _name(found.get("incarnation")),
            Link(_name(found.get("link"))),
            kubelet,
            _claim(found.get("leads")),
            _verdicts(found.get("verdicts")),
            _streams(found.get("streams")),
        )


def _is_name(found: Any) -> bool:
    return isinstance(found, str) and 0 < len(found) <= MAX_NAME


def _name(found: Any) -> str:
    if not _is_name(found):
        raise ValueError("a state without a node, an incarnation or a link")
    return str(found)


def _claim(found: Any) -> Claim | None:
    if found is None:
        return None
    match found:
        case {"transitions": int(transitions), "remainingSeconds": int() | float() as remaining}:
            # Not by math.isfinite, which raises for an integer of 400 digits.
            is_term = not isinstance(transitions, bool) and 0 <= remaining <= MAX_TERM
            if is_term and 0 <= transitions <= MAX_TRANSITIONS:
                return Claim(transitions, float(remaining))
    raise ValueError("a state with a claim to lead that is none")


def _verdicts(found: Any) -> dict[str, Verdict]:
    if found is None:
        return {}
    if not isinstance(found, dict) or len(found) >= MAX_MEMBERS or not all(map(_is_name, found)):
        raise ValueError("a state with verdicts that are none")
    return {name: Verdict(verdict) for name, verdict in found.items()}


def _streams(found: Any) -> tuple[PoolStream, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) > MAX_STREAMS:
        raise ValueError("a state with streams that are none")
    return tuple(map(PoolStream.parse, found))
