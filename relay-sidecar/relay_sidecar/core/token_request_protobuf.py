"""Protobuf's wire format, read strictly: what could be read in two ways is refused.

Source: protobuf.dev/programming-guides/encoding. Guarantees: every input gives a `Message` or
raises `NotProtobuf`, whose text has nothing of the input; the work is linear in its length.
The package protobuf would cost the image 5 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS: Final = {_FIXED64: 8, _FIXED32: 4}
# Ten bytes hold 64 bits.
_LONGEST_VARINT: Final = 10
_MAX_FIELD_NUMBER: Final = 2**29 - 1

# Wire type and value: a number, or the bytes of anything else.
_Value = tuple[int, int | bytes]


class NotProtobuf(ValueError):
    """The bytes are no such message, or one that can be read in two ways."""


class Message:
    """The fields of a message, by their numbers. A field that is read as one value stands there
    once at most: Go takes the last text, but merges messages. Each method raises `NotProtobuf`."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[_Value]] = {}
        for number, value in _fields(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def allow_only(self, *numbers: int) -> None:
        """Refuses fields of a newer version, which may mean anything."""
        if self._fields.keys() - set(numbers):
            raise NotProtobuf("it has a field that this version does not know")

    def content(self, number: int) -> bytes:
        """b"" where the field is absent."""
        found = self._contents(number)
        if len(found) > 1:
            raise NotProtobuf(f"field {number} stands there more than once")
        return found[0] if found else b""

    def text(self, number: int) -> str:
        """ "" where the field is absent."""
        return _text(self.content(number))

    def texts(self, number: int) -> tuple[str, ...]:
        """Of a repeated field, in its order."""
        return tuple(map(_text, self._contents(number)))

    def message(self, number: int) -> Message:
        """An empty one where the field is absent."""
        return Message(self.content(number))

    def int64(self, number: int) -> int | None:
        """None where the field is absent."""
        found = self._fields.get(number, [])
        if len(found) > 1:
            raise NotProtobuf(f"field {number} stands there more than once")
        for wire_type, value in found:
            if wire_type != _VARINT or not isinstance(value, int):
                raise NotProtobuf(f"field {number} is no integer")
            return value - 2**64 if value >= 2**63 else value
        return None

    def _contents(self, number: int) -> list[bytes]:
        found = []
        for wire_type, value in self._fields.get(number, []):
            if wire_type != _BYTES or not isinstance(value, bytes):
                raise NotProtobuf(f"field {number} is no text, bytes or message")
            found.append(value)
        return found


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number <= _MAX_FIELD_NUMBER:
            raise NotProtobuf("a field has an illegal number")
        if wire_type == _VARINT:
            integer, at = _varint(data, at)
            yield number, (wire_type, integer)
            continue
        length, at = _length(data, at, wire_type)
        if length > len(data) - at:
            raise NotProtobuf("it ends in the middle of a field")
        yield number, (wire_type, data[at : at + length])
        at += length


def _length(data: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Bytes of a value, and where it begins. Groups, which Kubernetes does not use, are refused."""
    if wire_type == _BYTES:
        return _varint(data, at)
    if wire_type not in _WIDTHS:
        raise NotProtobuf(f"a field has wire type {wire_type}")
    return _WIDTHS[wire_type], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 64 bits, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 2**64:
                raise NotProtobuf("a number has more than 64 bits")
            return value, at + index + 1
    raise NotProtobuf("a number does not end")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise NotProtobuf("a text is not UTF-8") from None
