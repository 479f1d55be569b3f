"""One object of the API as one line of JSON, with what everybody asks of it beside.

Guarantees: bytes, not trees of dicts, so that ten thousand objects cost what they weigh; without
managedFields and kubectl's copy of the manifest, which nobody here reads. Two documents of one uid
and resource_version are equal in meaning. Knows nothing of what a kind's object contains.
"""

import sys
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import msgspec

Json = dict[str, Any]
"""An object as decoded: only engines and shells look into it."""

# What kubectl apply keeps of the manifest, as large as the object itself.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# etcd's revisions are int64 (etcdserverpb.ResponseHeader.revision).
_MAX_VERSION: Final = 2**63 - 1


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


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METADATA: Final = msgspec.json.Decoder(_Metadata)
_ANY: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Document:
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
        try:
            parts = _OBJECT.decode(raw)
            metadata = _METADATA.decode(parts["metadata"])
            parts["metadata"] = _trimmed(parts["metadata"])
            kept = msgspec.json.encode(parts)
            if b"\n" in kept:  # only between tokens: in a string it is escaped
                kept = msgspec.json.format(kept, indent=-1)
        except (msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError) as error:
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
        """Decoded anew each time: whoever gets it may change it."""
        decoded: Json = _ANY.decode(self.raw)
        return decoded


def _trimmed(metadata: msgspec.Raw) -> msgspec.Raw:
    fields = _OBJECT.decode(metadata)
    fields.pop("managedFields", None)
    annotations = fields.get("annotations")
    if annotations is not None and LAST_APPLIED.encode() in bytes(annotations):
        kept = _OBJECT.decode(annotations)
        kept.pop(LAST_APPLIED, None)
        fields["annotations"] = msgspec.Raw(msgspec.json.encode(kept))
        if not kept:
            del fields["annotations"]
    return msgspec.Raw(msgspec.json.encode(fields))
