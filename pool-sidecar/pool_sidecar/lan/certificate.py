"""The key of this node, and its self-signed certificate, in the data directory.

Guarantees: The key is on disk only as a file of 0600, and never in the API or a log. What is there
is used again, so that a restart while the node is offline needs no one else. What is of another
node, or cannot be read, is replaced by a new one (N9).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.certificates.self_signed import BEGIN_KEY, self_signed
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.core.members import common_name, to_der
from pool_sidecar.lan.tls import is_pair

FILE: Final = "member.pem"
MODE: Final = 0o600


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
    made = Certificate(*self_signed(common_name(node)))
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
