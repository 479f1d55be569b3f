"""Whose place is kept where there are more clients than places."""

import pytest

from edge_sidecars.runtime.web.places import LOCAL, RESERVED, Places, peer_of


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("127.0.0.1", 1), LOCAL),
        (("127.3.2.1", 1), LOCAL),
        (("::1", 1, 0, 0), LOCAL),
        ("", LOCAL),
        (b"", LOCAL),
        (("192.0.2.1", 1), "192.0.2.1"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::1"),
    ],
)
def test_a_peer_is_its_address_and_this_machine_is_one(address: object, peer: str) -> None:
    assert peer_of(address) == peer


def test_one_address_has_no_more_than_half_of_the_places() -> None:
    places = Places(64)
    while places.rivals("192.0.2.1") is None:
        places.takes("192.0.2.1")
    assert places.taken == 32
    assert places.rivals("192.0.2.1") == {"192.0.2.1"}
    assert places.rivals("192.0.2.2") is None


def test_all_other_addresses_together_leave_the_reserve_to_this_machine() -> None:
    places = Places(64)
    for number in range(1000):
        if places.rivals(f"192.0.2.{number}") is None:
            places.takes(f"192.0.2.{number}")
    assert places.taken == 64 - RESERVED
    for _ in range(RESERVED):
        assert places.rivals(LOCAL) is None
        places.takes(LOCAL)
    assert LOCAL in (places.rivals(LOCAL) or ())


def test_a_place_that_is_left_is_there_again() -> None:
    places = Places(1)
    places.takes("192.0.2.1")
    assert places.rivals(LOCAL) == {"192.0.2.1"}
    places.leaves("192.0.2.1")
    assert places.rivals(LOCAL) is None
    assert places.taken == 0
