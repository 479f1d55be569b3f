"""The file of `--keep-secrets`: which bytes are a key, and what a sealed row is bound to.

Guarantees: A file that others than the relay and root can read, or that lies beside what it
protects, is never used. Two rows that differ in any of resource, namespace, name, uid or version
never have the same associated data. No message contains anything of the key.
"""

import os
import re
import stat
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path

from edge_sidecars.runtime.cli.values import BadInput

# AES-256.
KEY_SIZE = 32
_HEX = re.compile(rb"[0-9a-fA-F]{64}")
# Of 32 bytes, RFC 4648 sections 4 and 5.
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{43}=?")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_TEXT = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))


def parse_key(content: bytes) -> bytes:
    """The key that a file of this content holds: 32 raw bytes, 64 hex characters or 44 base64
    characters (either alphabet, the padding may be left out), the text with whitespace around it.

    Raises `BadInput`: how the content differs, without the content.
    """
    key = content if len(content) == KEY_SIZE else _from_text(content.strip())
    if key is None:
        raise BadInput(_describe(content))
    if key is content and _TEXT.issuperset(content):
        # Of random bytes, less than one in 10^13 is.
        raise BadInput("it holds 32 characters of text, which are not 32 random bytes")
    if len(set(key)) == 1:
        raise BadInput("it holds the same byte 32 times, which is not random")
    return key


def _from_text(text: bytes) -> bytes | None:
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    if _BASE64.fullmatch(text):
        return b64decode(text.translate(_URL_SAFE).rstrip(b"=") + b"=")
    return None


def _describe(content: bytes) -> str:
    if not content.strip():
        return "it is empty"
    return f"its {len(content)} bytes are neither 32 raw bytes nor 64 hex nor 44 base64 characters"


def associated_data(*, resource: str, namespace: str, name: str, uid: str, version: int) -> bytes:
    """What a sealed row is authenticated with besides its content: each part after its length in
    bytes (8, big-endian), so that no part can run into the next."""
    parts = (resource, namespace, name, uid, str(version))
    encoded = (part.encode() for part in parts)
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)


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
