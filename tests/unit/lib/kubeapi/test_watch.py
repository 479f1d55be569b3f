"""What a line of a watch says, and that no line at all can do more than end the watch."""

import json

import pytest

from edge_sidecars.kubeapi import ApiError, Gone, Unreachable, parse_event


def test_an_event_tells_what_happened_to_which_object() -> None:
    event = parse_event(b'{"type": "DELETED", "object": {"metadata": {"name": "x"}}}')
    assert event.type == "DELETED"
    assert event.object == {"metadata": {"name": "x"}}


def test_an_error_event_is_raised_as_a_refusal_with_its_code_would_be() -> None:
    told = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Gone, match="410 Expired: too old"):
        parse_event(json.dumps({"type": "ERROR", "object": told}).encode())


def test_an_error_event_without_a_code_is_the_servers_fault() -> None:
    with pytest.raises(ApiError) as raised:
        parse_event(b'{"type": "ERROR", "object": {}}')
    assert raised.value.status == 500


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"\xff",
        b"[]",
        b"1",
        b"null",
        b'"ADDED"',
        b"{}",
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": null}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": 1, "object": {}}',
        b'{"object": {}}',
        b'{"type": "ERROR", "object": "x"}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_no_usable_answer(line: bytes) -> None:
    with pytest.raises(Unreachable):
        parse_event(line)
