"""The sidecar installed as an image has it: a wheel and the locked requirements, nothing else.

Guarantees: its own copies of all files (memory that another program shares is not counted as
shared by accident), compiled beforehand; the folder is removed by whoever made it.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Sidecar:
    """An interpreter in which `-m elector_sidecar` works."""

    interpreter: str
    description: str


CHECKOUT = Sidecar(sys.executable, "checkout (editable install, development packages beside it)")


def install(folder: Path) -> Sidecar:
    """Raises subprocess.CalledProcessError; the tools' messages go to standard error."""
    environment = folder / "environment"
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    interpreter = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "--quiet"]
    pip += ["--disable-pip-version-check", "install", "--no-input"]
    requirements = ROOT / "tools" / "requirements" / "elector.txt"
    _run([*pip, "--require-hashes", "-r", str(requirements)])
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)])
    (wheel,) = folder.glob("*.whl")
    _run([*pip, "--no-deps", str(wheel)])
    return Sidecar(str(interpreter), "wheel in an environment of tools/requirements/elector.txt")


def _run(command: list[str]) -> None:
    subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
