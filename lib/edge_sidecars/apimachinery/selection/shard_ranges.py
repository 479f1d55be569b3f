"""Which shard an object belongs to, and how a set of shards is named in a `shardSelector`.

Owns the hash and the ranges for electors, mains, GM and the relay: they decide who owns an object,
so there is one copy. Pure. The hash is Kubernetes' (KEP-5866): 64-bit FNV-1a over the bytes of
metadata.uid. Shard s of N holds the hashes h with h * N >> 64 == s, one half-open range.
"""

from collections.abc import Iterable
from functools import lru_cache

MIN_SHARDS, MAX_SHARDS = 2, 256
# RFC 9923, section 5: the parameters for 64 bits.
_OFFSET_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MODULUS = 1 << 64


def fnv1a(text: str) -> int:
    """64 bits of FNV-1a over the UTF-8 bytes of `text`."""
    value = _OFFSET_BASIS
    for byte in text.encode():
        value = (value ^ byte) * _PRIME % _MODULUS
    return value


# A main asks several times about each object that it works on.
_cached_hash = lru_cache(maxsize=4096)(fnv1a)


def shard_of(uid: str, shards: int) -> int:
    """The number, from 0, of the shard that owns the object with this uid."""
    return _cached_hash(uid) * shards >> 64


def shard_bounds(shard: int, shards: int) -> tuple[int, int]:
    """The first hash of a shard, and the first one after it: 2^64 for the last shard."""
    return _start(shard, shards), _start(shard + 1, shards)


def shard_range(shard: int, shards: int) -> tuple[str, str]:
    """`shard_bounds` as text: "0x" and 16 hexadecimal digits, 17 for the end of the last shard."""
    start, end = shard_bounds(shard, shards)
    return _hexadecimal(start), _hexadecimal(end)


def selector(owned: Iterable[int], shards: int) -> str | None:
    """A `shardSelector` for these shards, adjacent ranges merged; None for no shard.

    An empty `shardSelector` means every object, so that there is none to write for no shard.
    """
    spans: list[list[int]] = []
    for shard in sorted(owned):
        if spans and spans[-1][1] == shard:
            spans[-1][1] = shard + 1
        else:
            spans.append([shard, shard + 1])
    terms = [
        f"shardRange(object.metadata.uid,'{_hexadecimal(_start(first, shards))}',"
        f"'{_hexadecimal(_start(end, shards))}')"
        for first, end in spans
    ]
    return " || ".join(terms) or None


def _start(shard: int, shards: int) -> int:
    """The smallest h with h * shards >> 64 == shard."""
    return -(-(shard << 64) // shards)


def _hexadecimal(value: int) -> str:
    return f"0x{value:016x}"
