"""Protobuf's wire format, as far as Kubernetes uses it.

Source: protobuf.dev/programming-guides/encoding. Guarantees: every input is read to its end, or is
`BadWire`.
"""

import struct
from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Ten bytes hold 64 bits.
_LONGEST_VARINT: Final = 10


class BadWire(ValueError):
    """Not protobuf."""


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: a number, or bytes that may be anything. Raises `BadWire`."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
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
                yield tag >> 3, _slice(data, at, length)
                at += length
            case kind:
                raise BadWire(f"illegal wireType {kind}")


def encoded(number: int, value: int | bytes | memoryview) -> bytes:
    """A field with a number as varint, or with bytes."""
    if isinstance(value, int):
        return _encoded_varint(number << 3) + _encoded_varint(value)
    return b"".join((_encoded_varint(number << 3 | _BYTES), _encoded_varint(len(value)), value))


def _encoded_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


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
        if byte < 0x80:
            return value & (2**64 - 1), at + index + 1
    raise BadWire("integer overflow")


def _slice(data: memoryview, at: int, length: int) -> memoryview:
    if at + length > len(data):
        raise BadWire("unexpected EOF")
    return data[at : at + length]


def signed(value: int) -> int:
    """An int32 or int64: two's complement in 64 bits."""
    return value - 2**64 if value >= 2**63 else value


def double(value: memoryview) -> float:
    if len(value) != 8:
        raise BadWire("a double of another size")
    found: float = struct.unpack("<d", value)[0]
    return found


def text(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise BadWire(str(error)) from error
