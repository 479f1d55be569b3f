"""The map of the code is true of what GM, LC and both share."""

import ast
import re
from pathlib import Path

import pytest

from tests.unit.repository.checkout import DOCUMENTS, ROOT, document, section

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


def test_one_kubernetes_version_is_named_for_the_policy_of_node_reports() -> None:
    policy = (ROOT / "manifests/nodereport-policy/policy.yaml").read_text(encoding="utf-8")
    lines = [it for name in DOCUMENTS for it in document(name).splitlines()]
    about = [policy, *(it for it in lines if "nodereport-policy" in it and it.startswith("|"))]
    named = [re.findall(r"Kubernetes (1\.\d+)", it) for it in about]
    assert sum(map(len, named)) >= 3
    assert {version for versions in named for version in versions} == {"1.31"}


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
