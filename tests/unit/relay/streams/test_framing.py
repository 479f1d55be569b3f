"""Events in each framing: what a reader of that framing finds is what was written."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.streams.fanout import as_chunk, as_lines, as_messages

# Around what fits in a head of 2, 4 and 10 bytes (RFC 6455, 5.2).
SIZES = st.sampled_from([0, 1, 125, 126, 127, 65535, 65536, 70000])
EVENTS = st.lists(SIZES, min_size=1, max_size=6).map(
    lambda sizes: [bytes([65 + number]) * size for number, size in enumerate(sizes)]
)


@given(EVENTS)
def test_over_a_websocket_each_event_is_a_message_of_text(events: list[bytes]) -> None:
    left, found = as_messages(events), []
    while left:
        assert left[0] == 0x81, "whole, text"
        size, at = left[1], 2
        assert size < 128, "a server masks nothing"
        if size == 126:
            [size], at = struct.unpack("!H", left[2:4]), 4
            assert size > 125
        elif size == 127:
            [size], at = struct.unpack("!Q", left[2:10]), 10
            assert size > 65535
        found.append(left[at : at + size])
        left = left[at + size :]
    assert found == events


@given(EVENTS)
def test_in_http_all_events_of_a_moment_are_one_chunk(events: list[bytes]) -> None:
    head, _, rest = as_chunk(events).partition(b"\r\n")
    assert rest == as_lines(events) + b"\r\n"
    assert int(head, 16) == len(as_lines(events))
