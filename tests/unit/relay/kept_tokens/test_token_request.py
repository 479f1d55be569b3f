"""Which TokenRequests are the same, and which cannot be told."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_sidecars.apimachinery.protobuf_wire import BadWire
from relay_sidecar.core.token_request import (
    MAX_BODY,
    BoundObjectReference,
    Message,
    TokenRequestKey,
    issued_token,
    token_request_key,
)
from tests.examples import examples
from tests.unit.relay.kept_tokens.token_bodies import (
    FROM_GO,
    FROM_GO_IN_JSON,
    FROM_GO_WITH_AUDIENCES,
    JSON,
    PROTOBUF,
    UID,
    answer_body,
    bound_to,
    content,
    envelope,
    integer,
    metadata,
    request,
    spec,
    varint,
)

KUBELET_ACCEPT = "application/vnd.kubernetes.protobuf,application/json"
WEB_0 = BoundObjectReference("Pod", "v1", "web-0", UID)
TEXTS = st.text(max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


def key_of(
    body: bytes,
    *,
    content_type: str = PROTOBUF,
    accept: str = KUBELET_ACCEPT,
    namespace: str = "shop",
    service_account: str = "default",
    **query: list[str],
) -> TokenRequestKey | None:
    return token_request_key(
        namespace,
        service_account,
        query=query,
        content_type=content_type,
        accept=accept,
        body=body,
    )


def key(**changed: Any) -> TokenRequestKey:
    """What FROM_GO asks for, but for these fields."""
    expected: dict[str, Any] = {
        "namespace": "shop",
        "service_account": "default",
        "service_account_uid": "",
        "audiences": (),
        "expiration_seconds": 3607,
        "bound_object_ref": WEB_0,
        "content_type": PROTOBUF,
    }
    return TokenRequestKey(**expected | changed)


def json_body(**members: object) -> bytes:
    return msgspec.json.encode(members)


# ── what is read ──


def test_what_client_go_sends_for_kubelet_is_read() -> None:
    assert key_of(FROM_GO) == key()
    assert key_of(FROM_GO_WITH_AUDIENCES) == key(audiences=("vault", "x"))


def test_the_same_request_in_json_has_the_same_key() -> None:
    assert key_of(FROM_GO_IN_JSON, content_type=JSON) == key_of(FROM_GO_WITH_AUDIENCES)


@given(
    audiences=st.lists(TEXTS, max_size=4),
    seconds=st.none() | NUMBERS,
    bound=st.none() | st.tuples(TEXTS, TEXTS, TEXTS),
    uid=TEXTS,
)
@settings(max_examples=examples(100))
def test_a_key_has_all_that_the_answer_depends_on(
    audiences: list[str], seconds: int | None, bound: tuple[str, str, str] | None, uid: str
) -> None:
    reference = None if bound is None else BoundObjectReference(bound[0], "v1", *bound[1:])
    bound_bytes = None if bound is None else bound_to(bound[2], kind=bound[0], name=bound[1])
    expected = key(
        audiences=tuple(audiences),
        expiration_seconds=seconds,
        bound_object_ref=reference,
        service_account_uid=uid,
    )
    in_protobuf = request(
        spec(audiences=audiences, seconds=seconds, bound=bound_bytes), metadata=metadata(uid=uid)
    )
    in_json = json_body(
        metadata={"uid": uid},
        spec={
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": reference and msgspec.to_builtins(reference),
        },
    )
    assert key_of(in_protobuf) == expected
    assert key_of(in_json, content_type=JSON) == expected


def test_requests_that_differ_in_the_path_have_different_keys() -> None:
    assert key_of(FROM_GO, namespace="bank") == key(namespace="bank")
    assert key_of(FROM_GO, service_account="builder") == key(service_account="builder")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (KUBELET_ACCEPT, PROTOBUF),
        ("application/json, application/vnd.kubernetes.protobuf;q=0.5", JSON),
        ("application/json", JSON),
        ("*/*", JSON),
        ("", JSON),
    ],
)
def test_the_key_has_the_form_that_the_client_likes_best(accept: str, wanted: str) -> None:
    assert key_of(FROM_GO, accept=accept) == key(content_type=wanted)


@pytest.mark.parametrize(
    "accept",
    ["application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", ";", "*/x"],
)
def test_where_the_client_likes_another_form_there_is_no_key(accept: str) -> None:
    assert key_of(FROM_GO, accept=accept) is None


def test_a_pod_is_known_by_its_uid() -> None:
    assert key().pod_uid == UID


@pytest.mark.parametrize(
    "bound",
    [
        None,
        BoundObjectReference("Node", "v1", "edge-1", UID),
        BoundObjectReference("Pod", "v2", "web-0", UID),
        BoundObjectReference("Pod", "v1", "web-0", ""),
    ],
)
def test_what_is_bound_to_no_pod_or_only_by_name_has_no_pod(
    bound: BoundObjectReference | None,
) -> None:
    assert key(bound_object_ref=bound).pod_uid == ""


# ── what has no key ──


def test_a_query_that_means_something_has_no_key_and_a_time_out_means_nothing() -> None:
    assert key_of(FROM_GO, dryRun=["All"]) is None
    assert key_of(FROM_GO, timeout=["10s"]) == key()


@pytest.mark.parametrize(
    "content_type", ["application/yaml", "application/cbor", "text/plain", "application/jsonx"]
)
def test_another_form_of_body_has_no_key(content_type: str) -> None:
    assert key_of(FROM_GO, content_type=content_type) is None


def test_parameters_and_case_of_the_content_type_mean_nothing() -> None:
    assert key_of(FROM_GO, content_type="Application/vnd.kubernetes.Protobuf; x=1") == key()
    assert key_of(FROM_GO_IN_JSON, content_type="") is not None


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "a\n", "a" * 254])
def test_what_can_be_no_name_has_no_key(name: str) -> None:
    assert key_of(FROM_GO, namespace=name) is None
    assert key_of(FROM_GO, service_account=name) is None


def test_a_body_that_is_too_long_has_no_key() -> None:
    fields = spec(bound=bound_to(UID))
    filler = content(17, b"x" * (MAX_BODY - 500))
    assert key_of(request(fields, metadata=filler)) == key()
    assert key_of(request(fields, metadata=filler + content(17, b"x" * 500))) is None


@pytest.mark.parametrize(
    "named",
    [metadata(name="other"), metadata(namespace="other"), content(1, "a") + content(1, "b")],
)
def test_a_body_of_another_account_than_the_path_has_no_key(named: bytes) -> None:
    assert key_of(request(spec(), metadata=named)) is None
    own = metadata(name="default", namespace="shop")
    assert key_of(request(spec(), metadata=own)) == key(bound_object_ref=None)


BOUND = bound_to(UID)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s\x00",
        FROM_GO[4:],
        FROM_GO[:-1],
        envelope(content(2, spec()), kind="TokenReview"),
        envelope(content(2, spec()), encoding="gzip"),
        FROM_GO + content(5, "new"),
        envelope(content(2, spec()) + content(4, "new")),
        request(spec() + content(5, "new")),
        request(spec() + content(2, "never used")),
        request(spec(bound=BOUND + content(5, "new"))),
        request(spec() + integer(4, 600)),
        request(spec(bound=BOUND) + content(3, BOUND)),
        request(spec(bound=BOUND + content(4, UID))),
        envelope(content(2, spec()) + content(2, spec())),
        request(content(1, b"\xff")),
        request(content(4, b"\x01")),
        request(integer(1, 7)),
        request(varint(1 << 3 | 5) + b"four"),
    ],
    ids=lambda body: body[-12:].hex(),
)
def test_protobuf_that_can_be_read_in_two_ways_or_none_has_no_key(body: bytes) -> None:
    assert key_of(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{} {}",
        b'{"spec":{"audiences":["a"]},"spec":{"expirationSeconds":600}}',
        b'{"spec":{"expirationSeconds":600,"expirationSeconds":700}}',
        b'{"spec":{"expirationSeconds":9223372036854775808}}',
        b'{"spec":{"expirationSeconds":600.5}}',
        b'{"spec":{"audiences":"a"}}',
        b'{"spec":{"audiences":["\\ud800"]}}',
        b'{"spec":{"new":1}}',
        b'{"spec":{"boundObjectRef":{"new":1}}}',
        b'{"new":1}',
        b'{"kind":"TokenReview"}',
        b'{"apiVersion":"authentication.k8s.io/v2"}',
        b"[" * 60000,
        '{"kind":"TokenRequest"}'.encode("utf-16"),
    ],
    ids=lambda body: body[:40].hex(),
)
def test_json_that_can_be_read_in_two_ways_or_none_has_no_key(body: bytes) -> None:
    assert key_of(body, content_type=JSON) is None


@given(body=st.binary(max_size=300), content_type=st.sampled_from([JSON, PROTOBUF, ""]))
@example(body=b"k8s\x00" + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", content_type=PROTOBUF)
@settings(max_examples=examples(300))
def test_no_body_raises(body: bytes, content_type: str) -> None:
    for head in (b"", b"k8s\x00"):
        key_of(head + body, content_type=content_type)
        assert isinstance(issued_token(content_type, head + body), str)


@given(at=st.integers(0, len(FROM_GO) - 1), byte=st.integers(0, 255))
@settings(max_examples=examples(500))
def test_no_damage_of_a_real_body_raises(at: int, byte: int) -> None:
    found = key_of(FROM_GO[:at] + bytes([byte]) + FROM_GO[at + 1 :])
    assert found is None or msgspec.msgpack.encode(found)


@given(accept=TEXTS, name=TEXTS)
@settings(max_examples=examples(100))
def test_no_header_and_no_path_raises(accept: str, name: str) -> None:
    key_of(FROM_GO, accept=accept, content_type=accept, namespace=name)


# ── the wire format ──


@given(data=st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_any_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    try:
        message = Message(data)
    except BadWire:
        return
    for read in (message.content, message.text, message.texts, message.message, message.int64):
        for number in range(1, 32):
            with contextlib.suppress(BadWire):
                read(number)


@given(value=NUMBERS)
@settings(max_examples=examples(100))
def test_a_number_comes_out_as_it_went_in(value: int) -> None:
    assert Message(integer(4, value)).int64(4) == value


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08" + b"\x80" * 10 + b"\x00",
        b"\x08" + b"\xff" * 9 + b"\x02",
        b"\x00\x00",
        b"\x07\x00",
        b"\x0b\x0c",
        b"\x0a\x02a",
        b"\x09" + b"1234567",
        varint(2**32 << 3) + b"\x00",
    ],
    ids=lambda data: data.hex(),
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(BadWire):
        Message(data)


# ── answers ──


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
def test_the_token_of_an_answer_is_found_in_both_forms(content_type: str) -> None:
    assert issued_token(content_type, answer_body("ey.J.x", content_type=content_type)) == "ey.J.x"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, FROM_GO),
        (JSON, FROM_GO_IN_JSON),
        (JSON, b"<html>login</html>"),
        ("text/html", b"<html>login</html>"),
        (JSON, b'{"kind":"Status","status":{"token":"x"}}'),
        (JSON, answer_body("x" * MAX_BODY, content_type=JSON)),
    ],
    ids=["request", "request-json", "garbage", "html", "other-kind", "too-long"],
)
def test_what_is_no_answer_has_no_token(content_type: str, body: bytes) -> None:
    assert issued_token(content_type, body) == ""
