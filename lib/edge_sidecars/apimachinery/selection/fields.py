"""Field selectors: their grammar, what they mean, which covers which, their canonical text.

Owns: terms of a path, `=` or `!=`, and a value. Which paths a resource has and where their values
come from: resources. Guarantees: equal selectors are equal values, whatever their spelling (order,
`==`, escapes); the canonical text parses back to the same value.
Source: k8s.io/apimachinery v0.36, pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.selection.selector import CACHE_SIZE, BadSelector, Selector

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"

# The first operator found in a term parts it; `!=` and `==` are looked for before `=`.
_OPERATOR = re.compile("!=|==|=")
# Either an escaped character or one that has to be escaped.
_SPECIAL = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_TERM = re.compile(r"(?:[^,\\]|\\.|\\\Z)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """`value` is unescaped; a field that an object lacks has the value ""."""

    path: str
    is_equal: bool
    value: str

    def admits(self, value: str) -> bool:
        return (value == self.value) is self.is_equal

    def implies(self, other: FieldRequirement) -> bool:
        """True only where all that this admits, the other admits."""
        if self.path != other.path:
            return False
        return other.admits(self.value) if self.is_equal else self == other

    def __str__(self) -> str:
        return f"{self.path}{'=' if self.is_equal else '!='}{_escaped(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector(Selector[FieldRequirement]):
    """All requirements hold; `requirements` are unique and sorted as kube-apiserver tests them."""

    @staticmethod
    def of(requirements: Iterable[FieldRequirement]) -> FieldSelector:
        return FieldSelector(tuple(sorted(set(requirements), key=str)))

    @staticmethod
    def parse(text: str) -> FieldSelector:
        """Raises BadSelector."""
        return _parse(text) if text else EVERYTHING

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(requirement.path for requirement in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value that the field must have, None where there is no such term."""
        for requirement in self.requirements:
            if requirement.path == path and requirement.is_equal:
                return requirement.value
        return None

    def matches(self, value_of: Callable[[str], str]) -> bool:
        for requirement in self.requirements:  # not all(...): this runs for each event and reader
            if not requirement.admits(value_of(requirement.path)):
                return False
        return True

    def partition(self, paths: Container[str]) -> tuple[FieldSelector, FieldSelector]:
        """The requirements on these paths, and all others."""
        inside = tuple(known for known in self.requirements if known.path in paths)
        outside = tuple(known for known in self.requirements if known.path not in paths)
        return FieldSelector(inside), FieldSelector(outside)


EVERYTHING = FieldSelector()


@lru(CACHE_SIZE)
def _parse(text: str) -> FieldSelector:
    return FieldSelector.of(
        requirement
        for term in sorted(_terms(text))
        if term and (requirement := _requirement(text, term)) is not None
    )


def _terms(text: str) -> list[str]:
    """The text parted at its commas, but for escaped ones; escapes are kept."""
    terms, position = [], 0
    while position <= len(text):
        found = _TERM.match(text, position)
        assert found is not None  # it matches the empty text too
        terms.append(found[0])
        position = found.end() + 1
    return terms


def _requirement(text: str, term: str) -> FieldRequirement | None:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise BadSelector(f"invalid selector: '{text}'; can't understand '{term}'")
    path, value = term[: operator.start()], _unescaped(term[operator.end() :])
    # Selector.Transform drops a term of which nothing is left.
    return FieldRequirement(path, operator[0] != "!=", value) if path or value else None


def _unescaped(value: str) -> str:
    def literal(found: re.Match[str]) -> str:
        sequence = found[0]
        if sequence in (",", "="):
            # UnescapedRune prints the number of the character.
            said = f"unescaped character in value: {ord(sequence)}"
        elif found[1] in ("\\", ",", "=") and found[1]:
            return found[1]
        else:
            said = f"invalid escape sequence: {sequence}"
        raise BadSelector(f"invalid field selector: {said}")

    return _SPECIAL.sub(literal, value)


def _escaped(value: str) -> str:
    return re.sub(r"[\\,=]", lambda found: f"\\{found[0]}", value)
