"""Runs tests against a copy of a package with a fault; the checkout stays as it is.

A test counts as failed by its own judgement: neither an error of a fixture or at import, nor a
time-out.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.mutants.table import CHECKOUT, Mutant

# Bounds one mutant, in seconds: a fault may make the product loop.
LIMIT = 180
# Bounds one test, in seconds: below LIMIT, so that pytest reports which one hangs.
TEST_LIMIT = 60


@dataclass(frozen=True)
class Outcome:
    """Which of the tests failed, by node id without parameters; `text`: pytest's output."""

    ran: frozenset[str]
    failed: frozenset[str]
    text: str


def run_mutant(mutant: Mutant, tests: Sequence[str] | None = None) -> Outcome:
    source = mutant.source()
    component, package, *inner = Path(mutant.file).parts
    with TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory, package)
        # Compiled files are copied with their sources' times, so that they are valid.
        shutil.copytree(CHECKOUT / component / package, copy)
        changed = copy.joinpath(*inner)
        changed.write_text(source)
        for compiled in (changed.parent / "__pycache__").glob(f"{changed.stem}.*.pyc"):
            compiled.unlink()
        return run(mutant.tests if tests is None else tests, before_path=directory)


def run(tests: Sequence[str], *, before_path: str = "") -> Outcome:
    with TemporaryDirectory(prefix="mutant-") as directory:
        verdict = Path(directory, "verdict")
        verdict.touch()
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
        command += ["-p", "tools.mutants.verdict", f"--timeout={TEST_LIMIT}", *tests]
        if len(tests) == 1:
            command.append("-x")
        environment = {**os.environ, "PYTHONPATH": before_path, "MUTANT_VERDICT": str(verdict)}
        try:
            done = subprocess.run(
                command,
                cwd=CHECKOUT,
                env=environment,
                timeout=LIMIT,
                capture_output=True,
                text=True,
                check=False,
            )
            text = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            text = f"nothing after {LIMIT}s"
        lines = [json.loads(it) for it in verdict.read_text().splitlines()]
    failed = {
        _without_parameters(node)
        for node, when, outcome, reason in lines
        if (when, outcome) == ("call", "failed") and "Timeout (>" not in reason
    }
    return Outcome(frozenset(_without_parameters(it[0]) for it in lines), frozenset(failed), text)


def _without_parameters(node: str) -> str:
    return node.partition("[")[0]
