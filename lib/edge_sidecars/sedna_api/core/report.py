"""What a worker or a monitor on a node says of one object, numbered so that it counts once.

Owns the rules of numbering. One counter for each object's uid and each store (an LC's database); a
seq is never given twice. An event applies in its place; of what is cumulative (counts, metrics) the
newest counts, and takes the place of an earlier one of the same worker and phase, but never across
an event. Such a replacement gets a new seq, so numbers have holes: `previous` names the report that
must have arrived before, and a component that stores reports takes none out of turn.
Knows nothing of what a body means but its phase.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from edge_sidecars.sedna_api.core.kinds import kind_named

# Bytes; Sedna's largest bodies are an event's models with their metrics: some kilobytes.
MAX_BODY: Final = 65536
# Levels of nesting; Sedna's own have six. What is deeper than a JSON encoder goes must not stop us.
MAX_DEPTH: Final = 32
# Bytes of the names that come from outside: a DNS subdomain (RFC 1123) is no longer.
MAX_NAME: Final = 253
# A uint64 on the wire, an int64 in the API's JSON.
MAX_SEQ: Final = 2**63 - 1

# How the store of a sender begins that numbers nothing: one for each of its connections, followed
# by when that began.
UNNUMBERED: Final = "unnumbered-"

_TOKEN: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?", re.ASCII)


class MalformedReport(ValueError):
    """A report or a NodeReport that says nothing: the reason, for people."""


@dataclass(frozen=True, slots=True)
class Report:
    """`kind` is the lower-case singular, `body` a JSON object.

    `seq` 0: its sender numbers nothing (Sedna's own LCs); it takes the next number where it
    is stored. `previous`: the seq of the report before it in the queue that it was sent from, 0 at
    its head: all before that one are acknowledged. `is_late`: it numbers nothing, and the
    connection that it came by has ended.
    """

    store_id: str
    seq: int
    uid: str
    kind: str
    namespace: str
    name: str
    is_event: bool
    worker: str
    body: bytes
    previous: int = 0
    is_late: bool = False

    @property
    def phase(self) -> str:
        return phase_of(self.body)

    @property
    def is_numbered(self) -> bool:
        """Whether its sender keeps it until it is acknowledged, and sends it again."""
        return not self.store_id.startswith(UNNUMBERED)


def unnumbered_store(began: float, name: str) -> str:
    """Of one connection: what began later is greater. `began`: seconds of the epoch."""
    return f"{UNNUMBERED}{int(began * 1000):015}-{name}"


class Queued(Protocol):
    """An entry of a queue of one object's reports: LC's outbox, or a NodeReport's entry."""

    @property
    def store_id(self) -> str: ...
    @property
    def is_event(self) -> bool: ...
    @property
    def worker(self) -> str: ...
    @property
    def body(self) -> bytes: ...


def replaced_by(report: Queued, queue: Sequence[Queued]) -> int | None:
    """The index of the one in an object's queue whose place this report takes."""
    if report.is_event:
        return None
    phase = phase_of(report.body)
    for index in range(len(queue) - 1, -1, -1):
        earlier = queue[index]
        if earlier.is_event or earlier.store_id != report.store_id:
            return None
        if earlier.worker == report.worker and phase_of(earlier.body) == phase:
            return index
    return None


def check(report: Report, *, is_resolved: bool = True) -> None:
    """Of one that comes from outside; the uid only where it is resolved.

    Raises `MalformedReport`.
    """
    if not 0 <= report.previous <= MAX_SEQ or not 0 <= report.seq <= MAX_SEQ:
        raise MalformedReport(
            f"seq {report.seq} after {report.previous}: not within 0 and {MAX_SEQ}"
        )
    if report.seq and report.previous >= report.seq:
        raise MalformedReport(f"seq {report.seq} after {report.previous}: numbers only grow")
    kind = kind_named(report.kind)
    if kind is None or kind.singular != report.kind:
        raise MalformedReport(f"kind {report.kind!r:.80} is none of Sedna's")
    names = [
        ("store", report.store_id, _is_token),
        ("namespace", report.namespace, is_subdomain),
        ("name", report.name, is_subdomain),
    ]
    if is_resolved:
        names.append(("uid", report.uid, _is_token))
    for what, text, is_right in names:
        if not is_right(text):
            raise MalformedReport(f"{what} {text!r:.80} is no name")
    if len(report.worker) > MAX_NAME or not report.worker.isprintable():
        raise MalformedReport(f"worker {report.worker!r:.80} is no name")
    check_body(report.body)


def _is_token(text: str) -> bool:
    return len(text) <= MAX_NAME and _TOKEN.fullmatch(text) is not None


def check_body(body: bytes) -> None:
    """Raises `MalformedReport` for what is no JSON object, too large or nested too deep, and for
    numbers that no API server takes: a NodeReport with one would be refused as a whole."""
    if len(body) > MAX_BODY:
        raise MalformedReport(f"a body of {len(body)} bytes: {MAX_BODY} at most")
    try:
        level: list[object] = [_OBJECT.decode(body)]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedReport(f"the body is no JSON object: {error}") from error
    for _ in range(MAX_DEPTH):
        for value in level:
            _check_number(value)
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise MalformedReport(f"the body is nested deeper than {MAX_DEPTH} levels")


def _check_number(value: object) -> None:
    """Those beyond int64 are a float64 there (k8s.io/apimachinery, util/json)."""
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise MalformedReport(f"{value!s:.20}... is more than a number may be") from None


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class _Phase(msgspec.Struct):
    phase: object = None


_OBJECT: Final = msgspec.json.Decoder(dict[str, object])
_PHASE: Final = msgspec.json.Decoder(_Phase)


def phase_of(body: bytes) -> str:
    """In lower case; "" where the body has none. Sedna's words are in any case."""
    try:
        phase = _PHASE.decode(body).phase
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""
    return phase.lower() if isinstance(phase, str) else ""
