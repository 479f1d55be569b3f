"""What a line of a watch says, and that no line at all can do more than end the watch."""

import json

import pytest

from edge_sidecars.apimachinery.watch_events import Bookmark, decode_object
from edge_sidecars.kubeapi import ApiError, Gone, Unreachable, WatchEvent, parse_event


def test_an_event_tells_what_happened_to_which_object() -> None:
    line = b'{"type": "DELETED", "object": {"metadata": {"name": "x"}}}'
    event = parse_event(line, decode_object)
    assert isinstance(event, WatchEvent)
    assert event.type == "DELETED"
    assert event.object == {"metadata": {"name": "x"}}


def test_an_error_event_is_raised_as_a_refusal_with_its_code_would_be() -> None:
    told = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Gone, match="410 Expired: too old"):
        parse_event(json.dumps({"type": "ERROR", "object": told}).encode(), decode_object)


def test_an_error_event_without_a_code_is_the_servers_fault() -> None:
    with pytest.raises(ApiError) as raised:
        parse_event(b'{"type": "ERROR", "object": {}}', decode_object)
    assert raised.value.status == 500


@pytest.mark.parametrize("space", ["", " ", "\t"])
@pytest.mark.parametrize(("end", "is_end"), [("true", True), ("false", False), (None, False)])
def test_a_bookmark_has_a_version_and_may_end_the_initial_events(
    space: str, end: str | None, is_end: bool
) -> None:
    annotations = None if end is None else {"k8s.io/initial-events-end": end}
    metadata = {"resourceVersion": "7", "annotations": annotations}
    event = {"type": "BOOKMARK", "object": {"metadata": metadata}}
    line = json.dumps(event, separators=("," + space, ":" + space)).encode()
    assert parse_event(line, decode_object) == Bookmark("7", is_end)


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
        b'{"type": "RENAMED", "object": {}}',
        b'{"type": "BOOKMARK", "object": {}}',
        b'{"type": "BOOKMARK", "object": {"metadata": []}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": 1}}}',
        b'{"type":"ADDED","object":{"a":{}}',
        b'{"type":"ADDED","object":{}}{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{},}',
        b'{"type":"ADDED" "object":{}}',
        b'{"type":"ADDED","object":{"a":"\xff"}}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_no_usable_answer(line: bytes) -> None:
    with pytest.raises(Unreachable):
        parse_event(line, decode_object)
