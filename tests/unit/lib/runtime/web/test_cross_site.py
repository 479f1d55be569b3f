"""A POST that a web page may have sent is refused; what a program of this machine sends is not."""

import pytest
from multidict import CIMultiDict

from edge_sidecars.runtime.web.cross_site import check_headers, is_own_host

Headers = list[tuple[str, str]]

OWN = ("Host", "127.0.0.1:9100")
JSON = ("Content-Type", "application/json")


def status(headers: Headers, *, has_body: bool = True) -> int:
    refused = check_headers(CIMultiDict(headers), has_body=has_body, hosts=("edge-1",))
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    "headers",
    [
        [OWN, JSON],
        [OWN, ("Content-Type", 'Application/JSON; charset="utf-8"')],
        [("Host", "localhost"), JSON],
        [("Host", "LOCALHOST.:9100"), JSON],
        [("Host", "[::1]:9100"), JSON],
        [("Host", "127.8.7.6"), JSON],
        [("Host", "edge-1:9100"), JSON],
        [OWN, JSON, ("Origin", "http://127.0.0.1:9100"), ("Sec-Fetch-Site", "same-origin")],
        [OWN, JSON, ("Sec-Fetch-Site", "none")],
    ],
)
def test_a_program_of_this_machine_may_post(headers: Headers) -> None:
    assert status(headers) == 200


@pytest.mark.parametrize(
    "headers",
    [
        [JSON],
        [OWN, OWN, JSON],
        [("Host", "evil.example"), JSON],
        [("Host", "localhost.evil.example:9100"), JSON],
        [("Host", "127.0.0.1.evil.example"), JSON],
        [("Host", "10.0.0.5:9100"), JSON],
        [("Host", "0.0.0.0:9100"), JSON],
        [("Host", ""), JSON],
        [("Host", "\udcff"), JSON],
        [OWN, JSON, ("Origin", "null")],
        [OWN, JSON, ("Origin", "")],
        [OWN, JSON, ("Origin", "http://evil.example")],
        [OWN, JSON, ("Origin", "http://127.0.0.1:8080")],
        [OWN, JSON, ("Origin", "http://127.0.0.1:9100"), ("Origin", "http://evil.example")],
        [OWN, JSON, ("Origin", "\udcff")],
        [OWN, JSON, ("Sec-Fetch-Site", "cross-site")],
        [OWN, JSON, ("Sec-Fetch-Site", "same-site")],
        [OWN, JSON, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
        [OWN, JSON, ("Sec-Fetch-Site", "")],
    ],
)
@pytest.mark.parametrize("has_body", [True, False])
def test_another_site_may_not(headers: Headers, has_body: bool) -> None:
    assert status(headers, has_body=has_body) == 403


@pytest.mark.parametrize(
    "kinds",
    [
        [],
        [""],
        ["text/plain"],
        ["application/x-www-form-urlencoded"],
        ["multipart/form-data"],
        ["text/plain; application/json"],
        ["application/jsonp"],
        ["text/xml"],
        ["\udcff"],
        ["application/json", "text/plain"],
    ],
)
def test_a_body_is_json_and_says_so(kinds: list[str]) -> None:
    headers = [OWN, *(("Content-Type", each) for each in kinds)]
    assert status(headers) == 415
    assert status(headers, has_body=False) == 200


@pytest.mark.parametrize("host", ["::1", "[::1]", "127.0.0.1:65535", "localhost:80"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_own_host(host)
