"""Builds the programs on client-go that our sidecars meet in tests: the candidate
(`tools/harness/peers/clientgo`) against several client-go versions, the informer
(`tools/harness/peers/informer`), the operator of `examples/sharded-operator`.

Owns: which versions there are (one module file each) and where the binaries lie.
Guarantees: the same source for all versions, the locked dependencies (a module file that does
not match its sums fails the build), a new binary whenever source or module files change; else
those of tools/harness/controlplane/build.py, whose toolchain, cache and lock it uses.
Runs as `python3 -m tools.harness.peers.build [VERSION...]` and prints one path per program; with
versions, candidates of these only.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tempfile
import time
from pathlib import Path

from tools.harness.controlplane.build import (
    BuildError,
    Program,
    _cached_path,
    _locked,
    _run_with_progress,
    _say,
    go_toolchain,
)

SOURCE = Path(__file__).parent / "clientgo"
INFORMER_SOURCE = Path(__file__).parent / "informer"
EXAMPLE_SOURCE = Path(__file__).parents[3] / "examples" / "sharded-operator"
# The oldest version in wide use without the fast path of renewals (before 1.30), the first one
# with it, the reference of the benchmarks, and the newest.
MODULE_FILES = {
    "0.26": "go-0.26.mod",
    "0.30": "go-0.30.mod",
    "0.36": "go-0.36.mod",
    "0.37": "go.mod",
}


def candidate_binary(version: str) -> Path:
    """The candidate built against client-go `version`, one of MODULE_FILES; built first where
    it is missing. Raises BuildError."""
    return _binary("client-go-candidate", _module_file(version))


def informer_binary() -> Path:
    """The informer, as `candidate_binary`."""
    return _binary("client-go-informer", INFORMER_SOURCE / "go.mod")


def sharded_operator_binary() -> Path:
    """The example of an operator with shards, as `candidate_binary`."""
    return _binary("sharded-operator", EXAMPLE_SOURCE / "go.mod")


def client_go_version(version: str) -> str:
    """The full version that `version` stands for, as in the candidate's user agent: `0.37.2`."""
    return _required_client_go(_module_file(version))


def _module_file(version: str) -> Path:
    if version not in MODULE_FILES:
        known = ", ".join(MODULE_FILES)
        raise BuildError(f"no candidate for client-go {version}: there are {known}")
    return SOURCE / MODULE_FILES[version]


def _required_client_go(module_file: Path) -> str:
    manifest = module_file.read_text(encoding="utf-8")
    found = re.search(r"^\s*k8s\.io/client-go v(\S+)$", manifest, re.MULTILINE)
    if found is None:
        raise BuildError(f"{module_file} does not require k8s.io/client-go")
    return found.group(1)


def _binary(name: str, module_file: Path) -> Path:
    return local_binary(name, module_file, version=f"v{_required_client_go(module_file)}")


def local_binary(name: str, module_file: Path, *, version: str) -> Path:
    """The program of the sources beside its module file, as `candidate_binary`; the cache has it
    under its name, version and sources."""
    program = _program(name, module_file, version)
    target = _cached_path(program)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock", waiting_for=f"{program.name} {program.version}"):
        if not target.exists():
            _build(program, module_file, target)
    return target


def _program(name: str, module_file: Path, version: str) -> Program:
    digest = hashlib.sha256()
    sources = sorted(module_file.parent.glob("*.go"))
    for path in (*sources, module_file, module_file.with_suffix(".sum")):
        digest.update(path.read_bytes())
    return Program(name, name, f"{version}-{digest.hexdigest()[:12]}", ".")


def _build(program: Program, module_file: Path, target: Path) -> None:
    go = go_toolchain()
    started = time.monotonic()
    _say(f"{program.name} {program.version}: building, for the first time on this machine only")
    # The output lies beside its target, so that the rename stays on one file system.
    output = target.with_name(f".{target.name}")
    command = [str(go), "build", "-C", str(module_file.parent), "-mod=readonly"]
    command += [f"-modfile={module_file.name}", "-v", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags=-s -w", "-o", str(output)]
    try:
        with tempfile.TemporaryDirectory(prefix="edge-sidecars-build-") as folder:
            _run_with_progress(program, [*command, program.package], go, Path(folder))
        output.rename(target)
    finally:
        output.unlink(missing_ok=True)
    _say(f"{program.name} {program.version}: built in {time.monotonic() - started:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = " ".join(MODULE_FILES)
    parser.add_argument(
        "versions",
        nargs="*",
        metavar="VERSION",
        help=f"default: {known}, the informer and the example",
    )
    arguments = parser.parse_args()
    try:
        for version in arguments.versions or MODULE_FILES:
            print(candidate_binary(version), flush=True)
        if not arguments.versions:
            print(informer_binary(), flush=True)
            print(sharded_operator_binary(), flush=True)
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
