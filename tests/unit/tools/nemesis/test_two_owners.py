"""Two owners of a shard show as an answer of an older term after a newer one's first."""

from tools.harness.peers.shard_observer import Span, together, two_owners


def span(pod: str, token: int, first: float, last: float, *, shard: int = 7) -> Span:
    return Span(pod, shard, token, first, last)


def test_terms_that_follow_each_other_are_good() -> None:
    assert not two_owners([span("a", 10, 1, 5), span("b", 12, 5, 9), span("a", 15, 9.1, 12)])
    assert not two_owners([span("a", 10, 1, 5), span("b", 12, 2, 9, shard=8)]), "another shard"


def test_an_older_term_that_is_seen_after_a_newer_ones_begin_is_found() -> None:
    (found,) = two_owners([span("b", 12, 4, 9), span("a", 10, 1, 5)])
    assert (found.stale.pod, found.newer.pod, found.seconds) == ("a", "b", 1)


def test_a_term_that_outlives_the_next_but_one_is_found_too() -> None:
    terms = [span("a", 10, 1, 20), span("b", 12, 21, 22), span("c", 14, 19, 23)]
    assert [it.newer.pod for it in two_owners(terms)] == ["c"]


def test_where_tokens_order_nothing_two_owners_of_one_moment_are_found() -> None:
    first = span("a", 10, 1, 5)
    assert not together([first, span("b", 9, 5, 9), span("b", 9, 2, 4, shard=8)])
    assert together([span("b", 9, 4, 9), first]) == [(first, span("b", 9, 4, 9))]
