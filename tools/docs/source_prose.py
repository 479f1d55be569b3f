"""Docstrings and comments as prose: what the linter of the manuals reads of the source.

Owns where prose begins and ends in a module. Drawings, lists of fields and directives to tools are
not prose: an indented line, one with a gap of three blanks, one that a tool reads.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Each component's package, by the folder in which it is.
PACKAGES = (
    *("lib/edge_sidecars", "elector-sidecar/elector_sidecar", "relay-sidecar/relay_sidecar"),
    *("relay-sidecar/relay_node", "pool-sidecar/pool_sidecar", "gm/gm", "lc/lc"),
)
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_DIRECTIVE = re.compile(r"(?:type:|noqa|pragma:|fmt:|!)")
_FIELD = re.compile(r"^`\w+`: ")
_DRAWING = re.compile(r"^(?: {4}|\|)|\S {3,}\S")


@dataclass(frozen=True)
class Passage:
    """`line`: where it begins. `is_public`: the docstring of a class or function that other modules
    may use."""

    line: int
    text: str
    is_public: bool = False


def modules(root: Path) -> dict[str, str]:
    """The text of each module of the packages."""
    found = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return {str(it.relative_to(root)): it.read_text(encoding="utf-8") for it in found}


def passages(text: str) -> Iterator[Passage]:
    """Docstrings, then comments, of one module."""
    yield from _docstrings(ast.parse(text), is_public=True)
    yield from _comments(text)


def _docstrings(node: ast.AST, *, is_public: bool) -> Iterator[Passage]:
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "") if isinstance(child, _Documented) else ""
        yield from _docstrings(child, is_public=is_public and not name.startswith("_"))
    if isinstance(node, _Documented) and (found := ast.get_docstring(node)):
        is_named = is_public and not isinstance(node, ast.Module)
        yield Passage(node.body[0].lineno, _without_drawings(found), is_named)


def _comments(text: str) -> Iterator[Passage]:
    """Lines that follow one another are one passage."""
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.string.lstrip("#")
        if lines and token.start[0] != first + len(lines):
            yield Passage(first, "\n".join(lines))
            lines = []
        if not _DIRECTIVE.match(line.strip()):
            first = first if lines else token.start[0]
            lines.append(line.removeprefix(" "))
    if lines:
        yield Passage(first, "\n".join(lines))


def _without_drawings(text: str) -> str:
    """With the same lines; each of a list of fields is an item."""
    lines = ("" if _DRAWING.search(line) else line for line in text.splitlines())
    return "\n".join(_FIELD.sub(r"- \g<0>", line) for line in lines)
