"""The map of the code is true of what GM, LC and both share."""

import ast
import re
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, section

PACKAGES = {
    name: ROOT / folder / name
    for folder, name in (("sedna-api", "sedna_api"), ("gm", "gm"), ("lc", "lc"))
}


def _rows(name: str) -> str:
    """The part of the map from a component's row to the next component's."""
    text = section("CONTRIBUTING.md", "Map of the code")
    found = re.search(rf"^\| \*\*`[a-z-]+/{name}/`\*\*.*?(?=^\| \*\*)", text, re.M | re.S)
    assert found, name
    return found[0]


def _folders(package: Path) -> set[str]:
    return {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}


@pytest.mark.parametrize("name", PACKAGES)
def test_the_map_names_each_package_and_no_other(name: str) -> None:
    named = set(re.findall(r"`([a-z_]+)/`", _rows(name)))

    assert _folders(PACKAGES[name]) <= named
    inner = {it for folder in _folders(PACKAGES[name]) for it in _folders(PACKAGES[name] / folder)}
    assert named <= _folders(PACKAGES[name]) | inner


def test_the_map_names_each_module_that_gm_and_lc_share() -> None:
    rows = _rows("sedna_api")
    for path in PACKAGES["sedna_api"].glob("*.py"):
        if path.stem != "__init__" and "_pb2" not in path.stem:
            assert f"`{path.name}`" in rows


def test_the_shared_core_names_each_of_its_modules() -> None:
    core = PACKAGES["sedna_api"] / "core"
    source = (core / "__init__.py").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(source)) or ""))

    assert {path.stem for path in core.glob("*.py")} - {"__init__"} <= words
