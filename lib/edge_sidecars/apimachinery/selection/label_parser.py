"""The grammar of label selectors, keys and values, with kube-apiserver's messages.

Owns: from a text to terms, as they were written. What they mean: labels.
Sources, all v0.36: k8s.io/apimachinery pkg/labels/selector.go, Lexer and Parser; a NUL ends the
text or parts two tokens there, so it does here. For keys and values
pkg/api/validate/content/{kube.go,dns.go,errors.go}; lengths are in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edge_sidecars.apimachinery.go_format import parse_int64, quote
from edge_sidecars.apimachinery.selection.selector import BadSelector
from edge_sidecars.runtime.formats.rfc1123 import MAX_LABEL, MAX_SUBDOMAIN, QUALIFIED, SUBDOMAIN

OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
# binaryOperators by their names in pkg/selection/operator.go, as the message lists them.
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n\0]+))\0?")
_END = ""

_VALUE = f"({QUALIFIED})?"
_NAME_FORM, _VALUE_FORM, _SUBDOMAIN_FORM = map(re.compile, (QUALIFIED, _VALUE, SUBDOMAIN))

_ENDS = "and must start and end with an alphanumeric character"
_CHARACTERS = f"consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_NAME_RULE = (
    f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{QUALIFIED}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or {_CHARACTERS} (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE}')"
)
_PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', {_ENDS} (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
)


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
    """`in` and `notin` are words too wherever no operator can be."""
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


def key_faults(key: str) -> str:
    """IsLabelKey: what is wrong with it, joined by semicolons; empty where nothing is."""
    *prefix, name = key.split("/")
    if len(prefix) > 1:
        return (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
    faults = _prefix_faults(prefix[0]) if prefix else []
    if not name:
        faults.append("name part must be non-empty")
    elif _is_long(name, MAX_LABEL):
        faults.append(f"name part must be no more than {MAX_LABEL} bytes")
    if not _NAME_FORM.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return "; ".join(faults)


def value_faults(value: str) -> str:
    """IsLabelValue: what is wrong with it, joined by semicolons; empty where nothing is."""
    faults = []
    if _is_long(value, MAX_LABEL):
        faults.append(f"must be no more than {MAX_LABEL} bytes")
    if not _VALUE_FORM.fullmatch(value):
        faults.append(_VALUE_RULE)
    return "; ".join(faults)


def _prefix_faults(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    faults = []
    if _is_long(prefix, MAX_SUBDOMAIN):
        faults.append(f"prefix part must be no more than {MAX_SUBDOMAIN} bytes")
    if not _SUBDOMAIN_FORM.fullmatch(prefix):
        faults.append(f"prefix part {_PREFIX_RULE}")
    return faults


def _is_long(text: str, length: int) -> bool:
    return len(text.encode()) > length
