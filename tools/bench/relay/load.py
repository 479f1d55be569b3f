"""Runs the load program (tools/bench/relay/load): one process per command, its report as JSON.

Guarantees: no process outlives the benchmark; a load that could not be made raises `LoadFailed`
with what the program said; a broken promise of the server is in the report, not raised.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tools.harness.peers.build import local_binary

SOURCE = Path(__file__).parent / "load"
Json = dict[str, Any]


class LoadFailed(Exception):
    """The program ended without a report."""


class Load:
    """Starts commands; `guard` gets the id of each process."""

    def __init__(self, guard: Callable[[int], None]) -> None:
        self._binary = local_binary("bench-load", SOURCE / "go.mod", version="v1")
        self._guard = guard

    def prepared(self, command: str, *flags: str) -> "Running":
        """A command that is about to begin, and waits for `go`; raises `LoadFailed`."""
        return Running(self._started(command, flags), command)

    def run(self, command: str, *flags: str) -> Json:
        """Its report, from the beginning to the end; raises `LoadFailed`."""
        with self.prepared(command, *flags) as running:
            return running.finish()

    def _started(self, command: str, flags: tuple[str, ...]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(self._binary), command, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._guard(process.pid)
        return process


class Running:
    """One command; ready when made, working after `go`, ended by `finish` or with its block."""

    def __init__(self, process: "subprocess.Popen[str]", command: str) -> None:
        self._process = process
        self._command = command
        self._is_going = False
        assert process.stdout is not None
        if not process.stdout.readline():
            _, errors = process.communicate()
            raise LoadFailed(errors.strip() or f"{command} ended early")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def go(self) -> None:
        """It begins."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._is_going = True

    def finish(self) -> Json:
        """Its report, when its time is over."""
        if not self._is_going:
            self.go()
        return self._report()

    def stop(self) -> Json:
        """Its report, from now on without waiting for its time."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        return self._report()

    def _report(self) -> Json:
        assert self._process.stdout is not None
        # Its standard input stays open: its end would end the work.
        output = self._process.stdout.readline()
        _, errors = self._process.communicate()
        if not output:
            raise LoadFailed(f"{self._command}: {errors.strip()}")
        report: Json = json.loads(output)
        return report
