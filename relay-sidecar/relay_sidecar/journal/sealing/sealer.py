"""Seals the rows of one journal, so that a copy of it without the key of `--keep-secrets` reveals
nothing of what a Secret or a token contains.

    key in KEYFILE ── wraps ─► data key, which the journal keeps as `wrapped` ── seals ─► rows

A sealed row is opened only under the resource, namespace, name, uid and version that it was sealed
under, so that rows cannot be swapped. What is not hidden: these five, the length of the content,
when a row was written, and that an older copy of the whole journal was put back.

| KEYFILE | the journal has no data key yet | it has one |
|---|---|---|
| the key of this journal | a new data key | seals, unseals |
| another key | a new data key | `failure`: seals under a new data key, unseals nothing older |
| missing, unreadable, no key | `NoKey` | `failure`: neither seals nor unseals |
| exposed: others may read it | `ExposedKey` | `ExposedKey` |
| in --data-dir | `BadInput` | `BadInput` |

Of `NoKey` and `ExposedKey` the relay makes a sealer without a key (`Sealer.without_key`): it serves
everything else.

Rotation: a new content of KEYFILE counts from the next start on. The former data key cannot be
unwrapped then, so that what it sealed is unknown until upstream sends it again. The new data key
replaces it on disk with the first row that is sealed, which takes an answer of upstream. Until then
the former KEYFILE can be put back (a wrong key mounted while the link is cut loses nothing).

Imported, with pycryptodome, only where `--keep-secrets` is set.
"""

import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.journal.sealing.key_file import KEY_SIZE, NoKey, associated_data, read_key_file

if TYPE_CHECKING:
    from relay_sidecar.journal.sealing.xaes_gcm import XaesGcm

# The layout of what is sealed: this byte, 24 of nonce, the ciphertext, 16 of tag.
_FORMAT = b"\x01"
_NONCE_END = len(_FORMAT) + 24
# Bytes by which a row grows.
OVERHEAD = _NONCE_END + 16
# Of a row that is authenticated, and not sealed: HMAC-SHA256.
TAG_SIZE = 32
# From the data key, for tags only.
_OF_TAGS = b"relay-sidecar: tags of rows"
# No row is authenticated like this: its associated data begins with a length.
_OF_DATA_KEY = b"relay-sidecar: data key of a journal"


class Sealer:
    """Made by `open`. Threads may share it.

    `failure`: why what was sealed before cannot be unsealed, and the remedy; None where it can be.
    `warning`: what is not good about where the key lies, to be logged.
    `wrapped`: the data key for the journal to keep; None where nothing can be sealed.
    `is_new`: whether `wrapped` is to replace what the journal has, in the transaction of the first
    row that is sealed; all rows that were sealed before are to be deleted in it.
    """

    __slots__ = ("_cipher", "_tag_key", "failure", "is_new", "warning", "wrapped")

    def __init__(
        self, data_key: bytes | None, wrapped: bytes | None, *, is_new: bool, failure: str | None
    ) -> None:
        self._cipher = None if data_key is None else _cipher(data_key)
        self._tag_key = None if data_key is None else hmac.digest(data_key, _OF_TAGS, "sha256")
        self.wrapped = wrapped
        self.is_new = is_new
        self.failure = failure
        self.warning: str | None = None

    @classmethod
    def open(
        cls, key_file: Path, *, data_dir: Path, credentials_dir: Path | None, wrapped: bytes | None
    ) -> Self:
        """`wrapped`: what the journal kept of an earlier process; None for nothing.
        `credentials_dir`: systemd's $CREDENTIALS_DIRECTORY.

        Raises `BadInput`, one line that names the file and the remedy: see the table above.
        """
        try:
            file = read_key_file(key_file, data_dir=data_dir, credentials_dir=credentials_dir)
        except NoKey as error:
            if wrapped is None:
                raise
            return cls(None, None, is_new=False, failure=str(error))
        sealer = cls._unwrapped(file.key, wrapped, key_file)
        sealer.warning = file.warning
        return sealer

    @classmethod
    def without_key(cls, failure: str) -> Self:
        """Neither seals nor unseals, and tags nothing."""
        return cls(None, None, is_new=False, failure=failure)

    @classmethod
    def _unwrapped(cls, key: bytes, wrapped: bytes | None, key_file: Path) -> Self:
        outer = _cipher(key)
        data_key = None if wrapped is None else _open(outer, wrapped, _OF_DATA_KEY)
        if data_key is not None:
            return cls(data_key, wrapped, is_new=False, failure=None)
        data_key = os.urandom(KEY_SIZE)
        failure = None if wrapped is None else _other_key(key_file)
        return cls(data_key, _close(outer, data_key, _OF_DATA_KEY), is_new=True, failure=failure)

    def key_failure(
        self, key_file: Path, *, data_dir: Path, credentials_dir: Path | None
    ) -> str | None:
        """Why the file as it is now would not unseal what this one seals; None where it would."""
        try:
            key = read_key_file(key_file, data_dir=data_dir, credentials_dir=credentials_dir).key
        except BadInput as error:
            return str(error)
        if self.wrapped is None or _open(_cipher(key), self.wrapped, _OF_DATA_KEY) is not None:
            return None
        return _other_key(key_file)

    def seal(
        self, raw: bytes, *, resource: str, namespace: str, name: str, uid: str, version: int
    ) -> bytes | None:
        """What may be written of `raw`; None where there is no key: nothing may be."""
        if self._cipher is None:
            return None
        bound_to = associated_data(
            resource=resource, namespace=namespace, name=name, uid=uid, version=version
        )
        return _close(self._cipher, raw, bound_to)

    @property
    def can_tag(self) -> bool:
        return self._tag_key is not None

    def tag(self, space: str, key: bytes, value: bytes) -> bytes:
        """Of one row that is not sealed: it shows that this journal's relay wrote just that value
        just there. Without a key, no row's."""
        if self._tag_key is None:
            return b""
        parts = (space.encode(), key, value)
        content = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._tag_key, content, "sha256")

    def unseal(
        self, sealed: bytes, *, resource: str, namespace: str, name: str, uid: str, version: int
    ) -> bytes | None:
        """What `seal` was given; None, which is "unknown", where it was sealed under another key or
        for another row, where any bit of it has changed, or where there is no key."""
        if self._cipher is None:
            return None
        bound_to = associated_data(
            resource=resource, namespace=namespace, name=name, uid=uid, version=version
        )
        return _open(self._cipher, sealed, bound_to)


def _cipher(key: bytes) -> "XaesGcm":
    try:
        # Costs memory, which only --keep-secrets is worth.
        from relay_sidecar.journal.sealing.xaes_gcm import XaesGcm
    except ImportError as error:
        raise BadInput(
            "--keep-secrets needs the Python package pycryptodome, which the image relay-sidecar "
            "lacks: install the extra sealing (pip install '.[relay,sealing]' in a checkout), on "
            "the node or in an image of your own, or leave out --keep-secrets"
        ) from error
    return XaesGcm(key)


def _close(cipher: "XaesGcm", plaintext: bytes, bound_to: bytes) -> bytes:
    nonce = os.urandom(_NONCE_END - len(_FORMAT))
    return _FORMAT + nonce + cipher.encrypt(plaintext, nonce=nonce, associated_data=bound_to)


def _open(cipher: "XaesGcm", sealed: bytes, bound_to: bytes) -> bytes | None:
    if len(sealed) < OVERHEAD or not sealed.startswith(_FORMAT):
        return None
    nonce, ciphertext = sealed[len(_FORMAT) : _NONCE_END], sealed[_NONCE_END:]
    return cipher.decrypt(ciphertext, nonce=nonce, associated_data=bound_to)


def _other_key(key_file: Path) -> str:
    return (
        f"--keep-secrets {key_file} holds another key than the one with which this journal was "
        "sealed: Secrets and tokens are unknown until upstream sends them again; to read them "
        "before, put the former key back and restart"
    )
