"""The recorded faults, and whether they still fit the source.

Guarantees: the old text of a mutant occurs exactly once in its file, and the file with the new text
is still Python.
"""

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.toml")


class Outdated(Exception):
    """The fault does not fit the source, or a test of it does not exist."""


@dataclass(frozen=True)
class Mutant:
    """One fault. `tests`: node ids without parameters, each of which must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def source(self) -> str:
        """The file with the fault."""
        path = CHECKOUT / self.file
        if not path.is_file():
            raise Outdated(f"{self.name}: {self.file} does not exist")
        text = path.read_text()
        if (count := text.count(self.old)) != 1:
            raise Outdated(f"{self.name}: {self.file} contains {count} times {self.old!r}")
        if self.old == self.new:
            raise Outdated(f"{self.name}: changes nothing")
        changed = text.replace(self.old, self.new)
        compile(changed, self.file, "exec")
        return changed

    def check_tests(self) -> None:
        """Raises `Outdated` for a test that does not exist."""
        for node in self.tests:
            file, _, name = node.partition("::")
            if name not in _tests(CHECKOUT / file):
                raise Outdated(f"{self.name}: {node} does not exist")


def read() -> list[Mutant]:
    entries = tomllib.loads(TABLE.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@cache
def _tests(path: Path) -> set[str]:
    """The tests of a file by name; none where there is no such file."""
    if not path.is_file():
        return set()
    found = ast.walk(ast.parse(path.read_text()))
    return {it.name for it in found if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)}
