"""An object's bytes once more, with another version, or its metadata alone.

Guarantee: every byte that need not change stays. The token that is metadata.resourceVersion is
found by what a decoder reads, never by how the text looks around it: equal texts may stand
anywhere in an object, keys and values may be spelled with escapes, and keys may be there twice.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from edge_sidecars.apimachinery.objects import decode


class _RawVersion(Struct, rename="camel", gc=False):
    resource_version: Raw


class _Versioned(Struct, gc=False):
    metadata: _RawVersion


class _RawMetadata(Struct, gc=False):
    metadata: Raw


_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_RAW_METADATA: Final = msgspec.json.Decoder(_RawMetadata)


def with_version(raw: bytes, version: int) -> bytes:
    """The same bytes, with this metadata.resourceVersion instead of their own."""
    old = bytes(decode(_VERSIONED, raw).metadata.resource_version)
    new = b'"%d"' % version
    if old == new:
        return raw
    at = _position(raw, old, new)
    return b"".join((raw[:at], new, raw[at + len(old) :]))


def metadata_only(raw: bytes, api_version: str) -> bytes:
    """The object as PartialObjectMetadata; `api_version` is meta.k8s.io/v1 or v1beta1."""
    metadata = decode(_RAW_METADATA, raw).metadata
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"{api_version}","metadata":'
    return b"".join((head.encode(), metadata, b"}"))


def _position(raw: bytes, old: bytes, new: bytes) -> int:
    """Where the token `old` stands that is metadata.resourceVersion, not one that equals it."""
    candidates = list(_occurrences(raw, old))
    while len(candidates) > 1:
        half = candidates[: len(candidates) // 2]
        tried = decode(_VERSIONED, _replaced(raw, half, len(old), new))
        is_in_half = bytes(tried.metadata.resource_version) == new
        candidates = half if is_in_half else candidates[len(half) :]
    return candidates[0]


def _occurrences(raw: bytes, token: bytes) -> list[int]:
    found = []
    at = raw.find(token)
    while at >= 0:
        found.append(at)
        at = raw.find(token, at + len(token))
    return found


def _replaced(raw: bytes, positions: list[int], length: int, new: bytes) -> bytes:
    ends = [0, *(at + length for at in positions)]
    starts = [*positions, len(raw)]
    return new.join(raw[end:start] for end, start in zip(ends, starts, strict=True))
