"""An observer's spans of ownership, judged beside the journals of client-go candidates."""

import math
from collections.abc import Sequence

from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.peers.shard_observer import Span


def assert_never_beside_an_owner(spans: Sequence[Span], *peers: ClientGoCandidate) -> None:
    assert spans, "an owner was never seen"
    for term in (term for peer in peers for term in peer.terms()):
        ended_at = term.ended_at or math.inf
        both = [it for it in spans if it.first < ended_at and term.started_at < it.last]
        near = [it for it in spans if it.first < ended_at + 5 and term.started_at - 5 < it.last]
        assert not both, f"{term} beside {both[0]}, among {sorted(near, key=_first)}"


def _first(span: Span) -> float:
    return span.first
