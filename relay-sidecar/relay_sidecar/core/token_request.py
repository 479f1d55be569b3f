"""From a TokenRequest to the key of its answer, and whether an answer holds a token.

Guarantees: two requests with one key ask the API server for the same; what cannot be read for sure,
or asks for more than is known here, has no key; no input raises; the work is linear in its length.
Protobuf that could be read in two ways is refused. Sources: k8s.io/api v0.36,
authentication/v1/generated.proto; k8s.io/apimachinery v0.36, pkg/runtime/generated.proto,
pkg/apis/meta/v1/generated.proto and serializer/protobuf (envelope); k8s.io/kubernetes v1.36,
pkg/registry/core/serviceaccount/storage/token.go (what an answer depends on).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from edge_sidecars.apimachinery.protobuf_wire import BadWire, fields, text
from edge_sidecars.apimachinery.request.accept import clauses
from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.formats.rfc1123 import is_label, is_subdomain


class Message:
    """The fields of a message, by their numbers. A field that is read as one value is there
    once at most: Go takes the last text, but merges messages. Each method raises `BadWire`."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._fields: dict[int, list[int | memoryview | None]] = {}
        for number, value in fields(memoryview(data)):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def allow_only(self, *numbers: int) -> None:
        """Refuses fields of a newer version, which may mean anything."""
        if self._fields.keys() - set(numbers):
            raise BadWire("it has a field that this version does not know")

    def content(self, number: int) -> bytes:
        """b"" where the field is absent."""
        value = self._only(number)
        return b"" if value is None else _bytes(value)

    def text(self, number: int) -> str:
        """ "" where the field is absent."""
        return text(memoryview(self.content(number)))

    def texts(self, number: int) -> tuple[str, ...]:
        """Of a repeated field, in its order."""
        return tuple(text(memoryview(_bytes(it))) for it in self._fields.get(number, ()))

    def message(self, number: int) -> Message:
        """An empty one where the field is absent."""
        return Message(self.content(number))

    def int64(self, number: int) -> int | None:
        """None where the field is absent."""
        value = self._only(number)
        if value is None:
            return None
        if not isinstance(value, int):
            raise BadWire(f"field {number} is no integer")
        return value - 2**64 if value >= 2**63 else value

    def _only(self, number: int) -> int | memoryview | None:
        """None where the field is absent."""
        found = self._fields.get(number, ())
        if len(found) > 1 or None in found:
            raise BadWire(f"field {number} is not there once, as a number or bytes")
        return found[0] if found else None


def _bytes(value: int | memoryview | None) -> bytes:
    if not isinstance(value, memoryview):
        raise BadWire("a field is no text, bytes or message")
    return bytes(value)


JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
# Bytes. Kubelet's requests have 200; the API server's answers 1,500, and 100 more per audience.
MAX_BODY: Final = 65536
API_VERSION: Final = "authentication.k8s.io/v1"
KIND: Final = "TokenRequest"
_MAGIC: Final = b"k8s\x00"
# IsDNS1123Subdomain of apimachinery's pkg/util/validation: names of namespaces and accounts.
# client-go adds it where the client has a time-out; every other parameter (dryRun) means something.
_MEANINGLESS_PARAMETERS: Final = {"timeout"}

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class BoundObjectReference(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}
):
    """The object with which the token ends."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer depends on. `service_account_uid` is a precondition, "" for none;
    `content_type` is that of the wanted answer. Nothing of it is confidential."""

    namespace: str
    service_account: str
    service_account_uid: str
    audiences: tuple[str, ...]
    expiration_seconds: _Int64 | None
    bound_object_ref: BoundObjectReference | None
    content_type: str

    @property
    def pod_uid(self) -> str:
        """Of the pod with which the token ends; "" where it is bound to none, or by name only."""
        bound = self.bound_object_ref
        if bound is None or (bound.kind, bound.api_version) != ("Pod", "v1"):
            return ""
        return bound.uid


def token_request_key(
    namespace: str,
    service_account: str,
    *,
    query: Mapping[str, Sequence[str]],
    content_type: str,
    accept: str,
    body: bytes,
) -> TokenRequestKey | None:
    """Of POST /api/v1/namespaces/NAMESPACE/serviceaccounts/SERVICE_ACCOUNT/token. Headers are ""
    where the request has none. None: it is to be passed on, and its answer is not to be kept."""
    wanted = _wanted(accept)
    if not wanted or query.keys() - _MEANINGLESS_PARAMETERS or len(body) > MAX_BODY:
        return None
    if not (is_label(namespace) and is_subdomain(service_account)):
        return None
    request = _read(content_type, body)
    if request is None or not _is_of(request.metadata, namespace, service_account):
        return None
    return TokenRequestKey(
        namespace=namespace,
        service_account=service_account,
        service_account_uid=request.metadata.uid,
        audiences=request.spec.audiences or (),
        expiration_seconds=request.spec.expiration_seconds,
        bound_object_ref=request.spec.bound_object_ref,
        content_type=wanted,
    )


def issued_token(content_type: str, body: bytes) -> str:
    """The bearer token in an answer of the API server; "" where there is none. Confidential."""
    answer = None if len(body) > MAX_BODY else _read(content_type, body)
    return "" if answer is None else answer.status.token


# ── what both forms are read to ──


class _AccountMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Spec(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"expiration_seconds": "expirationSeconds", "bound_object_ref": "boundObjectRef"},
):
    audiences: tuple[str, ...] | None = None
    expiration_seconds: _Int64 | None = None
    bound_object_ref: BoundObjectReference | None = None


class _IssuedToken(msgspec.Struct, frozen=True):
    token: str = ""


class _TokenRequest(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"api_version": "apiVersion"},
):
    api_version: str = ""
    kind: str = ""
    metadata: _AccountMetadata = _AccountMetadata()
    spec: _Spec = _Spec()
    status: _IssuedToken = _IssuedToken()


def _wanted(accept: str) -> str:
    """The media type of the answer; "" where the client likes another best."""
    liked = clauses(accept)
    if not accept:
        return JSON
    if not liked or liked[0].parameters:
        return ""
    best = f"{liked[0].type}/{liked[0].subtype}"
    return JSON if best == "*/*" else best if best in (JSON, PROTOBUF) else ""


def _is_of(metadata: _AccountMetadata, namespace: str, service_account: str) -> bool:
    """Whether the body names, if any, the account of the path; the API server refuses another."""
    return metadata.namespace in ("", namespace) and metadata.name in ("", service_account)


def _read(content_type: str, body: bytes) -> _TokenRequest | None:
    read = {"": _from_json, JSON: _from_json, PROTOBUF: _from_protobuf}.get(
        media_type(content_type)
    )
    try:
        found = None if read is None else read(body)
    except (ValueError, RecursionError):
        return None
    return found if found and _is_token_request(found.api_version, found.kind) else None


def _is_token_request(api_version: str, kind: str) -> bool:
    """The API server puts in what is left out."""
    return api_version in ("", API_VERSION) and kind in ("", KIND)


def _from_json(body: bytes) -> _TokenRequest:
    """Raises ValueError, RecursionError. Of a member that is there twice Go takes parts of
    both: refused."""
    json.loads(body, object_pairs_hook=_without_duplicates)
    return msgspec.json.decode(body, type=_TokenRequest)


def _without_duplicates(members: Iterable[tuple[str, object]]) -> dict[str, object]:
    listed = list(members)
    found = dict(listed)
    if len(found) < len(listed):
        raise ValueError("a member stands there twice")
    return found


def _from_protobuf(body: bytes) -> _TokenRequest:
    """Raises BadWire. runtime.Unknown{1 typeMeta, 2 raw, 3 contentEncoding, 4 contentType}
    around TokenRequest{1 metadata, 2 spec, 3 status}."""
    if not body.startswith(_MAGIC):
        raise BadWire("the envelope is missing")
    envelope = Message(body.removeprefix(_MAGIC))
    envelope.allow_only(1, 2, 3, 4)
    if 2 not in envelope or envelope.content(3) or envelope.text(4) not in ("", PROTOBUF):
        raise BadWire("the envelope is empty, or holds another encoding")
    type_meta, request = envelope.message(1), envelope.message(2)
    request.allow_only(1, 2, 3)
    return _TokenRequest(
        api_version=type_meta.text(1),
        kind=type_meta.text(2),
        metadata=_metadata(request.message(1)),
        spec=_spec(request.message(2)),
        status=_IssuedToken(request.message(3).text(1)),
    )


def _metadata(message: Message) -> _AccountMetadata:
    """ObjectMeta{1 name, 3 namespace, 5 uid}: nothing else of it takes part in an answer."""
    return _AccountMetadata(name=message.text(1), namespace=message.text(3), uid=message.text(5))


def _spec(message: Message) -> _Spec:
    """TokenRequestSpec{1 audiences, 3 boundObjectRef, 4 expirationSeconds}"""
    message.allow_only(1, 3, 4)
    bound = _bound_object_ref(message.message(3)) if 3 in message else None
    return _Spec(message.texts(1), message.int64(4), bound)


def _bound_object_ref(message: Message) -> BoundObjectReference:
    """BoundObjectReference{1 kind, 2 apiVersion, 3 name, 4 uID}"""
    message.allow_only(1, 2, 3, 4)
    return BoundObjectReference(*map(message.text, (1, 2, 3, 4)))
