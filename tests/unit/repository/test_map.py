"""The map of the code in CONTRIBUTING.md names what is there, and nothing else."""

import re
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, section, tracked_files

PACKAGES = (
    *sorted(
        str(it.relative_to(ROOT)) for it in (ROOT / "lib/edge_sidecars").iterdir() if it.is_dir()
    ),
    "elector-sidecar/elector_sidecar",
    "relay-sidecar/relay_sidecar",
    "relay-sidecar/relay_node",
    "pool-sidecar/pool_sidecar",
    "gm/gm",
    "lc/lc",
    *sorted(str(it.relative_to(ROOT)) for it in (ROOT / "tools").iterdir() if it.is_dir()),
)
PACKAGES = tuple(it for it in PACKAGES if not it.endswith("__pycache__"))


def rows(package: str) -> str:
    """A package's row and those of its folders, up to the next package's."""
    text = section("CONTRIBUTING.md", "Map of the code")
    found = re.search(rf"^\| \*\*`{package}/`\*\*.*?(?=^\| \*\*|\Z)", text, re.M | re.S)
    assert found, f"{package}/ has no row in the map"
    return found[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_names_each_folder_and_each_module_beside_it(package: str) -> None:
    folders = {it.parent.name for it in (ROOT / package).glob("*/__init__.py")}
    is_tool = package.startswith("tools/")
    modules = {it.name for it in (ROOT / package).glob("*.py")} - {"__init__.py"}
    text = rows(package)
    named = set(re.findall(r"`([a-z_0-9]+(?:/|\.py))`", text))
    if folders:
        below = {it.name for it in (ROOT / package).rglob("*.py")}
        below |= {f"{it.parent.name}/" for it in (ROOT / package).rglob("__init__.py")}
        assert named <= below, "no longer there"
        assert {f"{it}/" for it in folders} <= named, "not in the map"
        assert is_tool or modules <= named, "not in the map"


def test_each_folder_of_the_top_is_in_the_map() -> None:
    text = section("CONTRIBUTING.md", "Map of the code")
    top = {
        path.relative_to(ROOT).parts[0]
        for path in tracked_files()
        if len(path.relative_to(ROOT).parts) > 1
    }
    for name in top - {".ci", ".github"}:
        assert f"`{name}/" in text, name


def test_a_package_says_at_its_head_what_it_owns() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            if package.startswith("tools/") or path.read_text(encoding="utf-8").startswith('"""'):
                continue
            assert path.parent == ROOT / package, f"{Path(path).relative_to(ROOT)} has no docstring"
