"""A copy of a file system with no program in it but Python: the root of the images.

Runs in a build stage, with nothing but Python, and needs no shell there; so it works on any base
image that has Python. Left out are all other programs (shells and package managers among them),
pip, and what a container gets when it starts. Python's own modules are compiled as the programs
run them, which nothing can do later. Libraries, certificates, time zones and the package
manager's records, which scanners read, stay as they are, with their times.
"""

import compileall
import py_compile
import re
import shutil
import sys
import sysconfig
from pathlib import Path

# Where programs are (hier(7)); one is a link to another where /usr is merged.
PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_PYTHON = re.compile(r"python[\d.]*")
# The engine's, or of the build alone; the files are mounted over the base image's own.
_LEFT_OUT = {
    "/": {"build", "dev", "proc", "sys", "run", "tmp"},
    "/etc": {"hostname", "hosts", "resolv.conf"},
}
# In any folder of Python's packages.
# Of the standard library: some of their sources cannot be compiled, on purpose.
_TESTS = re.compile(r"/(test|tests|lib2to3)/")
_PIP = re.compile(r"(pip|ensurepip|setuptools|wheel)(-.*)?")


def copy(source: Path, target: Path) -> None:
    """Makes `target`, a folder of /build, of `source`, which has this Python."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        return _ignored(f"/{Path(folder).relative_to(source)}".removesuffix("."), names)

    shutil.copytree(source, target, symlinks=True, ignore=ignored)
    (target / "tmp").mkdir()
    # Everybody's, as it is everywhere.
    (target / "tmp").chmod(0o1777)
    _compile(target)


def _compile(target: Path) -> None:
    """The standard library in the form of `python -OO`, instead of what the base image has."""
    library = target / sysconfig.get_path("stdlib").lstrip("/")
    for cache in list(library.rglob("__pycache__")):
        shutil.rmtree(cache)
    is_compiled = compileall.compile_dir(
        library,
        quiet=1,
        optimize=2,
        rx=_TESTS,
        stripdir=str(target),
        prependdir="/",
        # By content: an image has no times that anybody should trust.
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not is_compiled:
        sys.exit("bare_root: the standard library could not be compiled")


def _ignored(folder: str, names: list[str]) -> set[str]:
    if folder in PROGRAMS:
        return {name for name in names if not _PYTHON.fullmatch(name)}
    ignored = _LEFT_OUT.get(folder, set()).intersection(names)
    if re.search(r"/python3[\d.]*(/(site|dist)-packages)?$", folder):
        ignored |= {name for name in names if _PIP.fullmatch(name)}
    return ignored


if __name__ == "__main__":
    copy(Path(sys.argv[1]), Path(sys.argv[2]))
