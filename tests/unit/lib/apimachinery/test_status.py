"""Status objects as kube-apiserver writes them, to the byte."""

import pytest

from edge_sidecars.apimachinery.status import (
    Refused,
    Status,
    StatusCause,
    bad_request,
    expired,
    expired_continue,
    forbidden,
    invalid,
    may_be_own_word,
    not_acceptable,
    not_found,
    timeout_outcome_unknown,
    too_large_version,
    too_many,
    unauthorized,
    unavailable,
)

HEAD = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'


def test_not_found_names_the_object() -> None:
    assert not_found("pods", "x").body() == (
        HEAD + b'"pods \\"x\\" not found","reason":"NotFound",'
        b'"details":{"name":"x","kind":"pods"},"code":404}\n'
    )
    assert not_found("deployments", "x", group="apps").body() == (
        HEAD + b'"deployments.apps \\"x\\" not found","reason":"NotFound",'
        b'"details":{"name":"x","group":"apps","kind":"deployments"},"code":404}\n'
    )


def test_a_bad_request_has_no_details_and_is_safe_inside_of_html() -> None:
    assert bad_request("<nil>").body() == (
        HEAD + b'"\\u003cnil\\u003e","reason":"BadRequest","code":400}\n'
    )


def test_a_reason_that_there_is_not_is_left_out() -> None:
    status = Status(code=500, reason="", message="x")
    assert status.body() == HEAD + b'"x","code":500}\n'


def test_a_version_too_large_has_its_cause() -> None:
    assert too_large_version(9, 4).body() == (
        HEAD + b'"Timeout: Too large resource version: 9, current: 4","reason":"Timeout",'
        b'"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource '
        b'version"}],"retryAfterSeconds":1},"code":504}\n'
    )


def test_what_is_invalid_tells_each_cause_and_repeats_no_message() -> None:
    one, two = StatusCause("FieldValueForbidden", "Forbidden: x", "a"), StatusCause("T", "Bad", "b")
    single = invalid("ListOptions", [one, one], group="meta.k8s.io")
    assert single.message == 'ListOptions.meta.k8s.io "" is invalid: a: Forbidden: x'
    assert len(single.causes) == 2
    status = invalid("Pod", [one, two], name="p")
    assert status.message == 'Pod "p" is invalid: [a: Forbidden: x, b: Bad]'
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.details["causes"] == [
        {"reason": "FieldValueForbidden", "message": "Forbidden: x", "field": "a"},
        {"reason": "T", "message": "Bad", "field": "b"},
    ]


def test_what_is_forbidden_names_what_there_is_to_name() -> None:
    assert forbidden("pods", "x", why="no").message == 'pods "x" is forbidden: no'
    assert forbidden("leases", group="c.k8s.io", why="no").message == (
        "leases.c.k8s.io is forbidden: no"
    )
    assert forbidden("", why="no").message == "forbidden: no"


def test_only_what_was_certainly_not_done_may_be_sent_again() -> None:
    assert (unavailable("").reason, unavailable("").code) == ("ServiceUnavailable", 503)
    assert unavailable("cut off").retry_after is None
    assert unavailable("cut off", 5).details == {"retryAfterSeconds": 5}
    assert too_many("full").retry_after == 1
    assert timeout_outcome_unknown().retry_after is None
    assert b"retryAfterSeconds" not in timeout_outcome_unknown().body()


def test_what_is_gone_is_expired() -> None:
    for status in (expired(), expired(3), expired(3, 7), expired_continue()):
        assert (status.code, status.reason) == (410, "Expired")
    assert expired(3, 7).message == "too old resource version: 3 (7)"
    assert "continue" in expired_continue().message


def test_a_refusal_says_why() -> None:
    assert str(Refused(unauthorized())) == "401 Unauthorized: Unauthorized"
    assert not_acceptable(["a/b", "c/d"]).message.endswith("are accepted: a/b, c/d")


def test_as_the_last_event_of_a_watch_it_is_one_line() -> None:
    line = bad_request("x").event()
    assert line.count(b"\n") == 1
    assert line == b'{"type":"ERROR","object":%s}\n' % bad_request("x").body().rstrip()


JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
OF_ROUTER = "application/problem+json"
IN_PROTOBUF = b"k8s\x00\n\x0c\n\x02v1\x12\x06Status\x12\x02\x1a\x00"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
@pytest.mark.parametrize(
    ("content_type", "body", "is_own"),
    [
        (JSON, not_found("pods", "x").body(), True),
        (PROTOBUF, IN_PROTOBUF, True),
        ("application/yaml", b"apiVersion: v1\nkind: Status\n", True),
        (JSON, b'{"message":"no Route matched with those values"}', False),
        (JSON, b'{"kind":"Error","reason":"NotFound"}', False),
        (JSON, b"[404]", False),
        (JSON, b"", False),
        (OF_ROUTER, b'{"title":"Not Found"}', False),
        ("text/html", not_found("pods", "x").body(), False),
    ],
)
def test_what_refuses_and_is_no_status_is_no_word_of_the_api_server(
    status: int, content_type: str, body: bytes, is_own: bool
) -> None:
    assert may_be_own_word(status, content_type, body) is is_own


@pytest.mark.parametrize(
    ("status", "is_own"),
    [(401, False), (403, False), (404, True), (405, True), (429, True), (500, True)],
)
def test_of_refusals_in_plain_text_some_may_be_of_the_api_server(status: int, is_own: bool) -> None:
    """404 page not found: of a group that it does not serve; 429: of too many requests."""
    assert may_be_own_word(status, "text/plain; charset=utf-8", b"no") is is_own
