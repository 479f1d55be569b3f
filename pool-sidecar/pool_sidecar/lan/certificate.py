"""The key of this node, and its self-signed certificate, in the data directory.

Guarantees: the key is on disk only as a file of 0600, and never in the API or a log; what is there
is used again, so that a restart while the node is cut off needs nobody; what is of another node, or
cannot be read, is replaced by a new one (N9).
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.core.members import common_name, to_der
from pool_sidecar.lan.tls import is_pair

FILE: Final = "member.pem"
MODE: Final = 0o600
BEGIN_KEY: Final = "-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True)
class Certificate:
    """Both in PEM."""

    certificate: str
    key: str


def own_certificate(folder: Path, node: str) -> Certificate:
    """What the folder has, or a new one. Raises `BadInput` where it cannot be kept."""
    path = folder / FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = path.read_text(encoding="ascii") if path.exists() else ""
    except (OSError, ValueError) as error:
        raise _unusable(folder, error) from error
    found = _parsed(kept, node)
    if found is not None:
        return found
    if kept:
        logger.warning("the key cannot be used: making another one", extra=fields(file=path))
    made = _make(node)
    try:
        write_private(path, made.certificate + made.key)
    except OSError as error:
        raise _unusable(folder, error) from error
    return made


def _unusable(folder: Path, error: OSError | ValueError) -> BadInput:
    return BadInput(f"--data-dir {folder}: {describe_failure(error)}; name a folder to write to")


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, for its owner alone. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    new.rename(path)


def _parsed(text: str, node: str) -> Certificate | None:
    begin = text.find(BEGIN_KEY)
    certificate, key = text[:begin], text[begin:]
    try:
        is_own = begin > 0 and common_name(node).encode() in to_der(certificate)
    except ValueError:
        return None
    if not is_own or not is_pair(certificate, key):
        return None
    return Certificate(certificate, key)


def _make(node: str) -> Certificate:
    """By a process of its own: the package `cryptography` takes 8 MiB, which only ends with the
    process that has imported it. Raises `BadInput`."""
    # An image's program has told its interpreter where the packages are; another one is told here,
    # and not to look into the working directory first.
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "pool_sidecar.lan.new_certificate", common_name(node)]
    made = subprocess.run(command, capture_output=True, encoding="ascii", check=False, env=environ)
    if made.returncode:
        reason = made.stderr.strip().rpartition("\n")[2] or f"exit status {made.returncode}"
        raise BadInput(f"no key can be made for node {node}: {reason}")
    certificate, begin, key = made.stdout.partition(BEGIN_KEY)
    return Certificate(certificate, begin + key)
