"""Whether two members ever owned one shard, by the fencing tokens that they told. Pure.

Guarantee: the judgement is that of the tests (`tools.harness.pods.observers.observer`), for each
shard: an answer with an older token, or with another member's, asked for after an answer with the
newer one had come, is found in whatever order answers are noted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations


@dataclass
class _Claim:
    """One ownership of a shard: when it was first known of, and when it was last asked about."""

    member: str
    token: int
    received: float
    sent: float


class Claims:
    """`answers`: how many were noted."""

    def __init__(self) -> None:
        self.answers = 0
        self._claims: dict[int, dict[tuple[int, str], _Claim]] = {}

    def note(self, member: str, owned: Mapping[int, int], *, sent: float, received: float) -> None:
        """`owned`: the fencing token of each shard."""
        self.answers += 1
        for shard, token in owned.items():
            claims = self._claims.setdefault(shard, {})
            it = claims.setdefault((token, member), _Claim(member, token, received, sent))
            it.received, it.sent = min(it.received, received), max(it.sent, sent)

    def broken(self) -> Iterator[str]:
        """In words, each shard that two owned at once."""
        for shard, claims in sorted(self._claims.items()):
            for one, other in combinations(sorted(claims.values(), key=lambda it: it.token), 2):
                seconds = one.sent - other.received
                if seconds > 0 or one.token == other.token:
                    yield (
                        f"shard {shard}: {one.member} (token {one.token}) and {other.member} "
                        f"(token {other.token}), {seconds:.3f} s"
                    )
