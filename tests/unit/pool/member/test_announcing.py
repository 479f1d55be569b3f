"""How often a member's writes are tried where they fail."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge_sidecars.kubeapi import ApiError, Unreachable
from pool_sidecar.core.pool_member import MemberStatus
from pool_sidecar.member.announcing import LONGEST, RETRY, announce


class Enough(Exception):
    pass


def delays(error: Exception, monkeypatch: pytest.MonkeyPatch, *, count: int) -> list[float]:
    """The seconds between so many tries, each of which ends with the error."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        if len(found) == count:
            raise Enough

    async def request(*_: Any, **__: Any) -> None:
        raise error

    announcements = SimpleNamespace(
        status=lambda situation, now: MemberStatus(), condition=lambda situation, now: None
    )
    member = SimpleNamespace(
        directory=SimpleNamespace(pool="site"),
        config=SimpleNamespace(node="n1"),
        announcements=announcements,
        situation=lambda now: None,
    )
    cloud = SimpleNamespace(is_there=True, request=request)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Enough):
        asyncio.run(announce(cast(Any, member), cast(Any, cloud)))
    return found


def test_an_api_server_that_refuses_is_asked_ever_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = delays(ApiError(403, "Forbidden", "no"), monkeypatch, count=6)
    assert found == [RETRY, 10.0, 20.0, 40.0, LONGEST, LONGEST]


def test_one_that_does_not_answer_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert delays(Unreachable("gone"), monkeypatch, count=6) == [RETRY] * 6
