"""TokenRequests and their answers as bytes, as Go writes them."""

from collections.abc import Sequence

import msgspec

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
UID = "5d2f1c6e-6f0b-4d0e-9a53-0d5f7d1c2b3a"
# What client-go 0.36 sends for kubelet's projected volume of pod web-0: audiences absent, and vault
# and x.
FROM_GO = bytes.fromhex(
    "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e5265717565737412"
    "550a100a0012001a0022002a00320038004200123b1a360a03506f64120276311a057765622d302224356432663163"
    "36652d366630622d346430652d396135332d30643566376431633262336120971c1a040a0012001a002200"
)
FROM_GO_WITH_AUDIENCES = bytes.fromhex(
    "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e5265717565737412"
    "5f0a100a0012001a0022002a0032003800420012450a057661756c740a01781a360a03506f64120276311a05776562"
    "2d30222435643266316336652d366630622d346430652d396135332d30643566376431633262336120971c1a040a00"
    "12001a002200"
)
FROM_GO_IN_JSON = (
    b'{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":'
    b'{"audiences":["vault","x"],"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod",'
    b'"apiVersion":"v1","name":"web-0","uid":"5d2f1c6e-6f0b-4d0e-9a53-0d5f7d1c2b3a"}},"status":'
    b'{"token":"","expirationTimestamp":null}}\n'
)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    head = bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(head) + bytes([value])


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def content(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(raw: bytes, *, kind: str = "TokenRequest", encoding: str = "") -> bytes:
    type_meta = content(1, "authentication.k8s.io/v1") + content(2, kind)
    return b"k8s\x00" + (
        content(1, type_meta) + content(2, raw) + content(3, encoding) + content(4, "")
    )


def spec(
    *, audiences: Sequence[str] = (), seconds: int | None = 3607, bound: bytes | None = None
) -> bytes:
    """TokenRequestSpec."""
    listed = b"".join(content(1, audience) for audience in audiences)
    bound_ref = b"" if bound is None else content(3, bound)
    return listed + bound_ref + (b"" if seconds is None else integer(4, seconds))


def bound_to(uid: str, *, kind: str = "Pod", name: str = "web-0") -> bytes:
    """BoundObjectReference."""
    return content(1, kind) + content(2, "v1") + content(3, name) + content(4, uid)


def request(spec_fields: bytes, *, metadata: bytes = b"", token: str = "") -> bytes:
    """With `token` it is an answer."""
    status = content(1, token) + content(2, integer(1, 1_800_000_000))
    return envelope(content(1, metadata) + content(2, spec_fields) + content(3, status))


def metadata(*, name: str = "", namespace: str = "", uid: str = "") -> bytes:
    return content(1, name) + content(3, namespace) + content(5, uid)


def answer_body(token: str, *, content_type: str = PROTOBUF) -> bytes:
    """Of the API server, with this token."""
    if content_type == PROTOBUF:
        return request(spec(bound=bound_to(UID)), token=token)
    return msgspec.json.encode(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": "default", "creationTimestamp": "2026-11-23T12:00:00Z"},
            "spec": {"expirationSeconds": 3607},
            "status": {"token": token, "expirationTimestamp": "2026-11-23T13:00:00Z"},
        }
    )
