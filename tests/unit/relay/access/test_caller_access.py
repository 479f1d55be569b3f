"""Callers through a standstill of the machine, and before an API server that does not review."""

import asyncio

import pytest

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import ApiError
from relay_sidecar.access import authorization_store, caller
from relay_sidecar.access.admission import Caller
from relay_sidecar.access.authorization_store import AuthorizationStore
from relay_sidecar.access.caller import CallerAccess
from relay_sidecar.core.access.authorizer import Attributes, UserInfo
from relay_sidecar.journal.journal import Journal
from tests.unit.relay.access.test_token_families import token

HOUR = 3600.0
TTL, OFFLINE_TTL = 60.0, 24 * HOUR


class Upstream:
    """Lets all do anything but the verbs that are `denied`; `fails` with this status. Each token is
    another user's, as those of a service account are to reviews."""

    def __init__(self) -> None:
        self.now = self.heard_at = 1000.0
        self.is_up = True
        self.fails = 0
        self.denied: set[str] = set()
        # The verbs that it was asked about.
        self.asked: list[str] = []

    async def who(self, token: str) -> UserInfo:
        self._answer()
        return UserInfo("anna", extra=(("credential-id", (token,)),))

    async def may(self, token: str, attributes: Attributes) -> tuple[bool, str]:
        self._answer()
        self.asked.append(attributes.verb)
        return attributes.verb not in self.denied, ""

    def _answer(self) -> None:
        self.heard_at = self.now
        if self.fails:
            raise ApiError(self.fails, "InternalError", "not now")


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    made = Upstream()
    for module in (authorization_store, caller):
        monkeypatch.setattr(module, "boottime", lambda: made.now)
    return made


async def opened(upstream: Upstream) -> CallerAccess:
    store = await AuthorizationStore.open(
        Journal(None),
        {},
        heard_at=lambda: upstream.heard_at,
        ttl=TTL,
        offline_ttl=OFFLINE_TTL,
    )
    access = CallerAccess(upstream, store, is_up=lambda: upstream.is_up)
    access.link(True)
    return access


async def may_list(access: CallerAccess, token: str = "token") -> bool:
    try:
        await access.may(Caller(token), LISTING, label_selector="", field_selector="")
    except Refused as refused:
        if refused.status.code != 503:
            raise
        return False
    return True


LISTING: RequestInfo = RequestInfo.parse("GET", "/api/v1/namespaces/ns/pods")


def test_the_offline_ttl_counts_from_the_last_answer_through_a_standstill(
    upstream: Upstream,
) -> None:
    """The machine slept for most of it, and the cable was pulled meanwhile."""

    async def scene() -> None:
        access = await opened(upstream)
        assert await may_list(access)
        upstream.now += OFFLINE_TTL - HOUR
        upstream.is_up = False
        access.link(False)
        assert await may_list(access)
        upstream.now += 2 * HOUR
        assert not await may_list(access)
        await access.close()

    asyncio.run(scene())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_where_upstream_is_there_but_does_not_decide_what_it_said_stands_shortly(
    upstream: Upstream, status: int
) -> None:
    async def scene() -> None:
        access = await opened(upstream)
        assert await may_list(access)
        upstream.fails = status
        upstream.now += 1.5 * TTL
        assert await may_list(access)
        upstream.now += TTL
        assert not await may_list(access)
        upstream.is_up = False
        access.link(False)
        assert await may_list(access), "out of reach it stands for the offline_ttl"
        await access.close()

    asyncio.run(scene())


def test_upstream_is_asked_about_rights_while_cut_off_once_an_hour(upstream: Upstream) -> None:
    async def scene() -> None:
        access = await opened(upstream)
        for _ in range(3):
            assert await may_list(access)
            await asyncio.sleep(0)
            upstream.now += TTL
        await access.close()

    asyncio.run(scene())
    assert sorted(upstream.asked) == ["get", "list", "list", "list"]


def test_a_right_that_is_withdrawn_from_a_reader_does_not_hold_while_cut_off(
    upstream: Upstream,
) -> None:
    """A Role was deleted some time before the cut."""
    getting = RequestInfo.parse("GET", "/api/v1/namespaces/ns/pods/a")

    async def may_get(access: CallerAccess) -> int:
        try:
            await access.may(Caller("token"), getting, label_selector="", field_selector="")
        except Refused as refused:
            return refused.status.code
        return 200

    async def scene() -> None:
        access = await opened(upstream)
        assert await may_list(access)
        await asyncio.sleep(0)
        upstream.is_up = False
        assert await may_get(access) == 200
        upstream.is_up = True
        upstream.now += TTL
        upstream.denied = {"get", "list"}
        with pytest.raises(Refused):
            await may_list(access)
        await asyncio.sleep(0)
        upstream.is_up = False
        assert await may_get(access) == 503
        await access.close()

    asyncio.run(scene())


@pytest.mark.parametrize("fails", [0, 500])
def test_a_token_that_follows_another_is_reviewed_before_its_pod_uses_it(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """Again, where upstream could not at first."""
    monkeypatch.setattr(caller, "REVIEW_RETRY", 0.01)

    async def scene() -> None:
        access = await opened(upstream)
        access.issued(token(1))
        assert await may_list(access, token(1))
        upstream.fails = fails
        access.issued(token(2))
        await asyncio.sleep(0.05)
        upstream.fails = 0
        await asyncio.sleep(0.2)
        upstream.is_up = False
        access.link(False)
        assert await may_list(access, token(2))
        assert not await may_list(access, token(3))
        await access.close()

    asyncio.run(scene())


def test_a_newer_token_is_reviewed_when_the_one_before_it_is_used(upstream: Upstream) -> None:
    """Where the relay was started after the pod."""

    async def scene() -> None:
        access = await opened(upstream)
        access.issued(token(2))
        assert await may_list(access, token(1))
        await asyncio.sleep(0.05)
        upstream.is_up = False
        access.link(False)
        assert await may_list(access, token(2))
        await access.close()

    asyncio.run(scene())
