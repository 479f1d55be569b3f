"""Which answers to TokenRequest are kept, deleted and replayed.

Owns: the answers in memory, and the decision about each request; the caller performs the commands
(the list of one event in one transaction) and passes on whatever upstream answers.
Guarantees: an answer is replayed only

- to a caller with the client certificate of this node: with a bearer token none is had, replaced or
  deleted;
- when upstream gave no answer at all: a 429 or 5xx is passed on like any other;
- while the pod with which the token ends is in the pods stream, the stream is complete, and the
  pod's deletion is not overdue;
- as the newest that upstream gave for that key, byte for byte, and not after upstream refused that
  key with one of `REFUSALS`.

Whether the token has expired takes no part: kubelet takes it, and asks again at each remount.

    upstream's answer: 201 and a token             --> KeepAnswer
                       401, 403, 404, 409, 422     --> DeleteAnswers
                       any other                   --> unchanged
    its pod is gone, or it was
    not asked for in `retain`                      --> DeleteAnswers

`now` is accumulated running time (`core/access/expiry`), which goes on over restarts: no
wall clock takes part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.status import Status, is_status, unavailable
from edge_sidecars.runtime.formats.media_type import media_type
from relay_sidecar.core.token_request import (
    TokenRequestKey,
    issued_token,
)

# A pod asks for a token or two, and a node has 110 pods. The one asked for longest ago goes.
MAX_ANSWERS: Final = 1024
# Bytes of an answer besides its body: its key, names and times (sys.getsizeof, rounded).
OVERHEAD: Final = 1000
# That an answer is still asked for is written so often in the course of `retain`: flash wears out.
KEEPS_PER_RETAIN: Final = 48
# Upstream's answers after which the former one must not be used any more.
REFUSALS: Final = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """What upstream answered with 201, unpacked; `content_type` as in its header. Confidential."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """An answer as it is persisted. `asked_at`: when it was last asked for, late by a
    `KEEPS_PER_RETAIN`th of `retain` at most; `ends_at`: when its pod's deletion is overdue."""

    answer: TokenAnswer
    asked_at: float
    ends_at: float = math.inf


@dataclass(frozen=True, slots=True)
class KeepAnswer:
    """Persist it in place of any former one of this key."""

    key: TokenRequestKey
    kept: KeptAnswer


@dataclass(frozen=True, slots=True)
class DeleteAnswers:
    """Overwrite what is persisted of these; never empty."""

    keys: frozenset[TokenRequestKey]


@dataclass(frozen=True, slots=True)
class PassOn:
    """Send it upstream, and report with `answered` or `unanswered` what comes of it."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Answer 201 with these very bytes. `is_first`: of this key since upstream was last there, to
    be counted and logged."""

    answer: TokenAnswer
    is_first: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with this Status."""

    status: Status


AnswerChange = KeepAnswer | DeleteAnswers


class KeptAnswers:
    """`retain`, in seconds: how long an answer is kept that is not asked for."""

    def __init__(self, *, retain: float) -> None:
        self._retain = retain
        self._kept: dict[TokenRequestKey, KeptAnswer] = {}
        # When each was last asked for; the same keys as `_kept`.
        self._asked_at: dict[TokenRequestKey, float] = {}
        # When the deletion of each pod in the stream is overdue; None while it is not complete.
        self._pods: dict[str, float] | None = None
        # Since upstream was last there.
        self._replayed: set[TokenRequestKey] = set()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(it.answer.body) + OVERHEAD for it in self._kept.values())

    def __iter__(self) -> Iterator[TokenRequestKey]:
        return iter(tuple(self._kept))

    def items(self) -> list[tuple[TokenRequestKey, TokenAnswer]]:
        """What is kept."""
        return [(key, kept.answer) for key, kept in self._kept.items()]

    def restore(
        self, found: Mapping[TokenRequestKey, KeptAnswer], *, now: float
    ) -> list[AnswerChange]:
        """What an earlier life persisted, before anything else is reported. What was kept after the
        clock was last saved counts as asked for now."""
        for key, kept in found.items():
            self._put(key, replace(kept, asked_at=min(kept.asked_at, now)))
        return self.swept(now=now)

    # ── requests ──

    def requested(
        self, key: TokenRequestKey | None, *, is_this_node: bool, is_link_up: bool, now: float
    ) -> PassOn | Replay | Refuse:
        """`is_this_node`: the caller has shown this node's client certificate; `is_link_up`:
        upstream is not known to be out of reach."""
        if is_this_node and key in self._kept:
            self._asked_at[key] = now
        if is_link_up:
            return PassOn()
        return self.unanswered(key, is_this_node=is_this_node, now=now)

    def answered(
        self,
        key: TokenRequestKey,
        answer: TokenAnswer,
        *,
        status: int,
        is_this_node: bool,
        now: float,
    ) -> list[AnswerChange]:
        """Upstream answered a request that was passed on. What it refuses to a bearer token says
        nothing about this node, and would let any pod delete its answers; nor does what is no
        Status: it is of a gateway or a portal before it."""
        if not is_this_node:
            return []
        self._replayed.discard(key)
        if status in REFUSALS and is_status(answer.content_type, answer.body):
            return self._delete({key})
        if status == HTTPStatus.CREATED and key.pod_uid and _is_token(key, answer):
            return self._keep(key, answer, now)
        return []

    def unanswered(
        self, key: TokenRequestKey | None, *, is_this_node: bool, now: float
    ) -> Replay | Refuse:
        """The link is down, or no byte came within --request-timeout. A second TokenRequest does no
        harm, so that a client may send it again (503), although the outcome is unknown."""
        kept = None if key is None else self._kept.get(key)
        why = _refusal(key, kept, is_this_node=is_this_node) or self._absence(key, now)
        if why or key is None or kept is None:
            return Refuse(unavailable(f"upstream did not answer this TokenRequest, and {why}"))
        is_first = key not in self._replayed
        self._replayed.add(key)
        return Replay(kept.answer, is_first)

    def link_restored(self) -> None:
        """Upstream is there again: the next outage counts anew."""
        self._replayed.clear()

    # ── pods ──

    def pods_listed(self, pods: Mapping[str, float | None], *, now: float) -> list[AnswerChange]:
        """The pods stream is complete: uid of each pod, and the deletionGracePeriodSeconds of one
        that is being deleted. It was restored, or listed anew."""
        self._pods = {uid: self._ends_at(uid, grace, now) for uid, grace in pods.items()}
        ended = [change for uid in pods for change in self._note_end(uid)]
        return self._delete(self._orphans()) + ended

    def pods_incomplete(self) -> None:
        """The pods stream was closed: nothing is replayed until it is complete."""
        self._pods = None

    def swept(self, *, now: float) -> list[AnswerChange]:
        """To be called each minute: what was not asked for goes, and what came after the end of its
        pod."""
        idle = {key for key, at in self._asked_at.items() if now - at >= self._retain}
        return self._delete(idle | self._orphans()) + [
            self._persist(key, replace(kept, asked_at=self._asked_at[key]))
            for key, kept in list(self._kept.items())
            if self._asked_at[key] - kept.asked_at >= self._retain / KEEPS_PER_RETAIN
        ]

    # ── inside ──

    def _keep(self, key: TokenRequestKey, answer: TokenAnswer, now: float) -> list[AnswerChange]:
        ends_at = self._ends_at(key.pod_uid, None, now)
        kept = KeptAnswer(answer=answer, asked_at=now, ends_at=ends_at)
        evicted: list[AnswerChange] = []
        if len(self._kept) >= MAX_ANSWERS and key not in self._kept:
            evicted = self._delete([min(self._kept, key=self._asked_at.__getitem__)])
        return [*evicted, self._put(key, kept)]

    def _put(self, key: TokenRequestKey, kept: KeptAnswer) -> KeepAnswer:
        self._asked_at[key] = kept.asked_at
        return self._persist(key, kept)

    def _persist(self, key: TokenRequestKey, kept: KeptAnswer) -> KeepAnswer:
        self._kept[key] = kept
        return KeepAnswer(key, kept)

    def _delete(self, keys: Iterable[TokenRequestKey]) -> list[AnswerChange]:
        deleted = frozenset(keys) & self._kept.keys()
        for key in deleted:
            del self._kept[key], self._asked_at[key]
        return [DeleteAnswers(deleted)] if deleted else []

    def _orphans(self) -> set[TokenRequestKey]:
        """Whose pod is not there; none while the pods are not known."""
        if self._pods is None:
            return set()
        return {key for key in self._kept if key.pod_uid not in self._pods}

    def _ends_at(self, uid: str, deletion_grace: float | None, now: float) -> float:
        """A deletion can be hastened, but not be put off; the earlier life knew when it began."""
        known = (kept.ends_at for key, kept in self._kept.items() if key.pod_uid == uid)
        former = min(known, default=math.inf)
        if self._pods is not None:
            former = min(former, self._pods.get(uid, math.inf))
        return former if deletion_grace is None else min(former, now + deletion_grace)

    def _note_end(self, uid: str) -> list[AnswerChange]:
        ends_at = (self._pods or {}).get(uid, math.inf)
        return [
            self._persist(key, replace(kept, ends_at=ends_at))
            for key, kept in list(self._kept.items())
            if key.pod_uid == uid and kept.ends_at != ends_at
        ]

    def _absence(self, key: TokenRequestKey | None, now: float) -> str:
        """Why the pod of a kept answer is not known to be there; "" where it is."""
        uid = "" if key is None else key.pod_uid
        if self._pods is None:
            return "the pods of this node are not known: let kubelet list them through the relay"
        if uid not in self._pods:
            return f"pod {uid!r:.80} is not on this node: restore the link"
        if now >= self._pods[uid]:
            return f"pod {uid!r:.80} should have ended by now: restore the link"
        return ""


def _is_token(key: TokenRequestKey, answer: TokenAnswer) -> bool:
    """Whether it is what the client wants, and not something of a gateway before the API server."""
    is_wanted = media_type(answer.content_type) == key.content_type
    return is_wanted and issued_token(answer.content_type, answer.body) != ""


def _refusal(key: TokenRequestKey | None, kept: KeptAnswer | None, *, is_this_node: bool) -> str:
    """Why there is nothing to replay to this caller; "" where there is."""
    if not is_this_node:
        return "the caller has not shown this node's client certificate: restore the link"
    if key is None:
        return "the relay cannot read it: restore the link"
    if kept is None:
        return "no earlier answer to the same request is kept: restore the link"
    return ""
