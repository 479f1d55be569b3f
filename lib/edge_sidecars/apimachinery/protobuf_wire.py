"""Protobuf's wire format, as far as Kubernetes uses it.

Source: protobuf.dev/programming-guides/encoding. Guarantees: every input is read to its end, or is
`BadWire`, as it is for Go: an illegal number, a number of over 64 bits, a group.
"""

from collections.abc import Iterator
from typing import Final

_FIXED64 = 1
# Of the numbers 1 to 2**29 - 1, with their wire type.
_LEAST_TAG, _GREATEST_TAG = 1 << 3, (1 << 32) - 1
# Ten bytes hold 64 bits.
_LONGEST_VARINT: Final = 10


class BadWire(ValueError):
    """Not protobuf."""


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview | None]]:
    """Number and value of each field: a number, bytes that may be anything, or None of a fixed
    width, which nothing here reads. Raises `BadWire`."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if not _LEAST_TAG <= tag <= _GREATEST_TAG:
            raise BadWire("illegal tag")
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(data, at)
                yield tag >> 3, _slice(data, at, length)
                at += length
            case 1 | 5 as kind:
                length = 8 if kind == _FIXED64 else 4
                _slice(data, at, length)
                yield tag >> 3, None
                at += length
            case kind:
                raise BadWire(f"illegal wireType {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    # Most are of one byte.
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise BadWire("unexpected EOF")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value < 2**64:
            return value, at + index + 1
    raise BadWire("integer overflow")


def _slice(data: memoryview, at: int, length: int) -> memoryview:
    if at + length > len(data):
        raise BadWire("unexpected EOF")
    return data[at : at + length]


def text(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise BadWire(str(error)) from error
