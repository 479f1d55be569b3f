"""What is asked of a Lease by annotations: the wire formats of a switchover, a hold, a priority.

Pure. Every writer of the Lease may ask; a text that is too long, or does not have exactly the
expected form, asks nothing (`MalformedMove` says why).
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from elector_sidecar.core.lease import Lease, wall_seconds

# Asks the holder to give the Lease to another pod.
SWITCHOVER_ANNOTATION = "edge-sidecars.io/switchover"
# Asks all electors that none of them leads.
HOLD_ANNOTATION = "edge-sidecars.io/hold"
# Of the holder, by each acquiring and renewing write of an elector that has one.
PRIORITY_ANNOTATION = "edge-sidecars.io/priority"

# Characters: a pod's name (253), an id, two times and the keys take less.
MAX_TEXT = 600
MAX_ID = 80
# Epoch seconds: a time that is so late has five digits of a year in some zone, which is no text.
LAST_TIME = 2.5e11
# Beyond it a priority is a mistake; and its digits are parsed.
MAX_PRIORITY = 1_000_000


class MalformedMove(ValueError):
    """The text of an annotation asks nothing; the message says why."""


@dataclass(frozen=True)
class Switchover:
    """`to`: a pod's name, or "" for any other than the holder; `until`: epoch seconds, after which
    it is not begun. `released`: the renewTime of the release that names the successor, "" before
    that: so that it belongs to this release and to no later one."""

    to: str
    id: str
    until: float
    released: str = ""

    def released_at(self, stamp: str) -> "Switchover":
        return replace(self, released=stamp)

    def text(self) -> str:
        fields = {"to": self.to, "id": self.id, "until": _stamp(self.until)}
        if self.released:
            fields["released"] = self.released
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True)
class Hold:
    """`until`: epoch seconds, after which it is over."""

    id: str
    until: float

    def text(self) -> str:
        return json.dumps({"id": self.id, "until": _stamp(self.until)}, separators=(",", ":"))


def switchover_of(lease: Lease) -> Switchover | None:
    """None if there is none; raises `MalformedMove`."""
    found = _parsed(lease, SWITCHOVER_ANNOTATION)
    if found is None:
        return None
    to, released = found.get("to"), found.get("released", "")
    if not isinstance(to, str) or not (to == "" or is_subdomain(to)):
        raise MalformedMove(f"to {to!r:.80} is not a pod's name")
    if not isinstance(released, str):
        raise MalformedMove(f"released {released!r:.80} is not a time")
    return Switchover(to, _id(found), _until(found), released)


def hold_of(lease: Lease) -> Hold | None:
    """None if there is none; raises `MalformedMove`."""
    found = _parsed(lease, HOLD_ANNOTATION)
    return None if found is None else Hold(_id(found), _until(found))


def priority_of(lease: Lease) -> int:
    """Of the holder; 0 where it has none."""
    text = lease.annotation(PRIORITY_ANNOTATION) or ""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PRIORITY))
    return int(text) if is_number else 0


def _parsed(lease: Lease, name: str) -> dict[str, Any] | None:
    text = lease.annotation(name)
    if text is None:
        return None
    if len(text) > MAX_TEXT:
        raise MalformedMove(f"{len(text)} characters, more than {MAX_TEXT}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedMove(f"{text!r:.80} is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedMove(f"{text!r:.80} is not a JSON object")
    return found


def _id(found: dict[str, Any]) -> str:
    value = found.get("id")
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        raise MalformedMove(f"id {value!r:.80} is not a text of 1 to {MAX_ID} printable characters")
    return value


def _until(found: dict[str, Any]) -> float:
    value = found.get("until")
    seconds = wall_seconds(value) if isinstance(value, str) else None
    if seconds is None or not 0 <= seconds < LAST_TIME:
        raise MalformedMove(f"until {value!r:.80} is not a time")
    return seconds


def _stamp(wall: float) -> str:
    return rfc3339.stamp_of(wall, "seconds")
