"""What a Dataset, a Model or a job says of a place is a place, or is refused with the reason."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from yarl import URL

from edge_sidecars.sedna_api.core.file_url import InvalidUrl, is_below, is_remote, parse_url
from tests.examples import examples

PIECES = [
    "http",
    "https",
    "s3",
    "file",
    "://",
    ":",
    "/",
    "//",
    "host",
    "[",
    "]",
    "::1",
    "@",
    "..",
    "%",
    "%2e%2e",
    "%zz",
    "?",
    "#",
    ".",
    ":80",
    ":99999",
    ":0",
    ":-1",
    ":x",
    "\0",
    "\n",
    " ",
    "é",
    "\u2028",
    "xn--",
    "a" * 64,
    "bucket",
    "\U0001f600",
    "\u212a",
    "\uff10",
    "\uff0e",
    "[fe80::1%",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=9).map("".join))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "d.txt",
        "./d.txt",
        "/srv/../etc/shadow",
        "/srv/..",
        "/d\0.txt",
        "/d\n.txt",
        "/" + "a" * 256,
        "/a" * 3000,
        "file:///etc/shadow",
        "ftp://host/x",
        "http:host/x",
        "http:///x",
        "http://host:99999/x",
        "http://host:0/x",
        "http://host:-1/x",
        "http://host:x/x",
        "http://[broken/x",
        "http://[::1%eth0]/x",
        "http://a..b/x",
        "http://" + "a" * 64 + "/x",
        "http://ho st/x",
        "http://@/x",
        "http://:80/x",
        "http://%41/x",
        "s3://",
        "s3:///x",
        "s3://a b/x",
        "s3://bucket:99999/x",
        "s3://u@bucket/x",
        "\ud800",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_url(text)


@pytest.mark.parametrize(
    ("text", "scheme", "path"),
    [
        ("/", "", "/"),
        ("/srv//d 1.txt", "", "/srv//d 1.txt"),
        ("/srv/größe:1", "", "/srv/größe:1"),
        ("/srv/..d/...", "", "/srv/..d/..."),
        ("s3://my-bucket/a/../b", "s3", "/a/../b"),
        ("S3://bucket", "s3", ""),
        ("http://host:65535/x?y=1#z", "http", "/x"),
        ("https://[::1]:8443/x", "https", "/x"),
        ("http://user:word@10.0.0.5/x", "http", "/x"),
        ("http://bücher.example/x", "http", "/x"),
        ("http://my_service.ns.svc.cluster.local./x", "http", "/x"),
    ],
)
def test_a_place_is_taken_as_it_is(text: str, scheme: str, path: str) -> None:
    found = parse_url(text)
    assert (found.text, found.scheme, found.path) == (text, scheme, path)
    assert is_remote(text) == found.is_remote


@given(TEXTS)
@example("http://[v1.x]/x")
@example("http://\u2488\u2488/x")
@settings(max_examples=examples(10_000), deadline=None)
def test_every_text_is_a_place_or_refused(text: str) -> None:
    try:
        found = parse_url(text)
    except InvalidUrl:
        return
    if found.scheme.startswith("http"):
        URL(text)  # what asks for it takes it
    elif not found.is_remote:
        assert text.startswith("/")
        text.encode()


@pytest.mark.parametrize(
    ("directory", "text", "is_inside"),
    [
        ("/srv/out", "/srv/out/train/1/m.pb", True),
        ("/srv/out/", "/srv/out//./m.pb", True),
        ("/srv/out", "/srv/out", False),
        ("/srv/out", "/srv/out/", False),
        ("/srv/out", "/srv/out2/m.pb", False),
        ("/srv/out", "/srv/out/../m.pb", False),
        ("/srv/out", "/etc/shadow", False),
        ("/srv/out", "srv/out/m.pb", False),
        ("/srv/out", "s3://srv/out/m.pb", False),
        ("/srv/out", "file:///srv/out/m.pb", False),
        ("/srv/out", "", False),
        ("", "/srv/out/m.pb", False),
        ("s3://bucket/out", "s3://bucket/out/m.pb", True),
        ("s3://bucket", "s3://bucket/m.pb", True),
        ("s3://bucket/out", "s3://other/out/m.pb", False),
        ("s3://bucket/out", "s3://bucket/out/../m.pb", False),
        ("s3://bucket/out", "/out/m.pb", False),
        ("http://host/out", "http://host/out/m.pb", True),
        ("http://host/out", "http://host/out/%2e%2e/m.pb", False),
        ("http://host/out", "http://host:8080/out/m.pb", False),
        ("http://host/out", "http://host@evil/out/m.pb", False),
    ],
)
def test_what_lies_in_a_directory_by_its_name(directory: str, text: str, is_inside: bool) -> None:
    assert is_below(directory, text) == is_inside
