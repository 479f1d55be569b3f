"""A kept answer as bytes, and back.

Owns: the form in the journal. Guarantees: what `encode` gave comes back equal from `decode`, under
the same record name; anything else (damaged, of another version, of another record) is None. The
digest is against damage, not against those who can write: the journal seals the bytes.

    version, 1 byte | BLAKE2b of the rest, 16 bytes | MessagePack of the record
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from relay_sidecar.core.token_request import TokenRequestKey
from relay_sidecar.kept_tokens.core.kept_answers import KeptAnswer, TokenAnswer

_VERSION: Final = b"\x01"
_DIGEST_SIZE: Final = 16
_PREFIX: Final = "token-request/"


class _Record(msgspec.Struct, array_like=True, frozen=True):
    key: TokenRequestKey
    content_type: str
    body: bytes
    asked_at: float
    ends_at: float


_decoder = msgspec.msgpack.Decoder(_Record)


def record_name(key: TokenRequestKey) -> str:
    """One for each key; of a fixed length."""
    return _PREFIX + _digest(msgspec.msgpack.encode(key)).hex()


def encode(key: TokenRequestKey, kept: KeptAnswer) -> bytes:
    """Confidential."""
    answer = kept.answer
    record = _Record(key, answer.content_type, answer.body, kept.asked_at, kept.ends_at)
    content = msgspec.msgpack.encode(record)
    return _VERSION + _digest(content) + content


def decode(name: str, data: bytes) -> tuple[TokenRequestKey, KeptAnswer] | None:
    """`data` as found under the record name `name`."""
    head, content = data[: 1 + _DIGEST_SIZE], data[1 + _DIGEST_SIZE :]
    if head != _VERSION + _digest(content):
        return None
    try:
        record = _decoder.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return _checked(name, record)


def _checked(name: str, record: _Record) -> tuple[TokenRequestKey, KeptAnswer] | None:
    """None where it is of another record, or has times that are none."""
    if name != record_name(record.key) or not (record.asked_at >= 0 and record.ends_at >= 0):
        return None
    answer = TokenAnswer(content_type=record.content_type, body=record.body)
    return record.key, KeptAnswer(answer=answer, asked_at=record.asked_at, ends_at=record.ends_at)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()
