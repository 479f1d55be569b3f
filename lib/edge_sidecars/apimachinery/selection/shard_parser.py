"""The grammar of shard selectors: a CEL expression that is read and never evaluated.

Owns: `shardRange(field, start, end)` calls joined by `||`, and the Status messages that refuse
anything else. Guarantees: what is accepted, kube-apiserver accepts and means the same by it; its
messages are kube-apiserver's, but for CEL's own syntax errors and the operators of CEL beyond `||`
and `&&`. Left out of CEL: escapes in strings, which no bound of a range needs.
Sources: k8s.io/apiserver v0.36, pkg/sharding/parser.go; cel-go, parser/gen/CEL.g4 (tokens) and
common/ast/expr.go (numbers of kinds).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edge_sidecars.apimachinery.go_format import quote
from edge_sidecars.apimachinery.selection.selector import BadSelector

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
# 2^64, the exclusive end of the last range: the one bound of 17 digits.
END = "0x10000000000000000"
_DIGITS = len(END) - len("0x") - 1

# ast.ExprKind.
_CALL, _IDENT, _LITERAL, _SELECT = 1, 3, 5, 7
# Nested deeper than anyone writes; CEL's own limit is 250.
_DEEPEST = 100
# Characters: cel-go's default.
_LONGEST = 100_000
_BLANK = re.compile(r"(?:[ \t\r\n\f]|//[^\n]*)*")
_TOKEN = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:'{3}(?:.|\n)*?'{3}|"{3}(?:.|\n)*?"{3}|'[^'\r\n]*'|"[^"\r\n]*"))"""
    r"|(?P<number>[0-9]+)(?![\w.])|(?P<word>[A-Za-z_]\w*)|(?P<mark>\|\||&&|[().,])",
    re.ASCII,
)
_QUOTED = re.compile(r"""[rR]?('{3}|"{3}|'|")(.*)\1""", re.DOTALL)
_HEX = re.compile(r"[^0-9a-f]")


class ShardRange(NamedTuple):
    """As written: of the hash of `field`, from `start` up to but not including `end`."""

    field: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class _Node:
    """`text` of a call is its function, of an identifier its name, of a field its own; of a literal
    the string, None where it is of another `type`. `nodes`: arguments, or what the field is of."""

    kind: int
    text: str | None
    nodes: tuple[_Node, ...] = ()
    type: str = ""


def parse_ranges(text: str) -> Sequence[ShardRange]:
    """Raises BadSelector."""
    try:
        ranges = tuple(_ranges(_parsed(text)))
        for each in ranges:
            if each.field != ranges[0].field:
                raise BadSelector(
                    "all shard ranges must use the same field, "
                    f"got {quote(ranges[0].field)} and {quote(each.field)}"
                )
    except BadSelector as error:
        raise BadSelector(f"invalid shard selector: {error}") from error
    return ranges


def _ranges(root: _Node) -> Iterator[ShardRange]:
    # A node for each `||` below the next one: more of them than Python's stack has place for.
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind != _CALL:
            raise BadSelector(
                f"unexpected expression kind {node.kind}; expected shardRange() call or || operator"
            )
        if node.text == "_||_":
            waiting.extend(reversed(node.nodes))
        elif node.text == "shardRange":
            yield _range(node.nodes)
        else:
            said = f"unsupported function {quote(node.text or '')}"
            raise BadSelector(f"{said}; only shardRange() and || are allowed")


def _range(arguments: Sequence[_Node]) -> ShardRange:
    if len(arguments) != 3:
        raise BadSelector(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
    field = _field(arguments[0])
    if field not in (UID, NAMESPACE):
        raise BadSelector(f"unsupported field path {quote(field)}; supported: {UID}, {NAMESPACE}")
    start, end = _bound(arguments[1], "hexStart"), _bound(arguments[2], "hexEnd")
    if int(start, 16) >= int(end, 16):
        raise BadSelector(f"shard range start {start} must be less than end {end}")
    return ShardRange(field, start, end)


def _field(node: _Node) -> str:
    names: list[str] = []
    while node.kind == _SELECT:
        names.append(node.text or "")
        node = node.nodes[0]
    if node.kind != _IDENT:
        raise BadSelector(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), "
            f"got expression kind {node.kind}"
        )
    return ".".join([node.text or "", *reversed(names)])


def _bound(node: _Node, name: str) -> str:
    if node.kind != _LITERAL:
        said = f"must be a string literal (e.g. '0xff'), got expression kind {node.kind}"
        raise BadSelector(f"{name} {said}")
    text = node.text
    if text is None:
        raise BadSelector(f"{name} must be a string literal, got {node.type}")
    if not text.startswith("0x"):
        raise BadSelector(f"{name} must have '0x' prefix, got {quote(text)}")
    digits = text.removeprefix("0x")
    if not digits:
        raise BadSelector(f"{name}: hex value is required after '0x'")
    # Go counts bytes.
    size = len(digits.encode())
    if size > _DIGITS + 1:
        said = f"hex value too long ({size} chars, max {_DIGITS + 1}): {quote(digits)}"
        raise BadSelector(f"{name}: {said}")
    if wrong := _HEX.search(digits):
        raise BadSelector(f"{name}: invalid hex character {quote(wrong[0])} in {quote(text)}")
    if size > _DIGITS and text != END:
        said = f"17-digit hex value must be '{END}' (2^64), got {quote(text)}"
        raise BadSelector(f"{name}: {said}")
    if size < _DIGITS:
        meant = quote(f"0x{digits:0>{_DIGITS}}")
        said = f"a 0x-prefixed 16-digit hex value, got {quote(text)} (did you mean {meant}?)"
        raise BadSelector(f"{name} must be {said}")
    return text


def _parsed(text: str) -> _Node:
    size = len(text.strip())
    if not size:
        raise BadSelector(
            "empty shard selector is not allowed; omit the parameter for unfiltered lists"
        )
    if size > _LONGEST:
        raise _syntax(f"expression code point size exceeds limit: size: {size}, limit {_LONGEST}")
    return _ShardParser(text).parse()


class _ShardParser:
    """Of `||`, `&&`, parentheses, fields, calls and literals."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> _Node:
        node = self._either()
        if (rest := self._peek()) is not None:
            raise _syntax(f"unexpected {quote(rest)}")
        return node

    def _either(self) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _syntax(f"expression recursion limit exceeded: {_DEEPEST}")
        node = self._both()
        while self._takes("||"):
            node = _Node(_CALL, "_||_", (node, self._both()))
        self._depth -= 1
        return node

    def _both(self) -> _Node:
        node = self._member()
        while self._takes("&&"):
            node = _Node(_CALL, "_&&_", (node, self._member()))
        return node

    def _member(self) -> _Node:
        node = self._primary()
        while self._takes("."):
            name = self._take("word")
            # What a method is called on is no argument of it.
            is_call = self._takes("(")
            node = (
                _Node(_CALL, name, self._arguments()) if is_call else _Node(_SELECT, name, (node,))
            )
        return node

    def _primary(self) -> _Node:
        if self._takes("("):
            node = self._either()
            self._expect(")")
            return node
        if (literal := self._literal()) is not None:
            return literal
        name = "." * self._takes(".") + self._take("word")
        if self._takes("("):
            return _Node(_CALL, name, self._arguments())
        return _Node(_IDENT, name)

    def _arguments(self) -> tuple[_Node, ...]:
        if self._takes(")"):
            return ()
        found = [self._either()]
        while self._takes(","):
            found.append(self._either())
        self._expect(")")
        return tuple(found)

    def _literal(self) -> _Node | None:
        token = self._match()
        if token is None or token.lastgroup not in ("string", "number"):
            return None
        self._at = token.end()
        if token.lastgroup == "number":
            return _Node(_LITERAL, None, type="int64")
        quoted = _QUOTED.fullmatch(token[0])
        if quoted is None:
            return _Node(_LITERAL, None, type="[]uint8")
        if "\\" in quoted[2]:
            raise _syntax("a string with a backslash")
        return _Node(_LITERAL, quoted[2])

    def _match(self) -> re.Match[str] | None:
        """The next token; None at the end and at what is none."""
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None  # it matches the empty text too
        self._at = blank.end()
        return _TOKEN.match(self._text, self._at)

    def _peek(self) -> str | None:
        """The next token or, where it is none, character; None at the end."""
        token = self._match()
        return token[0] if token else self._text[self._at : self._at + 1] or None

    def _takes(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._at += len(mark)
        return True

    def _take(self, group: str) -> str:
        token = self._match()
        if token is None or token.lastgroup != group:
            raise _syntax(f"unexpected {quote(self._peek() or '<EOF>')}")
        self._at = token.end()
        return token[0]

    def _expect(self, mark: str) -> None:
        if not self._takes(mark):
            raise _syntax(f"missing '{mark}' at {quote(self._peek() or '<EOF>')}")


def _syntax(what: str) -> BadSelector:
    return BadSelector(f"CEL parse error: {what}")
