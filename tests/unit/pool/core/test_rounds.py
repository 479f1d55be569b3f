"""What a round says of a peer, by when it began and ended."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory, Peer
from pool_sidecar.core.peers import ROUND_DEADLINE, Sign
from pool_sidecar.core.pool import Pool
from pool_sidecar.core.pool_member import Link, Verdict
from pool_sidecar.lan.client import NoAnswer
from pool_sidecar.member import rounds

PEER = Peer("n2", ("10.0.0.2",), (b"n2",))


class Over(Exception):
    pass


def verdict(
    monkeypatch: pytest.MonkeyPatch, answer: LanState | NoAnswer, *, seconds: float
) -> Verdict | None:
    """After one round that took so long by CLOCK_BOOTTIME."""
    clock = [100.0]
    pool = Pool("n1")
    pool.follow(Directory("n1", "site", peers={"n2": PEER}))

    async def state() -> LanState:
        clock[0] += seconds
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    async def sleep(_: float) -> None:
        raise Over

    member = SimpleNamespace(pool=pool, advance=pool.advance, touch=lambda: None)
    client = SimpleNamespace(peer=PEER, state=state, close=lambda: None)
    monkeypatch.setattr(rounds, "boottime", lambda: clock[0])
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Over):
        asyncio.run(rounds._follow(cast(Any, member), cast(Any, client)))
    standing = pool.peers.standing("n2", clock[0])
    return None if standing is None else standing.verdict


@pytest.mark.parametrize(("seconds", "expected"), [(ROUND_DEADLINE, Verdict.ALIVE), (3600.0, None)])
def test_n8_an_answer_from_before_a_suspend_is_none(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: Verdict | None
) -> None:
    answer = LanState("n2", "1", Link.OWN, True)
    assert verdict(monkeypatch, answer, seconds=seconds) is expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(ROUND_DEADLINE, Verdict.NEVER_HEARD), (3600.0, None)]
)
def test_n8_a_silence_that_was_ones_own_is_none(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: Verdict | None
) -> None:
    answer = NoAnswer(Sign.HOST_LIVES, "it broke off")
    assert verdict(monkeypatch, answer, seconds=seconds) is expected
