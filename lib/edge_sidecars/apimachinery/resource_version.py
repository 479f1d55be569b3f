"""The resourceVersion of an object or list, read and set in upstream's own bytes.

Guarantees: of an object that is changed, every byte that need not change stays. The token that is
metadata.resourceVersion is found by what a decoder reads, never by how the text looks around it.
Equal texts may be anywhere in an object, keys and values may be spelled with escapes, and keys may
be there twice. Of a response, metadata is read in JSON (PartialObjectMetadata, Table) and in
protobuf; what is in no such form, such as YAML, has no version here.
Sources: k8s.io/apimachinery v0.36, pkg/runtime/generated.proto (Unknown), pkg/apis/meta/v1/
generated.proto (ObjectMeta, ListMeta).
"""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from edge_sidecars.apimachinery import protobuf_wire
from edge_sidecars.apimachinery.objects import (
    Malformed,
    decode,
    read_item,
    read_page,
    read_table_versions,
    read_version,
)
from edge_sidecars.apimachinery.protobuf_wire import BadWire
from edge_sidecars.apimachinery.request.accept import Form

_PROTOBUF_MAGIC: Final = b"k8s\x00"
# Unknown.raw; the metadata of any object or list; the resourceVersion of either.
_RAW, _METADATA, _OF_LIST, _OF_OBJECT = 2, 1, 2, 6
# So API servers in Go begin a list of a type of their own, or a Table. TypeMeta and ListMeta are
# before what is in it, and of ListMeta the version is first but for the selfLink that is no more.
_HEAD: Final = re.compile(
    rb'\{"kind":"\w+","apiVersion":"[\w./-]+","metadata":\{"resourceVersion":"(\d+)"[,}]'
)


class _RawVersion(Struct, rename="camel", gc=False):
    resource_version: Raw


class _VersionedObject(Struct, gc=False):
    metadata: _RawVersion


class _RawMetadata(Struct, gc=False):
    metadata: Raw


_VERSIONED: Final = msgspec.json.Decoder(_VersionedObject)
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


def response_version(body: bytes, form: Form, *, is_list: bool) -> int | None:
    """The version of an object or list in this form; None where it has none."""
    try:
        match form:
            case Form.TABLE:
                return read_table_versions(body).version
            case Form.OTHER:
                return _in_protobuf(body, _OF_LIST if is_list else _OF_OBJECT)
            case _:
                return read_page(body).version if is_list else read_item(body).version
    except (Malformed, BadWire):
        return None


def version_at_head(begun: bytes) -> int | None:
    """Of a list in JSON of which this is the beginning; None where its version is not there, as in
    lists of custom resources."""
    found = _HEAD.match(begun)
    try:
        return None if found is None else read_version(found[1].decode("ascii"))
    except Malformed:
        return None


def _position(raw: bytes, old: bytes, new: bytes) -> int:
    """The position of the token `old` that is metadata.resourceVersion, not one that equals it."""
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


def _in_protobuf(body: bytes, number: int) -> int | None:
    if not body.startswith(_PROTOBUF_MAGIC):
        return None
    data: memoryview | None = memoryview(body)[len(_PROTOBUF_MAGIC) :]
    for each in (_RAW, _METADATA, number):
        data = None if data is None else _first_field(data, each)
    if not data:
        return None
    try:
        return read_version(bytes(data).decode("ascii"))
    except UnicodeDecodeError as error:
        raise Malformed("a resourceVersion that is no text") from error


def _first_field(data: memoryview, wanted: int) -> memoryview | None:
    """The bytes of the first field of this number. Raises `BadWire`."""
    for number, value in protobuf_wire.fields(data):
        if number == wanted and isinstance(value, memoryview):
            return value
    return None
