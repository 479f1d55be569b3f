"""The conditions of an object: a log of which the last one is the state.

Owns appending, capping, and the standing problem: while nothing can be made of an object, its last
condition is of type Failed and says why; the state that it had is behind it and is not lost. When
the cause is repaired, the condition is followed by the state again, or by the next one.

    [..., Waiting]  --problem-->  [..., Waiting, Failed]  --repaired-->  [..., Failed, Waiting]

Guarantees: never more than RECENT and a few that are still needed; appending what is the state
already changes nothing. Knows nothing of which state follows from what.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import Problem
from gm.core.tree import objects, text

FAILED: Final = "Failed"
READY: Final = "Ready"
COMPLETED: Final = "Completed"

INVALID_SPEC: Final = "InvalidSpec"
MISSING_REFERENCE: Final = "MissingReference"
CHILD_REFUSED: Final = "ChildRefused"
PROBLEMS: Final = frozenset({INVALID_SPEC, MISSING_REFERENCE, CHILD_REFUSED})

# Reasons of a deployment that put another inference worker in the place of the last one.
REPLACING: Final = "ReplacingInference"
REPLACED: Final = "InferenceReplaced"

# Contract, section 4: the last ones, plus the last Completed of each stage. Sedna adds about
# fifteen a round and never trims, until etcd takes no more.
RECENT: Final = 10
# Characters of a message; kube-apiserver takes 1024 bytes in an Event (its validation).
_LONGEST_MESSAGE: Final = 800


def instant(condition: Json, *fields: str) -> datetime | None:
    """The first of its times that is one."""
    for name in fields or ("lastTransitionTime", "lastHeartbeatTime"):
        found = rfc3339.parse(text(condition, name))
        if found is not None:
            return found
    return None


def left(pause: float, since: datetime | None, now: datetime) -> float:
    """Seconds of a pause that are left; never more than the pause, whatever a clock shows."""
    if since is None:
        return 0.0
    return min(max(pause - (now - since).total_seconds(), 0.0), pause)


def is_problem(condition: Json) -> bool:
    """Whether it tells that nothing can be made of the object."""
    return text(condition, "type") == FAILED and text(condition, "reason") in PROBLEMS


def told(problems: Sequence[Problem]) -> str:
    """All of them in one message: field, what is wrong, what to do."""
    message = "; ".join(map(_said, problems))
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}..."


def _said(problem: Problem) -> str:
    return f"{problem.field}: {problem.message}: {problem.remedy}"


@dataclass(slots=True)
class Log:
    """The conditions of one object while they are decided about.

    `times`: the fields that tell when, which differ between Sedna's kinds.
    """

    now: datetime
    times: tuple[str, ...]
    entries: list[Json]
    trailing: Json | None
    added: list[Json] = field(default_factory=list)
    problem: Json | None = None

    @classmethod
    def of(cls, status: Json, *, now: datetime, times: tuple[str, ...]) -> "Log":
        entries = list(objects(status, "conditions"))
        trailing = entries.pop() if entries and is_problem(entries[-1]) else None
        return cls(now, times, entries, trailing)

    @property
    def state(self) -> Json:
        """The last condition that is no problem, or an empty one."""
        return next((one for one in self.newest() if not is_problem(one)), {})

    @property
    def is_repaired(self) -> bool:
        """Whether a problem stood that does not any more."""
        return self.trailing is not None and self.problem is None

    def newest(self) -> Iterator[Json]:
        """All but the standing problem, the newest first."""
        yield from reversed(self.added)
        yield from reversed(self.entries)

    def last(self, type_: str, *, stage: str = "") -> Json:
        """The newest of a type and stage, or an empty one."""
        found = (
            one
            for one in self.newest()
            if text(one, "type") == type_ and text(one, "stage") == stage
        )
        return next(found, {})

    def append(
        self,
        type_: str,
        *,
        reason: str = "",
        message: str = "",
        stage: str = "",
        round_: int = 0,
        data: str = "",
    ) -> bool:
        """Whether that is news."""
        made: Json = {"type": type_, "status": "True", **self._stamps()}
        said: Json = {"reason": reason, "message": message[:_LONGEST_MESSAGE], "stage": stage}
        said |= {"round": round_, "data": data}
        made |= {key: value for key, value in said.items() if value}
        if _identity(made) == _identity(self.state):
            return False
        self.added.append(made)
        return True

    def says(self, problem: Problem) -> bool:
        """Whether it is among what stood so far."""
        return _said(problem) in text(self.trailing or {}, "message")

    def stand(self, problems: Sequence[Problem]) -> bool:
        """Let these be the object's problem; whether that is news."""
        message, reason = told(problems), problems[0].reason
        old = self.trailing or {}
        if text(old, "message") == message and text(old, "reason") == reason:
            self.problem = self.trailing
            return False
        stamps = self._stamps()
        self.problem = {"type": FAILED, "status": "True", **stamps}
        self.problem |= {"reason": reason, "message": message}
        return True

    def keep_problem(self) -> None:
        """Whether it is repaired is not known yet."""
        self.problem = self.trailing

    def result(self) -> list[Json]:
        """What the status is to have."""
        if self.problem is not None:
            return capped([*self.entries, *self.added, self.problem])
        if self.trailing is None:
            return capped([*self.entries, *self.added])
        followed_by = self.added or ([{**self.state, **self._stamps()}] if self.state else [])
        return capped([*self.entries, self.trailing, *followed_by])

    def _stamps(self) -> Json:
        return dict.fromkeys(self.times, rfc3339.stamp(self.now))


def _identity(condition: Json) -> tuple[object, ...]:
    return tuple(condition.get(key) for key in ("type", "reason", "message", "stage", "round"))


def capped(conditions: list[Json]) -> list[Json]:
    """The last RECENT and, before them, what is still needed; `data` only where it is."""
    needed = _needed(conditions)
    kept: list[Json] = []
    for index, one in enumerate(conditions):
        if index in needed:
            kept.append(one)
        elif index >= len(conditions) - RECENT:
            kept.append({key: value for key, value in one.items() if key != "data"})
    return kept


def _needed(conditions: list[Json]) -> set[int]:
    """LC looks for the last Ready and Completed of each stage, GM for the round whose model the
    inference worker was made anew for."""
    found: dict[tuple[str, str], int] = {}
    for index, one in enumerate(conditions):
        stage, type_ = text(one, "stage"), text(one, "type")
        if stage and type_ in (READY, COMPLETED) and not is_problem(one):
            found[(stage, type_)] = index
        if text(one, "reason") in (REPLACING, REPLACED):
            found[("", REPLACED)] = index
    return set(found.values())
