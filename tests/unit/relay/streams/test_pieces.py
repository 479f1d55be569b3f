"""A body in pieces is the same body, wherever it is gone on with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.streams.list_encoder import ALONE, MOST, PART, Pieces

# Of objects and what is between them; about a part, and more.
SIZES = st.sampled_from([1, 2, 3000, ALONE - 1, ALONE, ALONE + 1, PART - 1, PART, PART + 1, 10**6])


def made_of(sizes: list[int]) -> tuple[Pieces, bytes]:
    pieces = [bytes([65 + at % 26]) * size for at, size in enumerate(sizes)]
    return Pieces(pieces), b"".join(pieces)


@given(st.lists(SIZES, max_size=8), st.floats(0, 1))
def test_what_follows_is_the_rest_of_the_body(sizes: list[int], where: float) -> None:
    body, whole = made_of(sizes)
    assert body.length == len(whole)
    at = int(where * len(whole))
    assert b"".join(body.rest(at, len(whole))) == whole[at:]
    some = b"".join(body.rest(at, 3000))
    assert whole[at:].startswith(some)
    assert len(some) >= min(3000, len(whole) - at)
    part = bytes(body.part(at))
    assert whole[at:].startswith(part)
    assert len(part) <= PART
    assert bool(part) == (at < len(whole))
    assert b"".join(body.parts()) == whole


def test_a_system_call_takes_so_many_pieces() -> None:
    body, whole = made_of([3, 2] * MOST)
    assert len(body.rest(0, len(whole))) == MOST
    assert whole.startswith(b"".join(body.rest(0, len(whole))))


@pytest.mark.parametrize("at", [0, 1, PART, PART + ALONE])
def test_what_lies_together_is_not_copied(at: int) -> None:
    piece = bytes(2 * PART)
    part = Pieces([piece]).part(at)
    assert isinstance(part, memoryview)
    assert part.obj is piece
