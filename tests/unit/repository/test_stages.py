"""The two stages of the tests: each test is in one of them, continuous integration plays both, and
the package list of what they need is one."""

import itertools
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, document
from tools.harness.browser import PICTURES

MARKS = ("slow", "long", "manual")
# Played in neither stage, each beside a smaller case that is.
MANUAL = {
    "tests/integration/elector/shards/test_drills.py",
    "tests/integration/pool/test_host_signs.py",
    "tests/integration/relay/link/test_restored.py",
    "tests/integration/relay/link/test_soak.py",
    "tests/integration/relay/node/test_install.py",
    "tests/node/test_doctor.py",
    "tests/node/test_elector_image.py",
    "tests/strangers/test_strangers.py",
}
# Played by a target of its own only, but for one file.
OWN_TARGET = {"tests/node/": "test-node"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With stand-ins for what the scripts call, which write their arguments into `calls`."""
    for name in (".ci/run", "tools/scripts/test"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("bootstrap", "lint", "test-deps", "test-kubernetes"):
        status = f"${{{name.replace('-', '_')}:-0}}"
        _stand_in(tmp_path / "tools" / "scripts" / name, status=status)
    _stand_in(tmp_path / "programs" / "make", status="$(eval echo \\${$(echo $1 | tr - _):-0})")
    _stand_in(
        tmp_path / ".venv" / "bin" / "python",
        status="$(case $* in *pytest*) echo ${pytest:-0};; *mutants) echo ${mutants:-0};;"
        " *) echo 0;; esac)",
    )
    return tmp_path


def _stand_in(path: Path, *, status: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f'#!/bin/sh\necho "{path.name} $*" >>"$CALLS"\nexit {status}\n'
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(checkout: Path, *command: str, **environ: str) -> tuple[int, list[str]]:
    """Exit status, and what was called."""
    calls = checkout / "calls"
    calls.write_text("", encoding="utf-8")
    path = f"{checkout / 'programs'}:{os.environ['PATH']}"
    done = subprocess.run(
        [checkout / command[0], *command[1:]],
        env={"PATH": path, "CALLS": str(calls), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, calls.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("failing", "status"),
    [({}, 0), ({"test": "2"}, 2), ({"test_long": "2"}, 2), ({"test": "2", "test_long": "1"}, 1)],
)
def test_ci_plays_both_stages_whatever_the_first_one_finds(
    checkout: Path, failing: dict[str, str], status: int
) -> None:
    result, calls = run(checkout, ".ci/run", **failing)
    assert result == status
    assert [call.partition(" ARGS=")[0] for call in calls] == [
        "test-deps ",
        "make test",
        "make test-long",
    ]
    assert all("--reruns=2" in call for call in calls[1:])


def test_ci_names_and_keeps_the_folder_of_the_pages_pictures() -> None:
    folder = str(PICTURES.relative_to(ROOT))
    assert f'are kept in {folder}"' in document(".ci/run")
    assert f"          path: {folder}/\n" in document(".github/workflows/ci.yml")


@pytest.mark.parametrize("status", ["0", "2"])
def test_ci_of_an_older_kubernetes_plays_its_tests_only(checkout: Path, status: str) -> None:
    result, calls = run(checkout, ".ci/run", KUBERNETES="v1.34.4", test_kubernetes=status)
    assert result == int(status)
    assert [call.partition(" ARGS=")[0] for call in calls] == [
        "test-deps ",
        "make test-kubernetes KUBERNETES=v1.34.4",
    ]


def expression(checkout: Path, stage: str) -> str:
    """The marks that the stage chooses."""
    status, calls = run(checkout, "tools/scripts/test", stage, "-x")
    assert status == 0
    (played,) = (call for call in calls if "--numprocesses" in call)
    found = re.search(r"-m pytest .* -m (.*) -x$", played)
    assert found, calls
    return found[1]


def test_each_test_that_is_not_manual_is_in_exactly_one_stage(checkout: Path) -> None:
    stages = [expression(checkout, stage) for stage in ("short", "long")]
    for size in range(len(MARKS) + 1):
        for marks in itertools.combinations(MARKS, size):
            has = {mark: mark in marks for mark in MARKS}
            chosen = sum(eval(stage, {}, has) for stage in stages)
            assert chosen == (0 if "manual" in marks else 1), marks


@pytest.mark.parametrize("stage", ["short", "long"])
@pytest.mark.parametrize("failing", ["lint", "mutants", "test_kubernetes", "pytest"])
def test_a_stage_ends_in_pytests_summary_and_fails_as_it_should(
    checkout: Path, stage: str, failing: str
) -> None:
    status, calls = run(checkout, "tools/scripts/test", stage, **{failing: "1"})
    # What can be said without running the code is said beside the tests.
    assert "--numprocesses" in [call for call in calls if not call.startswith("lint")][-1]
    played = {"short": {"lint", "pytest"}, "long": {"mutants", "test_kubernetes", "pytest"}}
    assert status == (1 if failing in played[stage] else 0)


def test_the_long_stage_has_an_older_kubernetes_but_not_for_a_choice_of_tests(
    checkout: Path,
) -> None:
    _, calls = run(checkout, "tools/scripts/test", "long", "--reruns=2")
    assert "test-kubernetes --few v1.34.4 --reruns=2" in calls
    for choice in (["tests/container"], ["-k", "vip"]):
        _, calls = run(checkout, "tools/scripts/test", "long", *choice)
        assert not [call for call in calls if "test-kubernetes" in call or "mutants" in call]


def test_every_file_of_tests_is_in_the_stages_or_has_a_target_of_its_own() -> None:
    options = tomllib.loads(document("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    folders = tuple(f"{path}/".replace(".py/", ".py") for path in options["testpaths"])
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    left_out = [name for name in files if not name.startswith(folders)]
    assert left_out
    for name in left_out:
        (target,) = (target for folder, target in OWN_TARGET.items() if name.startswith(folder))
        assert f"\n{target}: " in document("Makefile")


def test_what_no_stage_plays_is_known() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    mark = "mark." + "manual"
    assert {str(path.relative_to(ROOT)) for path, text in texts.items() if mark in text} == MANUAL


def test_the_packages_are_listed_once_and_a_skip_names_one_of_them() -> None:
    listed = set(re.findall(r"^need \S+ (\S+)", document("tools/scripts/test-deps"), re.M))
    assert "apt-get" not in document(".ci/run")
    for folder in ("tests", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for package in re.findall(r"is missing: apt-get install ([\w.-]+)", text):
                assert package in listed, (path, package)
