"""Which version an answer of upstream tells that is passed on as it is, in whichever form.

Reads metadata in JSON (PartialObjectMetadata, Table) and in protobuf, of which no more than the
way there. What is in no such form, such as YAML, tells nothing here.
Sources: k8s.io/apimachinery v0.36, pkg/runtime/generated.proto (Unknown), pkg/apis/meta/v1/
generated.proto (ObjectMeta, ListMeta); https://protobuf.dev/programming-guides/encoding.
"""

import re
from typing import Final

from edge_sidecars.apimachinery.accept import Form
from edge_sidecars.apimachinery.objects import (
    Malformed,
    read_item,
    read_page,
    read_table_versions,
    read_version,
)

_MAGIC: Final = b"k8s\x00"
# Unknown.raw; the metadata of any object or list; the resourceVersion of either.
_RAW, _METADATA, _OF_LIST, _OF_OBJECT = 2, 1, 2, 6
# So API servers in Go begin a list of a type of their own, or a Table: TypeMeta and ListMeta are
# before what is in it, and of ListMeta the version is first but for the selfLink that is no more.
_HEAD: Final = re.compile(
    rb'\{"kind":"\w+","apiVersion":"[\w./-]+","metadata":\{"resourceVersion":"(\d+)"[,}]'
)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def answer_version(body: bytes, form: Form, *, is_list: bool) -> int | None:
    """None where it tells none."""
    try:
        match form:
            case Form.TABLE:
                return read_table_versions(body).version
            case Form.OTHER:
                return _in_protobuf(body, _OF_LIST if is_list else _OF_OBJECT)
            case _:
                return read_page(body).version if is_list else read_item(body).version
    except Malformed:
        return None


def version_at_head(begun: bytes) -> int | None:
    """Of a list in JSON of which this is the beginning; None where its version is not there, as in
    lists of custom resources."""
    found = _HEAD.match(begun)
    try:
        return None if found is None else read_version(found[1].decode("ascii"))
    except Malformed:
        return None


def _in_protobuf(body: bytes, number: int) -> int | None:
    if not body.startswith(_MAGIC):
        return None
    data: memoryview | None = memoryview(body)[len(_MAGIC) :]
    for each in (_RAW, _METADATA, number):
        data = None if data is None else _first(data, each)
    if not data:
        return None
    try:
        return read_version(bytes(data).decode("ascii"))
    except UnicodeDecodeError as error:
        raise Malformed("a resourceVersion that is no text") from error


def _first(data: memoryview, wanted: int) -> memoryview | None:
    """The bytes of the first field of this number. Raises `Malformed`."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        length = 0
        match key & 7:
            case kind if kind == _VARINT:
                _, at = _varint(data, at)
            case kind if kind == _FIXED64:
                length = 8
            case kind if kind == _FIXED32:
                length = 4
            case kind if kind == _BYTES:
                length, at = _varint(data, at)
                if key >> 3 == wanted and at + length <= len(data):
                    return data[at : at + length]
            case kind:
                raise Malformed(f"protobuf with a field of wire type {kind}")
        at += length
    return None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """With the place behind it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise Malformed("protobuf that is cut off")
