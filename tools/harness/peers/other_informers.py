"""Informers that are not client-go's, as processes: fabric8's in Java, @kubernetes/client-node's in
JavaScript, each on the ConfigMaps of one namespace.

Owns: which versions there are (`fabric8/pom.xml`, `clientnode/package-lock.json`) and where what
they stand on lies. A process prints a line for each change that its handlers hear of (`ADDED name`,
`MODIFIED name`, `DELETED name`); asked for `list` or `get NAME` it prints `LISTED a,b`, `GOT name`
or `REFUSED code`. fabric8's says how each of its watches was answered: `WATCHED 101`.
Guarantees: `stop` leaves no process behind; what is returned by `command_of` is complete.
"""

import hashlib
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tools.harness.controlplane.build import BuildError, Program, _cached_path, _locked, _say

HERE: Final = Path(__file__).parent
# Seconds: a JVM beside a full test run.
PATIENCE: Final = 90.0
POLL_INTERVAL: Final = 0.05
# Seconds for what a registry has to send; some 30 MB.
BUILD_TIMEOUT: Final = 600.0
# Lines of a failed build that the error shows.
MESSAGE_LINES: Final = 30


@dataclass(frozen=True)
class Client:
    """`tools`: the programs that it needs, each with the package of Debian that has it."""

    name: str
    folder: Path
    tools: Sequence[tuple[str, str]]
    build: Callable[[Path, Path], None]
    command: Callable[[Path], Sequence[str]]

    @property
    def missing(self) -> list[str]:
        """Packages of Debian that have to be installed first."""
        return [package for tool, package in self.tools if shutil.which(tool) is None]


def command_of(client: Client) -> list[str]:
    """The program, without its arguments; built first where it is missing. Raises BuildError."""
    source = client.folder
    digest = hashlib.sha256()
    for path in sorted(it for it in source.rglob("*") if it.is_file()):
        digest.update(path.read_bytes())
    target = _cached_path(Program(client.name, client.name, digest.hexdigest()[:12], "."))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock", waiting_for=client.name):
        if not target.exists():
            _say(f"{client.name}: building, for the first time on this machine only")
            partial = target.with_name(f".{target.name}")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(source, partial)
            client.build(source, partial)
            partial.rename(target)
    return list(client.command(target))


def _build_fabric8(source: Path, target: Path) -> None:
    jars = target / "lib"
    maven = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies"]
    run_build([*maven, f"-DoutputDirectory={jars}"], target)
    run_build(["javac", "-cp", f"{jars}/*", "-d", str(target), "InformerProgram.java"], target)


def _build_client_node(source: Path, target: Path) -> None:
    run_build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target)


def run_build(
    command: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None
) -> None:
    """Raises BuildError with the end of its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT,
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stdout.splitlines()[-MESSAGE_LINES:])
        raise BuildError(f"{command[0]} failed with {done.returncode}:\n{said}")


FABRIC8: Final = Client(
    "fabric8-informer",
    HERE / "fabric8",
    (("mvn", "maven"), ("javac", "default-jdk-headless"), ("java", "default-jdk-headless")),
    _build_fabric8,
    # Two threads compile what is used for seconds only.
    lambda at: ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{at}:{at}/lib/*", "InformerProgram"),
)
CLIENT_NODE: Final = Client(
    "client-node-informer",
    HERE / "clientnode",
    (("node", "nodejs"), ("npm", "npm")),
    _build_client_node,
    lambda at: ("node", str(at / "informer.mjs")),
)


class OtherInformer:
    """A running informer; `lines` is what it has said."""

    def __init__(self, client: Client, kubeconfig: Path, namespace: str) -> None:
        self._command = [*command_of(client), str(kubeconfig), namespace]
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self._log = Path(self._command[-2]).with_suffix(".log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def wait_said(self, *expected: str, timeout: float = PATIENCE) -> None:
        """Returns when it has said all of this, in whatever order."""
        self._wait(lambda: set(expected) <= set(self.lines), timeout, str(expected))

    def ask(self, question: str) -> str:
        """`list` or `get NAME`."""
        before = len(self._answers)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        self._wait(lambda: len(self._answers) > before, PATIENCE, question)
        return self._answers[before]

    @property
    def changes(self) -> list[str]:
        kinds = ("ADDED", "MODIFIED", "DELETED")
        return [line for line in self.lines if line.startswith(kinds)]

    @property
    def _answers(self) -> list[str]:
        return [it for it in self.lines if it.startswith(("LISTED", "GOT", "REFUSED"))]

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            has_ended = self._process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                log = Path(self._log.name).read_text(encoding="utf-8")[-3000:]
                why = "it has ended" if has_ended else f"not within {timeout:g} s"
                raise AssertionError(f"{why}: {what}; it said {self.lines[-20:]}; {log}")
            time.sleep(POLL_INTERVAL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())
