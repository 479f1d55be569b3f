"""A request is recognized in a client's bytes, however they are cut."""

from __future__ import annotations

import pytest

from tests.controlplane.tls_records import RequestDetector


def record(content_type: int, length: int) -> bytes:
    """A TLS record whose content looks like a record of application data."""
    return bytes([content_type, 3, 3]) + length.to_bytes(2, "big") + b"\x17" * length


HANDSHAKE = record(22, 300) + record(20, 1) + record(22, 0) + record(22, 40)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 1000])
def test_only_application_data_counts_as_a_request_in_tls(size: int) -> None:
    detector = RequestDetector()
    for start in range(0, len(HANDSHAKE), size):
        detector.feed(HANDSHAKE[start : start + size])
        assert not detector.requested
    request = record(23, 50)
    for start in range(0, len(request), size):
        detector.feed(request[start : start + size])
    assert detector.requested


def test_the_end_of_a_handshake_and_a_request_may_share_a_chunk() -> None:
    detector = RequestDetector()
    detector.feed(HANDSHAKE + record(23, 1))
    assert detector.requested


def test_any_byte_is_a_request_without_tls() -> None:
    detector = RequestDetector()
    detector.feed(b"")
    assert not detector.requested
    detector.feed(b"G")
    assert detector.requested
