"""What lies in the repository works on every machine: nothing in it knows one machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, document, tracked_files, tracked_texts

# Written in halves, so that this file does not name them either.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("npmjs", "org"),
        ("deb.debian", "org"),
    )
)
LOCKS = ROOT / "tools" / "requirements"
STANDARD = set(sys.stdlib_module_names)
PROGRAMS = {
    "elector-sidecar": "elector-sidecar/elector_sidecar/__main__.py",
    "relay-sidecar": "relay-sidecar/relay_sidecar/__main__.py",
    "pool-sidecar": "pool-sidecar/pool_sidecar/__main__.py",
    "sedna-gm": "gm/gm/__main__.py",
    "sedna-lc": "lc/lc/__main__.py",
}
REQUIREMENTS = sorted(f"tools/requirements/{path.name}" for path in LOCKS.glob("*.txt"))
SCRIPTS = sorted(path.name for path in (ROOT / "tools" / "scripts").iterdir())


def test_no_file_names_a_registry() -> None:
    """Which registry is used is the machine's own setting."""
    for name, text in tracked_texts():
        for host in REGISTRIES:
            assert host not in text, f"{name} names {host}"


def test_no_file_names_a_path_of_this_machine() -> None:
    own = [path for path in (ROOT, Path.home()) if len(path.parts) > 1]
    patterns = [re.compile(rf"(?<![\w.}}-]){re.escape(str(path))}/") for path in own]
    # But for where Sedna mounts the data of its workers.
    patterns.append(re.compile("/" + r"home/(?!data/)\w+/"))
    for name, text in tracked_texts():
        for pattern in patterns:
            found = pattern.search(text)
            assert not found, f"{name} has {text[found.start() : found.start() + 80]!r}"


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_requirements_are_pinned_and_hashed_and_have_no_url(name: str) -> None:
    text = document(name)
    assert "://" not in text
    assert "--index" not in text
    packages = re.findall(r"^[a-zA-Z0-9].*?(?=^[a-zA-Z0-9]|\Z)", text, re.M | re.S)
    assert packages
    for package in packages:
        assert re.match(r"[\w.\[\]-]+==[\w.+!]+", package), package.splitlines()[0]
        assert "--hash=sha256:" in package, package.splitlines()[0]


def test_the_demos_packages_are_those_of_development_at_the_same_versions() -> None:
    demo, dev = (
        set(re.findall(r"^([\w.-]+==[^ ;]+)", document(f"tools/requirements/{name}.txt"), re.M))
        for name in ("demo", "dev")
    )
    assert demo < dev


def test_there_is_one_lock_file_per_purpose() -> None:
    names = {str(path.relative_to(ROOT)) for path in tracked_files()}
    assert {name for name in names if name.endswith(".lock")} == {"examples/mains/rust/Cargo.lock"}


@pytest.mark.parametrize("name", [*(f"tools/scripts/{script}" for script in SCRIPTS), ".ci/run"])
def test_scripts_can_be_run_and_stop_at_the_first_error(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)
    lines = document(name).splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "set -eu" in lines


def test_the_licence_is_the_whole_one_and_the_one_that_is_declared() -> None:
    text = document("LICENSE")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in document("pyproject.toml")


def test_no_module_has_a_name_of_the_standard_library() -> None:
    """A script's own directory comes first on Python's path: its modules replace the library's."""
    names = [path.relative_to(ROOT).with_suffix("") for path in tracked_files() if _is_module(path)]
    parts = {str(name): set(name.parts) - {"__main__", "__init__"} for name in names}
    assert {name: found for name in parts if (found := parts[name] & STANDARD)} == {}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_starts_by_the_path_of_its_file(program: str) -> None:
    """Without `site`, which imports much of the standard library before the script's directory
    is on the path."""
    started = subprocess.run(
        [sys.executable, "-S", str(ROOT / PROGRAMS[program]), "--help"],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 0, started.stderr
    assert f"usage: {program}" in started.stdout


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" and path.parent != ROOT
