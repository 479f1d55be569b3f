"""Bad input of any program: one line on standard error with the value and the remedy, status 2."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lib.runtime.bad_inputs import ALL, BadInput, prepare
from tools.harness.processes.command import run_program
from tools.harness.processes.forks import PACKAGES

# Modules that are started by their name.
MODULES = {"demo": "tools.demo", "images": "tools.images"}
ROOT = Path(__file__).parents[4]
# Seconds; one that is taken for good input runs on.
TIMEOUT = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    prepare(made)
    return made


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize("row", ALL, ids=str)
def test_bad_input_is_one_line_with_the_value_and_the_remedy(
    row: BadInput, folder: Path, port: int
) -> None:
    def filled(text: str) -> str:
        return text.replace("{tmp}", str(folder)).replace("{port}", str(port))

    program, *arguments = map(filled, row.command.split())
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    environ |= {name: filled(value) for name, value in row.environ.items()}
    if program in PACKAGES and not row.missing:
        done = run_program(program, *arguments, environ=environ, cwd=ROOT)
    else:
        done = subprocess.run(
            [*_start(program, row.missing), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            cwd=ROOT,
            env=environ,
        )
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert [it for it in map(filled, row.named) if it not in done.stderr] == [], done.stderr
    assert done.returncode == 2, done.stderr


def _start(program: str, missing: str) -> list[str]:
    if program in MODULES:
        return [sys.executable, "-m", MODULES[program]]
    code = f"import sys; sys.modules[{missing!r}] = None; import {PACKAGES[program]}.__main__ as it"
    return [sys.executable, "-c", f"{code}; it.main()"]


def test_there_are_inputs_of_each_program() -> None:
    assert {it.command.split()[0] for it in ALL} == {*PACKAGES, *MODULES}
