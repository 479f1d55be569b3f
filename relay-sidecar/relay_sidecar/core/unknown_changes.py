"""Objects that a write through the relay has changed, whose new state no answer has shown.

A subresource that answers with another kind (Scale, Eviction, Binding), or in a form that is not
read here, leaves what is known of the object old. Guarantee: each such change counts until
something is known that was asked of upstream after it, or that has come to its version. Bounded:
past MAX_CHANGES the oldest counts for its whole namespace, never for less. Knows no stream.
"""

import math
from dataclasses import dataclass
from typing import Final

from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.apimachinery.scope import ListScope

# A change is asked about with the next read of its object or collection.
MAX_CHANGES: Final = 1000
# Namespaces of which all objects count as changed; past that, all namespaces do.
MAX_NAMESPACES: Final = 100


@dataclass(frozen=True, slots=True)
class _Change:
    """Answered at `at` (boot clock); `version` is the object's since then, None where the answer
    did not tell it."""

    at: float
    version: int | None

    def is_missing(self, version: int, asked_at: float) -> bool:
        """In what has come to `version`, and holds what upstream was asked for at `asked_at`."""
        return asked_at < self.at and (self.version is None or version < self.version)


class UnknownChanges:
    """Of one resource. A name "" is all of a namespace, both "" are all objects."""

    def __init__(self) -> None:
        self._changes: dict[Key, _Change] = {}
        self._wide: dict[str, _Change] = {}
        # Of all of them, the latest.
        self._latest = -math.inf

    def add(self, key: Key, at: float, version: int | None) -> None:
        namespace, name = key
        self._latest = max(self._latest, at)
        if not name:
            self._widen(namespace, _Change(at, None))
            return
        self._changes.pop(key, None)
        self._changes[key] = _Change(at, version)
        if len(self._changes) > MAX_CHANGES:
            oldest = next(iter(self._changes))
            self._widen(oldest[0], self._changes.pop(oldest))

    def has(self, key: Key, *, since: float) -> bool:
        """Whether the object has changed since then."""
        return self._latest >= since and any(it.at >= since for it in self._of_one(key))

    def seen(self, key: Key, version: int, *, asked_at: float) -> None:
        """This state of an object, asked for then, is known now."""
        change = self._changes.get(key)
        if change is not None and not change.is_missing(version, asked_at):
            del self._changes[key]

    def are_missing(self, scope: ListScope, version: int, *, asked_at: float) -> bool:
        """Whether what has come to `version`, and holds what upstream was asked for at `asked_at`,
        may lack one of a scope."""
        if asked_at >= self._latest:
            return False
        if scope.name is not None and scope.namespace:
            found = self._of_one((scope.namespace, scope.name))
        else:
            found = [it for key, it in self._changes.items() if _may_hold(scope, key)]
            found += [it for where, it in self._wide.items() if _may_hold(scope, (where, ""))]
        return any(change.is_missing(version, asked_at) for change in found)

    def _of_one(self, key: Key) -> list[_Change]:
        found = (self._changes.get(key), self._wide.get(key[0]), self._wide.get(""))
        return [change for change in found if change is not None]

    def _widen(self, namespace: str, change: _Change) -> None:
        if len(self._wide) >= MAX_NAMESPACES and namespace not in self._wide:
            latest = max([change, *self._wide.values()], key=lambda it: it.at)
            self._wide.clear()
            namespace, change = "", latest
        before = self._wide.get(namespace)
        if before is None or before.at <= change.at:
            self._wide[namespace] = _Change(change.at, None)


def _may_hold(scope: ListScope, key: Key) -> bool:
    namespace, name = key
    is_there = not scope.namespace or not namespace or scope.namespace == namespace
    return is_there and (scope.name is None or not name or scope.name == name)
