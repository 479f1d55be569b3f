"""The last terms of a Lease, of all its holders: an annotation that our writes carry along.

Pure. It is for people: no rule of the election reads it. Guarantees:

- it is written in the same write that begins or ends a term, so that it costs no request;
- at most `MAX_TERMS` terms and `MAX_TEXT` bytes, the oldest ones go first;
- a text that is too long or does not have exactly this form is replaced by what this candidate
  knows itself. It is never an error.

A term of a candidate that writes no history, as client-go's, is recorded by the next elector that
saw it (`is_seen`), or takes the Lease after it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from elector_sidecar.core.lease import RELEASED_DURATION, Lease, wall_seconds

HISTORY_ANNOTATION = "edge-sidecars.io/history"
MAX_TERMS = 10
# Bytes: the whole Lease stays below 4 KiB, which each watch event of it has.
MAX_TEXT = 2048
# Characters of one field. An identity is a pod's name (253), "_" and a UUID; other programs may
# have longer ones, which are cut.
MAX_HOLDER = 300
MAX_WHY = 120
MAX_TIME = 40
# Epoch seconds: a later time has five digits of a year, which is no text.
LAST_TIME = 2.5e11

RELEASED = "released"
BLANKED = "the record was emptied by another writer"
EXPIRED = "not renewed in time"
TAKEN = "taken by another candidate"
RESUMED = "its process had ended, and the same pod went on"


@dataclass(frozen=True)
class TermRecord:
    """`began`, `ended`: RFC 3339, whole seconds, UTC; `ended` "" while it lasts. `is_seen`: an
    elector saw it, and the holder did not record it itself."""

    holder: str
    began: str
    ended: str = ""
    why: str = ""
    is_seen: bool = False

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"holder": self.holder, "from": self.began}
        if self.ended:
            found |= {"to": self.ended, "why": self.why}
        return found | ({"seen": True} if self.is_seen else {})


Terms = tuple[TermRecord, ...]


class LeaseHistory:
    """What one candidate knows of it, oldest first."""

    def __init__(self, identity: str) -> None:
        self._identity = _cut(identity)
        self.terms: Terms = ()
        self._text: str | None = None
        # Epoch seconds by the holder's clock: until then its last renewal keeps others off.
        self._held_until: float | None = None
        # Why this candidate gives up.
        self.cause = ""

    def adopt(self, lease: Lease, *, wall: float) -> None:
        text = lease.annotation(HISTORY_ANNOTATION)
        if text != self._text:
            self._text = text
            self.terms = parse(text) or self.terms
        spec = lease.spec
        if spec.holder_identity == "":
            is_released = spec.lease_duration == RELEASED_DURATION
            at = _moment(spec.renew_time, wall) if is_released else wall
            self.terms = _ended(self.terms, at, RELEASED if is_released else BLANKED)
            return
        holder, acquired = _cut(spec.holder_identity), _moment(spec.acquire_time, wall)
        if not _is_led_by(self.terms, holder):
            # A renewTime may be ahead of the clock: only the taker knows how long it has waited.
            is_early = self._held_until is not None and acquired < self._held_until
            self.terms = self._begun(holder, acquired, TAKEN if is_early else EXPIRED)
        self._held_until = _moment(spec.renew_time, wall) + (spec.lease_duration or 0.0)

    def on_hold(self, acquired: str, *, resumes: bool) -> Mapping[str, str]:
        """The annotation of a write that acquires or renews, for a term that began then."""
        terms = self.terms
        if not _is_led_by(terms, self._identity):
            at = _moment(acquired, 0.0)
            terms = self._begun(self._identity, at, RESUMED if resumes else EXPIRED)
        return {HISTORY_ANNOTATION: encode(terms)}

    def on_release(self, stamp: str) -> Mapping[str, str]:
        why = self.cause or RELEASED
        return {HISTORY_ANNOTATION: encode(_ended(self.terms, _moment(stamp, 0.0), why))}

    def _begun(self, holder: str, at: float, why: str) -> Terms:
        """`why` the term before is over, if it is not known to be."""
        last = self.terms[-1] if self.terms else None
        began = _stamp(at)
        if last is not None and (last.holder, last.began) == (holder, began):
            # Emptied or deleted under a leader that wrote itself back.
            return (*self.terms[:-1], replace(last, ended="", why=""))
        until = at if self._held_until is None else min(at, self._held_until)
        record = TermRecord(holder, began, is_seen=holder != self._identity)
        return (*_ended(self.terms, until, why), record)[-MAX_TERMS:]


def encode(terms: Sequence[TermRecord]) -> str:
    """Without the oldest ones, as far as that is needed."""
    kept = [it.document() for it in terms[-MAX_TERMS:]]
    while len(text := json.dumps(kept, separators=(",", ":"))) > MAX_TEXT:
        del kept[0]
    return text


def parse(text: str | None) -> Terms:
    """() for what is no history."""
    if text is None or len(text) > MAX_TEXT:
        return ()
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            return ()
        return tuple(_record(it) for it in found[-MAX_TERMS:])
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ()


def _record(it: Any) -> TermRecord:
    """Raises what `parse` catches."""
    began, ended = it.get("from"), it.get("to", "")
    for time in (began, ended):
        if len(time) > MAX_TIME or (time and wall_seconds(time) is None):
            raise ValueError(f"{time!r} is no time")
    return TermRecord(
        _text(it.get("holder"), MAX_HOLDER),
        _text(began, MAX_TIME),
        _text(ended, MAX_TIME),
        _text(it.get("why", ""), MAX_WHY),
        it.get("seen") is True,
    )


def _text(value: object, limit: int) -> str:
    if not isinstance(value, str) or len(value) > limit:
        raise ValueError(f"{value!r:.80} is no text of at most {limit} characters")
    return value


def _is_led_by(terms: Terms, holder: str) -> bool:
    return bool(terms) and terms[-1].ended == "" and terms[-1].holder == holder


def _ended(terms: Terms, at: float, why: str) -> Terms:
    """With the last one over, if it was not."""
    if not terms or terms[-1].ended:
        return terms
    ended = max(_stamp(at), terms[-1].began)
    return (*terms[:-1], replace(terms[-1], ended=ended, why=why[:MAX_WHY]))


def _moment(stamp: str | None, otherwise: float) -> float:
    """Epoch seconds of a time that somebody else may have written."""
    found = wall_seconds(stamp)
    return found if found is not None and 0 <= found < LAST_TIME else otherwise


def _stamp(wall: float) -> str:
    return rfc3339.stamp_of(min(wall, LAST_TIME), "seconds")


def _cut(holder: str) -> str:
    return holder[:MAX_HOLDER]
