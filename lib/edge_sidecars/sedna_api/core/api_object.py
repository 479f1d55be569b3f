"""One object of the API as one line of JSON, with what everybody asks of it beside.

Guarantees: bytes, not trees of dicts, so that ten thousand objects cost what they weigh; without
managedFields and kubectl's copy of the manifest, which nothing here reads; nested no deeper than
`MAX_DEPTH`. Two documents of one uid and resource_version are equal in meaning. Knows nothing of
what a kind's object contains.
"""

import re
import sys
from typing import Any, Final, NamedTuple, Self

import msgspec

Json = dict[str, Any]
"""An object as decoded: only engines and shells look into it."""

# What kubectl apply keeps of the manifest, as large as the object itself.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LAST_APPLIED: Final = LAST_APPLIED.encode()
_MANAGED_FIELDS: Final = b'"managedFields":'
# etcd's revisions are int64 (etcdserverpb.ResponseHeader.revision).
_MAX_VERSION: Final = 2**63 - 1
# Levels of nesting that are kept. Less than half of what Python calls itself
# (sys.getrecursionlimit), so that each who has a document can walk through it; an object that works
# has thirty.
MAX_DEPTH: Final = 400
# Strings, in which brackets are none, and brackets.
_TOKENS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class NotADocument(ValueError):
    """Not an object of the API: no JSON object, no name, or a version that is no integer."""


class ObjectKey(NamedTuple):
    """Which object: `kind` is the lower-case singular, `namespace` "" where there is none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = "0"
    generation: int = 0
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _RawObject(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


_WHOLE: Final = msgspec.json.Decoder(_RawObject)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METADATA: Final = msgspec.json.Decoder(_Metadata)
_ANY: Final = msgspec.json.Decoder()


class Document(msgspec.Struct, frozen=True, gc=False):
    """`kind` is the lower-case singular; `raw` one line of JSON."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    raw: bytes

    @classmethod
    def parse(cls, raw: bytes, kind: str) -> Self:
        """Raises `NotADocument`."""
        raw = _shallow(raw)
        try:
            metadata_json = _WHOLE.decode(raw).metadata
            metadata = _METADATA.decode(metadata_json)
            kept = _cut(raw, bytes(metadata_json), bytes(metadata.managed_fields)) or _trimmed(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise NotADocument(f"not an object of the API: {error}: {bytes(raw[:80])!r}") from error
        version = metadata.resource_version
        if not (version.isascii() and version.isdecimal()) or int(version) > _MAX_VERSION:
            raise NotADocument(f"a resourceVersion that cannot be compared: {version!r:.80}")
        return cls(
            kind=kind,
            namespace=sys.intern(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            resource_version=int(version),
            generation=metadata.generation,
            raw=kept,
        )

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind, self.namespace, self.name)

    def json(self) -> Json:
        """Decoded anew each time: the caller may change it."""
        decoded: Json = _ANY.decode(self.raw)
        return decoded


def _shallow(raw: bytes) -> bytes:
    """With null for what is nested deeper than `MAX_DEPTH`: one object stops nothing, and the API
    server says what is wrong with what is made of it."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return raw
    kept, start, depth = [], 0, 0
    for token in _TOKENS.finditer(raw):
        if token[0] in (b"{", b"["):
            if depth == MAX_DEPTH:
                kept.append(raw[start : token.start()])
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == MAX_DEPTH:
                kept.append(b"null")
                start = token.end()
    return raw if depth else b"".join((*kept, raw[start:]))


def _cut(raw: bytes, metadata: bytes, managed_fields: bytes) -> bytes:
    """`raw` without what no component reads, as API servers write it, at a third of `_trimmed`'s
    time;
    b"" where it may not be so."""
    if b"\n" in raw or _LAST_APPLIED in raw:
        return b""
    if not managed_fields:
        return raw
    member = b"," + _MANAGED_FIELDS + managed_fields
    if managed_fields[:1] != b"[" or metadata.count(member) != 1 or raw.count(metadata) != 1:
        return b""
    return raw.replace(metadata, metadata.replace(member, b""))


def _trimmed(raw: bytes) -> bytes:
    """The same of any JSON object with metadata."""
    parts = _OBJECT.decode(raw)
    fields = _OBJECT.decode(parts["metadata"])
    fields.pop("managedFields", None)
    annotations = fields.get("annotations")
    if annotations is not None and _LAST_APPLIED in bytes(annotations):
        kept = _OBJECT.decode(annotations)
        kept.pop(LAST_APPLIED, None)
        fields["annotations"] = msgspec.Raw(msgspec.json.encode(kept))
        if not kept:
            del fields["annotations"]
    parts["metadata"] = msgspec.Raw(msgspec.json.encode(fields))
    line = msgspec.json.encode(parts)
    if b"\n" in line:  # only between tokens: in a string it is escaped
        line = msgspec.json.format(line, indent=-1)
    return line
