"""Label selectors: what they mean, which covers which, and their canonical text.

Guarantees: equal selectors are equal values, whatever their spelling (order, `==`, `in (a)`); the
canonical text parses back to the same value. Parsing and its messages are kube-apiserver's:
label_parser. Source of the rules: k8s.io/apimachinery v0.36, pkg/labels/selector.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from edge_sidecars.apimachinery.go_format import parse_int64
from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.selection.label_parser import LabelTerm, parse_terms
from edge_sidecars.apimachinery.selection.selector import CACHE_SIZE, Selector


class Operator(StrEnum):
    """`=`, `==` and `!=` are IN and NOT_IN with one value."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """`values` are sorted and unique; of the comparing operators a single integer."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def admits(self, value: str | None) -> bool:
        """Whether an object may have this value of the label, None where it lacks it."""
        operator = self.operator
        if operator is Operator.IN:
            return value is not None and self._names(value)
        if operator is Operator.NOT_IN:
            return value is None or not self._names(value)
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        number = None if value is None else _integer(value)
        if number is None:
            return False
        bound = int(self.values[0])
        return number > bound if operator is Operator.GREATER_THAN else number < bound

    def _names(self, value: str) -> bool:
        # A client may name a hundred thousand.
        at = bisect_left(self.values, value)
        return at < len(self.values) and self.values[at] == value

    def implies(self, other: Requirement) -> bool:
        """True only where all that this admits, the other admits."""
        if self.key != other.key:
            return False
        operator = self.operator
        if operator is Operator.IN:
            return all(map(other.admits, self.values))
        if operator is Operator.DOES_NOT_EXIST:
            return other.admits(None)
        if other.operator is Operator.NOT_IN:
            if operator is Operator.NOT_IN:
                return set(other.values) <= set(self.values)
            return not any(map(self.admits, other.values))
        if operator is Operator.NOT_IN:
            return False
        if other.operator is Operator.EXISTS:
            return True
        if operator is not other.operator:
            return False
        bound, limit = int(self.values[0]), int(other.values[0])
        return bound >= limit if operator is Operator.GREATER_THAN else bound <= limit

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
            return f"{self.key}{self.operator}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator is Operator.IN else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True)
class LabelSelector(Selector[Requirement]):
    """All requirements hold; `requirements` are sorted and unique, see `of`."""

    @staticmethod
    def of(requirements: Iterable[Requirement]) -> LabelSelector:
        return LabelSelector(tuple(sorted(set(requirements))))

    @staticmethod
    def parse(text: str) -> LabelSelector:
        """Raises BadSelector."""
        return _parse(text) if text else EVERYTHING

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # not all(...): this runs for each event and reader
            if not requirement.admits(labels.get(requirement.key)):
                return False
        return True


EVERYTHING = LabelSelector()


@lru(CACHE_SIZE)
def _parse(text: str) -> LabelSelector:
    return LabelSelector.of(map(_requirement, parse_terms(text)))


def _requirement(term: LabelTerm) -> Requirement:
    values = tuple(sorted(set(term.values)))
    match term.operator:
        case "in" | "=" | "==":
            return Requirement(term.key, Operator.IN, values)
        case "notin" | "!=":
            return Requirement(term.key, Operator.NOT_IN, values)
        case "!":
            return Requirement(term.key, Operator.DOES_NOT_EXIST)
        case ">" | "<":
            number = str(parse_int64(values[0]))
            return Requirement(term.key, Operator(term.operator), (number,))
    return Requirement(term.key, Operator.EXISTS)


def _integer(text: str) -> int | None:
    try:
        return parse_int64(text)
    except ValueError:
        return None
