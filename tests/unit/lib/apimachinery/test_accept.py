"""Which representation a client gets, by the Accept headers that clients send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.request.accept import (
    Form,
    Representation,
    representation,
    takes_gzip,
)

META = "g=meta.k8s.io;v=v1"
LISTS = f"as=PartialObjectMetadataList;{META}"
PROTOBUF = "application/vnd.kubernetes.protobuf"
WHOLE = Representation(Form.WHOLE, "", True)
OTHER = Representation(Form.OTHER)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        f"{PROTOBUF},application/*",
        "application/json;stream=watch",
        "application/json; charset=utf-8; q=0.5",
        "application/json, */*",
        # client-go's typed clients, new and old.
        f"{PROTOBUF},application/json",
        f"{PROTOBUF}, */*",
        # A browser.
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        # goautoneg puts */* behind, whatever its quality.
        f"*/*;as=PartialObjectMetadata;{META}, application/json;q=0.9",
        # A better liked form that kube-apiserver does not know.
        "application/json;as=Picture;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v2,application/json",
        "application/json;as=Table;v=v1,application/json",
        "application/json;stream=other,application/json",
        "application/json;sv=v2,application/json",
    ],
)
def test_json_is_an_answer_to_whoever_takes_it(accept: str) -> None:
    assert representation(accept) == WHOLE


@pytest.mark.parametrize(
    "accept",
    [
        PROTOBUF,
        f"{PROTOBUF};stream=watch",
        "application/yaml",
        "application/cbor",
        "application/cbor-seq,application/yaml",
        "text/html",
        "text/*",
        "application",
        # kube-apiserver knows no other wildcard than */*, on its own.
        "*",
        "application/*",
        "application / json",
        "application/json/x",
        "*/json",
        "application/json;as=Picture;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v2",
        "application/json;as=Table;v=v1",
        "application/json;stream=other",
        "application/json;sv=v2",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ],
)
def test_what_takes_no_json_is_upstreams_to_answer(accept: str) -> None:
    assert representation(accept) == OTHER


@pytest.mark.parametrize(
    ("accept", "allows_whole"),
    [
        # client-go's metadata client.
        (f"{PROTOBUF};{LISTS},application/json;{LISTS},application/json", True),
        (f"{PROTOBUF};{LISTS},application/json;{LISTS}", False),
        (f"application/json;as=PartialObjectMetadata;{META}", False),
        (f"*/*;as=PartialObjectMetadata;{META}, */*;q=0.9", True),
    ],
)
def test_metadata_informers_get_metadata(accept: str, allows_whole: bool) -> None:
    of_list = "PartialObjectMetadataList" in accept
    expected = Representation(Form.METADATA, "meta.k8s.io/v1", allows_whole, of_list)
    assert representation(accept) == expected


def test_kubectl_gets_a_table_and_takes_whole_objects() -> None:
    accept = (
        "application/json;as=Table;v=v1;g=meta.k8s.io,"
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
    )
    assert representation(accept) == Representation(Form.TABLE, "meta.k8s.io/v1", True)


@pytest.mark.parametrize(
    ("accept", "api_version"),
    [
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "meta.k8s.io/v1beta1"),
        (f"application/json;q=0.1,application/json;as=Table;{META};q=0.2", "meta.k8s.io/v1"),
        (f"application/json; q =0.1, application/json; as = Table ;{META}", "meta.k8s.io/v1"),
        (f"application/json;q=x,application/json;as=Table;{META};q=0.2", "meta.k8s.io/v1"),
        # Whoever says */* means: if there is nothing else.
        (f"*/*,application/json;as=Table;{META}", "meta.k8s.io/v1"),
    ],
)
def test_the_best_liked_comes_first(accept: str, api_version: str) -> None:
    found = representation(accept)
    assert (found.form, found.api_version) == (Form.TABLE, api_version)


_PIECES = st.sampled_from(
    ("application/json", PROTOBUF, "*/*", "*", "/", ";", ",", "=", "q", "0.5", "as", "Table", " ")
)


@given(accept=st.lists(_PIECES, max_size=12).map("".join) | st.text())
def test_any_header_is_read(accept: str) -> None:
    found = representation(accept)
    assert bool(found.api_version) == (found.form in (Form.METADATA, Form.TABLE))


@pytest.mark.parametrize("header", ["gzip", "deflate, gzip;q=0.5", "*", "br;q=1.0, gzip; q=1"])
def test_who_takes_gzip_gets_it(header: str) -> None:
    assert takes_gzip(header)


@pytest.mark.parametrize("header", ["", "identity", "br", "gzip;q=0", "gzip; q = 0.00", "xgzip"])
def test_who_does_not_take_gzip_gets_none(header: str) -> None:
    assert not takes_gzip(header)
