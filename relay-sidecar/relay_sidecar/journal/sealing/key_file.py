"""The file of `--keep-secrets`: whether the key in it is one, and only the relay's to read.

Guarantees: a file that others than the relay and root can read or that lies beside what it
protects is never used. No message contains anything of the key.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.core.sealed_form import parse_key

# Bytes; no form of a key is longer, whitespace aside.
_MAX_SIZE = 4096
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO must not block
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# systemd (core/exec-credential.c, write_credential) lets a unit's user read the file by an ACL,
# whose mask shows as the group's bits: 0440. The folder is closed to all others.
_OTHERS_OF_CREDENTIAL = stat.S_IWGRP | stat.S_IRWXO
_REMEDY = (
    "write 32 random bytes, or 64 hex or 44 base64 characters (openssl rand -base64 32), or put "
    "back the key with which this journal was sealed"
)


class NoKey(BadInput):
    """The file is missing, cannot be read, or does not hold a key."""


class ExposedKey(BadInput):
    """Others than the relay and root may have read the file."""


@dataclass(frozen=True)
class FileKey:
    """`key`: 32 bytes. `warning`: one line, where the file is not a systemd credential."""

    key: bytes = field(repr=False)
    warning: str | None


def read_key_file(path: Path, *, data_dir: Path, credentials_dir: Path | None) -> FileKey:
    """`credentials_dir`: systemd's $CREDENTIALS_DIRECTORY, where there is one.

    Raises `NoKey`, `ExposedKey`, and `BadInput` where the file lies in `data_dir`; each names the
    file and the remedy.
    """
    if _lies_in(path, data_dir):
        raise BadInput(
            f"--keep-secrets {path} lies in --data-dir {data_dir}, so that a copy of the data has "
            "the key too: move it to another folder, best a systemd credential"
        )
    is_credential = credentials_dir is not None and _lies_in(path, credentials_dir)
    try:
        content = _read(path, others=_OTHERS_OF_CREDENTIAL if is_credential else _OTHERS)
    except OSError as error:
        raise NoKey(f"--keep-secrets {path}: {error.strerror or error}; {_REMEDY}") from error
    return FileKey(_parse(path, content), None if is_credential else _warning(path))


def _lies_in(path: Path, folder: Path) -> bool:
    """Links followed, on both sides."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _read(path: Path, *, others: int) -> bytes:
    """Raises `NoKey`, OSError, and `ExposedKey` where the mode has any of the bits in `others`."""
    with open(path, "rb", opener=lambda name, _: os.open(name, _OPEN_FLAGS)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NoKey(f"--keep-secrets {path} is not a regular file: {_REMEDY}")
        _check_exposure(path, status, others)
        return file.read(_MAX_SIZE + 1)


def _check_exposure(path: Path, status: os.stat_result, others: int) -> None:
    mode, owners = stat.S_IMODE(status.st_mode), {0, os.geteuid()}
    if mode & others:
        raise ExposedKey(
            f"--keep-secrets {path} has mode {mode:04o}, so that others than its owner can get at "
            f"it: make a new key, and chmod 0600 {path}"
        )
    if status.st_uid not in owners:
        raise ExposedKey(
            f"--keep-secrets {path} belongs to user {status.st_uid}, who is neither root nor the "
            f"relay's user {os.geteuid()}: make a new key, and chown {os.geteuid()} {path}"
        )


def _parse(path: Path, content: bytes) -> bytes:
    try:
        if len(content) > _MAX_SIZE:
            raise BadInput(f"it is longer than {_MAX_SIZE} bytes")
        return parse_key(content)
    except BadInput as error:
        raise NoKey(f"--keep-secrets {path} is not a key, {error}: {_REMEDY}") from error


def _warning(path: Path) -> str:
    return (
        f"--keep-secrets {path} is not a systemd credential: a copy of the disk that it lies on is "
        "enough to unseal what the relay keeps; use LoadCredentialEncrypted=, best with a TPM"
    )
