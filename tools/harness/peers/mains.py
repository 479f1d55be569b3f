"""The mains of `examples/mains`, one for each language, as programs that are built once."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.harness.controlplane.build import go_environment, go_toolchain
from tools.harness.peers.other_informers import Client, run_build

SOURCE: Final = Path(__file__).parents[3] / "examples" / "mains"


def _build_nothing(source: Path, target: Path) -> None:
    """The source is the program."""


def _build_go(source: Path, target: Path) -> None:
    go = go_toolchain()
    build = [str(go), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", "main", "."]
    run_build(build, target, go_environment(go))


def _build_rust(source: Path, target: Path) -> None:
    run_build(["cargo", "build", "--release", "--locked", "--quiet"], target)


def _build_java(source: Path, target: Path) -> None:
    jars = target / "lib"
    maven = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies"]
    run_build([*maven, f"-DoutputDirectory={jars}"], target)
    run_build(["javac", "-Xlint:all", "-Werror", "-cp", f"{jars}/*", "Main.java"], target)


def _java(at: Path) -> Sequence[str]:
    return ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{at}:{at}/lib/*", "Main")


# Debian's cargo is too old for its lock file, and not every machine reaches a registry of crates.
RUST: Final = Client(
    "main-rust",
    SOURCE / "rust",
    (("cargo", "cargo"),),
    _build_rust,
    lambda at: (str(at / "target" / "release" / "elector-main"),),
)
MAINS: Final = (
    Client(
        "main-python",
        SOURCE / "python",
        (),
        _build_nothing,
        lambda at: (sys.executable, "-I", str(at / "main.py")),
    ),
    Client("main-go", SOURCE / "go", (), _build_go, lambda at: (str(at / "main"),)),
    RUST,
    Client(
        "main-java",
        SOURCE / "java",
        (("mvn", "maven"), ("javac", "default-jdk-headless"), ("java", "default-jdk-headless")),
        _build_java,
        _java,
    ),
    Client(
        "main-node",
        SOURCE / "node",
        (("node", "nodejs"),),
        _build_nothing,
        lambda at: ("node", str(at / "main.mjs")),
    ),
    Client(
        "main-shell",
        SOURCE / "shell",
        (("curl", "curl"), ("awk", "mawk")),
        _build_nothing,
        lambda at: ("sh", str(at / "main.sh")),
    ),
)


def environment(elector: str, ledger: Path) -> dict[str, str]:
    """What each of them is configured by."""
    return {"PATH": os.environ["PATH"], "ELECTOR": elector, "LEDGER": str(ledger)}
