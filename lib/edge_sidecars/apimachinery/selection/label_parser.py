"""The grammar of label selectors, with kube-apiserver's messages.

Owns: from a text to terms, as they were written. What they mean: labels.
Source: k8s.io/apimachinery v0.36, pkg/labels/selector.go, Lexer and Parser; a NUL ends the text
or parts two tokens there, so it does here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edge_sidecars.apimachinery.go_format import parse_int64, quote
from edge_sidecars.apimachinery.selection.label_syntax import key_faults, value_faults

OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
# binaryOperators by their names in pkg/selection/operator.go, as the message lists them.
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n\0]+))\0?")
_END = ""


class BadSelector(ValueError):
    """The message is kube-apiserver's."""


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """`operator` as written; empty for a bare key, `!` for one that must not exist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_terms(text: str) -> Sequence[LabelTerm]:
    """Raises BadSelector."""
    return _LabelParser(_tokens(text)).parse()


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while found := _TOKEN.match(text, position):
        tokens.append(found[1] or found[2])
        position = found.end()
    return [*tokens, _END]


def _is_word(token: str) -> bool:
    """`in` and `notin` are words too wherever no operator can stand."""
    return token != _END and token[0] not in "=!(),<>"


class _LabelParser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def parse(self) -> Sequence[LabelTerm]:
        terms: list[LabelTerm] = []
        token = self._peek()
        if token != "!" and not _is_word(token):
            if token == _END:
                return terms
            raise BadSelector(f"found '{token}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                terms.append(self._term())
            except BadSelector as error:
                raise BadSelector(f"unable to parse requirement: {error}") from error
            token = self._take()
            if token == _END:
                return terms
            if token != ",":
                raise BadSelector(f"found '{token}', expected: ',' or 'end of string'")
            token = self._peek()
            if token != "!" and not _is_word(token):
                raise BadSelector(f"found '{token}', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]

    def _term(self) -> LabelTerm:
        token = self._take()
        is_negated = token == "!"
        key = self._take() if is_negated else token
        if not _is_word(key):
            raise BadSelector(f"found '{key}', expected: identifier")
        if faults := key_faults(key):
            raise BadSelector(f"<nil>: Invalid value: {quote(key)}: {faults}")
        if is_negated:
            return LabelTerm(key, "!")
        if self._peek() in (_END, ","):
            return LabelTerm(key, "")
        operator = self._take()
        if operator not in OPERATORS:
            raise BadSelector(f"found '{operator}', expected: {_EXPECTED_OPERATORS}")
        values = self._set() if operator in ("in", "notin") else (self._exact_value(),)
        _check_values(key, operator, values)
        return LabelTerm(key, operator, values)

    def _set(self) -> tuple[str, ...]:
        token = self._take()
        if token != "(":
            raise BadSelector(f"found '{token}' expected: '('")
        token = self._peek()
        if token == ")":
            self._take()
            return ("",)
        if token != "," and not _is_word(token):
            raise BadSelector(f"found '{token}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._take()  # the closing parenthesis, where _identifiers stops
        return tuple(sorted(values))

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self._take()
            if _is_word(token):
                values.add(token)
                following = self._peek()
                if following == ")":
                    return values
                if following != ",":
                    raise BadSelector(f"found '{following}', expected: ',' or ')'")
            elif token == ",":
                if not values:
                    values.add("")
                following = self._peek()
                if following in (")", ","):
                    values.add("")
                if following == ")":
                    return values
            else:
                raise BadSelector(f"found '{token}', expected: ',', or identifier")

    def _exact_value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._take()
        if not _is_word(token):
            raise BadSelector(f"found '{token}', expected: identifier")
        return token


def _check_values(key: str, operator: str, values: tuple[str, ...]) -> None:
    """NewRequirement: what may be wrong with values that the grammar allows."""
    faults = []
    if operator in (">", "<"):
        try:
            parse_int64(values[0])
        except ValueError:
            said = f"values[0]: Invalid value: {quote(values[0])}: "
            faults.append(f"{said}for 'Gt', 'Lt' operators, the value must be an integer")
    faults += [
        f"values[{index}][{key}]: Invalid value: {quote(value)}: {fault}"
        for index, value in enumerate(values)
        if (fault := value_faults(value))
    ]
    if faults:
        raise BadSelector(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
