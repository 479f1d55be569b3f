"""The one table from a failed call to a type."""

import json

import pytest

from edge_sidecars.kubeapi import ApiError, Conflict, Forbidden, Gone, NotFound
from edge_sidecars.kubeapi.errors import MESSAGE_LIMIT, api_error


def status(reason: str, message: str) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (302, ApiError),
        (400, ApiError),
        (401, ApiError),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, ApiError),
        (429, ApiError),
        (500, ApiError),
        (504, ApiError),
    ],
)
def test_each_status_has_its_type(code: int, kind: type[ApiError]) -> None:
    error = api_error(code, status("Why", "what happened"))
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, "Why", "what happened")
    assert str(error) == f"{code} Why: what happened"


@pytest.mark.parametrize(
    ("code", "is_refusal"), [(302, False), (400, True), (409, True), (499, True), (500, False)]
)
def test_only_4xx_is_certainly_not_applied(code: int, is_refusal: bool) -> None:
    assert api_error(code, b"").is_refusal is is_refusal


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"upstream connect error", "upstream connect error"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1]", "[1]"),
        (b'"text"', '"text"'),
        (b'{"message": null, "reason": null}', ""),
        (b"{" * 3, "{{{"),
    ],
)
def test_a_body_that_is_no_status_object_is_the_message(body: bytes, message: str) -> None:
    assert api_error(500, body).message == message


def test_a_bottomless_body_is_no_recursion_error() -> None:
    assert api_error(500, b"[" * 100_000).status == 500


def test_long_messages_are_cut() -> None:
    assert len(api_error(500, status("", "x" * 10_000)).message) == MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("1", 1.0), ("30", 30.0), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("-1", None)],
)
def test_retry_after_is_read_in_seconds(header: str | None, seconds: float | None) -> None:
    assert api_error(429, b"", retry_after=header).retry_after == seconds
