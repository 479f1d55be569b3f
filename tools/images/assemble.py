"""What is in an image: COMPONENT's locked packages, our own that it imports, and its program.

Runs in the build stage, with nothing but Python; the table below is the only place that says
which image carries what. The locked packages are held to their hashes. Left out is what no import
reaches: tests, sources of extensions, typing stubs. All is compiled, as nothing can be at run time.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Component:
    """`program` is the command; `package` is its own, `library` is what it imports of
    `edge_sidecars`. `old_program`: the command of the release before. `beside`: packages of
    further sub-commands."""

    program: str
    package: str
    library: tuple[str, ...]
    old_program: str = ""
    beside: tuple[str, ...] = ()

    @property
    def image(self) -> str:
        """Its name."""
        return self.package.replace("_", "-")


LIBRARY = "edge_sidecars"
_SHARED = ("runtime", "kubeapi", "apimachinery")
_OF_CONTROLLERS = (*_SHARED, "controllers", "leader_client")
COMPONENTS = {
    "elector": Component("elector-sidecar", "elector_sidecar", _SHARED),
    "relay": Component(
        "relay-sidecar", "relay_sidecar", (*_SHARED, "walstore"), beside=("relay_node",)
    ),
    "pool": Component("pool-sidecar", "pool_sidecar", _OF_CONTROLLERS),
    "gm": Component("sedna-gm", "gm", (*_OF_CONTROLLERS, "sedna_api"), "gm"),
    "lc": Component("sedna-lc", "lc", (*_SHARED, "sedna_api", "walstore"), "lc"),
}


# An import reads none of them: sources of extensions, typing stubs, what sources are made from.
_UNREAD = {".c", ".cc", ".cpp", ".h", ".pxd", ".pxi", ".pyi", ".pyx", ".proto"}
# -OO: without docstrings, which take 1.4 MiB of a process.
_LAUNCHER = """#!{python} -IBOO
import sys
sys.path[:0] = [{sources!r}, {library!r}]
from {package}.__main__ import {function}
{function}()
"""


def add_library(
    component: str, target: Path, *, wheels: Path, platforms: Sequence[str] = ()
) -> None:
    """What the lock file names, into `target`/lib: a layer that releases share. `platforms`: those
    of the wheels (PEP 600), where they are not for this machine."""
    library = target / "lib"
    _install(wheels / f"{component}.txt", library, wheels, platforms)
    _finish(library)


def add_program(component: str, target: Path, *, packages: Path) -> None:
    """Our packages into `target`/src, and the program into `target`/bin."""
    it = COMPONENTS[component]
    sources = target / "src"
    for package in (it.package, *it.beside):
        shutil.copytree(packages / package, sources / package)
    library = sources / LIBRARY
    library.mkdir()
    shutil.copy(packages / LIBRARY / "__init__.py", library)
    for package in it.library:
        shutil.copytree(packages / LIBRARY / package, library / package)
    _finish(sources)
    programs = {it.program: "main"}
    if it.old_program:
        programs[it.old_program] = "main_by_old_name"
    (target / "bin").mkdir()
    for name, function in programs.items():
        program = target / "bin" / name
        program.write_text(
            _LAUNCHER.format(
                python=sys.executable,
                sources=str(sources),
                library=str(target / "lib"),
                package=it.package,
                function=function,
            )
        )
        program.chmod(0o755)


def _finish(folder: Path) -> None:
    for path in list(_unread(folder)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # By content: an image has no times that anybody should trust.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, optimize=2, invalidation_mode=mode):
        sys.exit("assemble: not everything could be compiled")


def _install(requirements: Path, library: Path, wheels: Path, platforms: Sequence[str]) -> None:
    """By the base image's pip, or by the one among the wheels where it has none."""
    given = sorted(wheels.glob("*.whl"))
    own_pip = [str(wheel / "pip") for wheel in given if wheel.name.startswith("pip-")]
    subprocess.run(
        [
            sys.executable,
            *(own_pip[-1:] or ["-m", "pip"]),
            "install",
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--no-compile",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            f"--target={library}",
            *(f"--platform={it}" for it in platforms),
            *(["--no-index", f"--find-links={wheels}"] if given else []),
            f"--requirement={requirements}",
        ],
        check=True,
    )


def _unread(library: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(library):
        for name in list(names):
            if name in ("tests", "test", "SelfTest", "__pycache__") or (
                Path(folder) == library and name == "bin"
            ):
                names.remove(name)
                yield Path(folder, name)
        for name in files:
            if Path(name).suffix in _UNREAD:
                yield Path(folder, name)


def main() -> None:
    what, target = sys.argv[1:]
    here, component = Path.cwd(), os.environ["COMPONENT"]
    match what:
        case "library":
            platforms = os.environ.get("PLATFORMS", "").split()
            add_library(component, Path(target), wheels=here / "wheels", platforms=platforms)
        case "program":
            add_program(component, Path(target), packages=here / "packages")
        case _:
            sys.exit(f"assemble: {what!r} is neither library nor program")


if __name__ == "__main__":
    main()
