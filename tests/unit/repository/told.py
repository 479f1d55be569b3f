"""What a page of the manuals says in its tables, and the fields of a status document."""

import re
from collections.abc import Iterator
from typing import Any

from tests.unit.repository.checkout import section


def rows(name: str, title: str) -> list[list[str]]:
    """The cells of a section's own tables, without titles and rulers."""
    found = []
    (own, *_) = re.split(r"^##+ ", section(name, title), flags=re.M)
    for table in re.findall(r"(?:^\|.*\n)+", own, re.M):
        for line in table.splitlines()[2:]:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            found.append([cell.strip().replace("\\|", "|") for cell in cells])
    return found


def firsts(name: str, title: str) -> set[str]:
    """What the first column names."""
    return {row[0].strip("`") for row in rows(name, title)}


def told_fields(name: str) -> set[str]:
    """Of the status document, by the section of that name."""
    first = [row[0] for row in rows(name, "The status")]
    return {field for cell in first for field in re.findall(r"`([\w.\[\]]+)`", cell)}


def fields(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The paths of all that a document says; `[]` stands for each of a list."""
    for key, value in document.items():
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, dict):
            yield from fields(inner, f"{prefix}{key}{'[]' if inner is not value else ''}.")
        else:
            yield prefix + key
