"""Two owners of one shard are found by their answers, in whatever order these are noted."""

import itertools

import pytest

from tools.demo.sedna.claims import Claims

# Member, token of shard 3, when it was asked for, when it came.
Note = tuple[str, int, float, float]


def _claims(*notes: Note) -> Claims:
    claims = Claims()
    for member, token, sent, received in notes:
        claims.note(member, {3: token}, sent=sent, received=received)
    return claims


def _orders(*notes: Note) -> list[Claims]:
    return [_claims(*order) for order in itertools.permutations(notes)]


@pytest.mark.parametrize(
    "notes",
    [
        # The next owner is seen after the last question to the one before.
        [("a", 7, 1.0, 1.1), ("a", 7, 2.0, 2.1), ("b", 9, 2.05, 2.2)],
        # It gets the shard back.
        [("a", 7, 1.0, 1.1), ("b", 9, 2.0, 2.1), ("a", 11, 3.0, 3.1)],
        # The old owner was asked before the new one's answer came, and answers late.
        [("b", 9, 2.0, 2.1), ("a", 7, 2.05, 5.0)],
    ],
)
def test_a_shard_that_moves_has_one_owner_at_a_time(notes: list[Note]) -> None:
    for claims in _orders(*notes):
        assert claims.answers == len(notes)
        assert list(claims.broken()) == []


def test_an_older_token_that_is_asked_for_after_a_newer_one_came_is_found() -> None:
    for claims in _orders(("a", 7, 1.0, 1.1), ("b", 9, 2.0, 2.1), ("a", 7, 2.25, 2.3)):
        assert list(claims.broken()) == ["shard 3: a (token 7) and b (token 9), 0.150 s"]


def test_one_token_of_two_members_is_found_whenever_they_are_asked() -> None:
    [found] = _claims(("a", 7, 1.0, 1.1), ("b", 7, 2.0, 2.1)).broken()
    assert "a (token 7) and b (token 7)" in found


def test_shards_are_judged_each_by_itself() -> None:
    claims = Claims()
    claims.note("a", {1: 7, 2: 7}, sent=1.0, received=1.1)
    claims.note("b", {2: 9}, sent=2.0, received=2.1)
    claims.note("a", {1: 7}, sent=3.0, received=3.1)
    assert list(claims.broken()) == []
