"""Objects in protobuf come out as they would in JSON."""

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.protobuf_wire import BadWire
from tools.local_apiserver.core.body.protobuf import is_readable, read_object

CORE = "io.k8s.api.core.v1"
LEASE = "io.k8s.api.coordination.v1.Lease"


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(content)) + content


def envelope(kind: str, api_version: str, *content: bytes) -> bytes:
    head = data(1, data(1, api_version) + data(2, kind))
    return b"k8s\x00" + head + data(2, b"".join(content)) + data(3, "") + data(4, "")


def read(kind: str, *content: bytes, type_name: str = "") -> Any:
    return read_object(envelope(kind, "v1", *content), type_name or f"{CORE}.{kind}")


def test_maps_scalars_and_the_head_are_read() -> None:
    meta = data(1, data(1, "c") + data(3, "n") + data(11, data(1, "k") + data(2, "v")))
    found = read("ConfigMap", meta, data(2, data(1, "a") + data(2, "b")), number(4, 1))
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "n", "labels": {"k": "v"}},
        "data": {"a": "b"},
        "immutable": True,
    }


def test_what_go_writes_only_because_it_is_no_pointer_is_left_out() -> None:
    meta = data(1, data(1, "c") + data(2, "") + data(5, "") + data(8, b""))
    assert read("ConfigMap", meta)["metadata"] == {"name": "c"}


def test_what_a_pointer_points_to_is_kept_even_if_it_is_empty() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    time = number(1, int(moment.timestamp())) + number(2, 678_900_000)
    spec = data(2, data(1, "") + number(2, 0) + data(4, time) + number(5, -1))
    assert read("Lease", spec, type_name=LEASE)["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 0,
        "renewTime": "2024-01-02T03:04:05.678900Z",
        "leaseTransitions": -1,
    }


def test_bytes_are_base64() -> None:
    found = read("Secret", data(2, data(1, "a") + data(2, b"\x00\xff")))
    assert found["data"] == {"a": "AP8="}


def test_a_port_is_a_number_or_a_name() -> None:
    def port(target: bytes) -> bytes:
        return data(2, data(1, number(3, 80) + data(4, target)))

    by_number = read("Service", port(number(1, 0) + number(2, 8080) + data(3, "")))
    by_name = read("Service", port(number(1, 1) + number(2, 0) + data(3, "http")))
    assert by_number["spec"]["ports"] == [{"port": 80, "targetPort": 8080}]
    assert by_name["spec"]["ports"] == [{"port": 80, "targetPort": "http"}]


def test_quantities_and_inlined_structs_are_read() -> None:
    limits = data(8, data(1, data(1, "cpu") + data(2, data(1, "500m"))))
    probe = data(10, data(1, data(2, data(1, "/healthz"))) + number(4, 7))
    volume = data(1, data(1, "v") + data(2, data(2, b"")))
    found = read("Pod", data(2, volume + data(2, data(1, "c") + limits + probe)))
    container = found["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "500m"}}
    assert container["livenessProbe"] == {"httpGet": {"path": "/healthz"}, "periodSeconds": 7}
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_unknown_fields_are_passed_over() -> None:
    unknown = number(900, 1) + data(901, b"x") + varint(902 << 3 | 1) + struct.pack("<d", 1.5)
    assert read("ConfigMap", unknown + data(1, data(1, "c")))["metadata"] == {"name": "c"}


def test_definitions_are_not_readable_since_schemas_are_in_them() -> None:
    prefix = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    assert not is_readable(f"{prefix}.CustomResourceDefinition")
    assert not is_readable("")


@given(body=st.binary(max_size=60), starts_well=st.booleans())
def test_any_bytes_are_read_or_refused(body: bytes, starts_well: bool) -> None:
    try:
        found = read_object(b"k8s\x00" + body if starts_well else body, f"{CORE}.Pod")
    except BadWire:
        return
    assert isinstance(found, dict)


@given(raw=st.binary(max_size=80))
def test_any_object_in_an_envelope_is_read_or_refused(raw: bytes) -> None:
    try:
        found = read("Pod", raw)
    except BadWire:
        return
    assert found["kind"] == "Pod"


def test_json_is_not_protobuf() -> None:
    with pytest.raises(BadWire):
        read_object(b'{"kind":"Pod"}', f"{CORE}.Pod")
