"""N4 and N5: one stream of each pool-scoped resource at the API server while a hub leads, and no
client that goes backwards, or lists again, when the source changes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from relay_sidecar.pool.sources import FORMER
from tests.integration.pool import lying_hub
from tests.integration.pool.hall import until
from tests.integration.pool.hub_hall import (
    PATHS,
    SERVICES,
    SLICES,
    TIMEOUT,
    Readers,
    Sharer,
    Site,
    make,
    sharing,
)
from tests.integration.pool.lying_hub import LyingHub
from tests.integration.pool.test_detour import relay_on
from tests.integration.relay.upstream import verbs
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.pools.candidate import BINDING, BINDINGS
from tools.harness.pods.wire.caller import Caller, Reply

pytestmark = pytest.mark.slow


@pytest.fixture
def site(pool_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with sharing(pool_plane, tmp_path) as found:
        yield found


def test_n4_while_a_hub_leads_each_resource_is_watched_once_for_the_whole_pool(site: Site) -> None:
    hub = site.wait_hub()
    began = time.time()
    followers = site.others(hub)
    with Readers(list(site.sharers.values())) as readers:
        site.wait_fed(hub)
        readers.all_see_news(*site.sharers.values())
        assert site.open_watches() == [("endpointslices", hub.name), ("services", hub.name)]
        third = next(it for it in followers if it.candidate is None)
        assert site.requests(third) == [], "it needed none, from its first list on"
        for it in followers:
            assert site.requests(it, since=began) == []
            assert site.questions(it, since=began) == []
        readers.assert_in_order(*site.sharers.values())
        assert_shown_to_peers_alone(hub, third)
    for it in site.sharers.values():
        # Of the hub itself, too.
        wait_shared(it, is_healthy=True, is_ready=True)
    assert f"from {hub.name}" in third.node.member.command("status")
    hub.die()
    wait_shared(third, is_healthy=False, is_ready=False)


def wait_shared(it: Sharer, *, is_healthy: bool, is_ready: bool) -> None:
    wanted = dict.fromkeys(PATHS, (is_healthy, is_ready))
    until(lambda: it.shared() == wanted, what=f"{it.name}: healthy {is_healthy}, ready {is_ready}")


@pytest.mark.long
def test_n4_another_relay_of_the_node_that_leads_has_no_watch_of_its_own_over_its_link(
    site: Site,
) -> None:
    """As that of a node whose kube-proxy reads the endpoint view."""
    hub, port = site.wait_hub(), Reservation()
    flags = [f"--endpoint-view={LOOPBACK}:{port.port}", "--log-level=debug"]
    try:
        with relay_on(hub.node, *flags, kubeconfig=hub.node.kubeconfig) as other:
            paths = {SERVICES: Caller(other.url), SLICES: Caller(f"http://{LOOPBACK}:{port.port}")}
            with ExitStack() as stack:
                watches = [
                    stack.enter_context(caller.watch(PATHS[it], {"allowWatchBookmarks": "true"}))
                    for it, caller in paths.items()
                ]
                until(
                    lambda: site.watches_of(hub) == ["endpointslices", "services"],
                    what="one watch of each resource over the link of the hub",
                    timeout=TIMEOUT,
                )
                name = make(hub.node.plane)
                for watching in watches:
                    watching.wait_for(
                        lambda it: any(seen.name == name for seen in it.seen),
                        timeout=30.0,
                        what=f"news of {name}",
                    )
                assert site.watches_of(hub) == ["endpointslices", "services"]
    finally:
        port.release()


# Seconds for two rounds of members among each other.
ROUNDS = 4.0


def assert_shown_to_peers_alone(hub: Sharer, follower: Sharer) -> None:
    """By the pool listeners of two relays, as they are asked on loopback."""
    services, secret = PATHS[SERVICES], "/api/v1/secrets"
    assert _asked(hub, services, token="").status == 401
    assert _asked(hub, services, token="guessed").status == 401
    assert _asked(hub, services).status == 200
    assert _asked(hub, secret).status == 503
    assert _asked(hub, "/api/v1").status == 403
    assert _asked(hub, services, method="DELETE").status == 403
    # It has them from the hub itself.
    refused = _asked(follower, services)
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")


def _asked(sharer: Sharer, path: str, *, token: str | None = None, method: str = "GET") -> Reply:
    assert sharer.node.shared is not None
    given = sharer.node.member.token if token is None else token
    caller = Caller(f"http://{LOOPBACK}:{sharer.node.shared.port}")
    return caller.ask(path, method=method, headers={"Authorization": f"Bearer {given}"})


def fed(site: Site, readers: Readers) -> tuple[Sharer, list[Sharer]]:
    """The hub, and the others, which it feeds."""
    hub = site.wait_hub()
    # A quiet API server has them wait for its next bookmark, as the test of N4 does.
    make(hub.node.plane)
    site.wait_fed(hub)
    readers.all_see_news(*site.sharers.values())
    return hub, site.others(hub)


def assert_never_listed_again(site: Site, *sharers: Sharer, since: float) -> None:
    for it in sharers:
        found = verbs(site.requests(it, since=since))
        assert "list" not in found, (it.name, found)


@pytest.mark.long
def test_n5_when_the_hub_dies_its_followers_go_on_at_their_cursors_and_then_on_the_next_one(
    site: Site,
) -> None:
    with Readers(list(site.sharers.values())) as readers:
        hub, followers = fed(site, readers)
        died = time.time()
        hub.die()
        readers.all_see_news(*followers)
        successor = site.wait_hub(but=hub.name)
        rest = site.others(hub, successor)
        site.wait_fed(successor, *rest)
        readers.all_see_news(*followers)
        readers.assert_in_order(*followers)
        assert_never_listed_again(site, *followers, since=died)
        # One watch of each resource from the lost hub to the API server, at most: then the next
        # hub has them; that one takes each over for good.
        for it in followers:
            watched = verbs(site.requests(it, since=died))
            assert len(watched) <= 4, (it.name, watched)
        running = [(resource, successor.name) for resource in ("endpointslices", "services")]
        until(
            lambda: [it for it in site.open_watches() if it[1] != hub.name] == running,
            what="the API server is watched by the next hub alone",
        )


@pytest.mark.long
def test_n5_when_the_hub_leaves_in_order_its_followers_go_on_without_the_api_server(
    site: Site,
) -> None:
    with Readers(list(site.sharers.values())) as readers:
        hub, _ = fed(site, readers)
        third = next(it for it in site.others(hub) if it.candidate is None)
        left = time.time()
        assert hub.candidate is not None
        hub.candidate.terminate()
        successor = site.wait_hub(but=hub.name)
        took = time.time() - left
        site.wait_fed(successor)
        readers.all_see_news(*site.sharers.values())
        readers.assert_in_order(*site.sharers.values())
        assert_never_listed_again(site, *site.sharers.values(), since=left)
        for it in (third, hub):
            asked = site.requests(it, since=left)
            # On a busy machine the election may outlast what a hub of before is followed for: then
            # each stream is watched at the API server meanwhile, once.
            limit = 0 if took < FORMER - ROUNDS / 2 else len(PATHS)
            assert len(asked) <= limit, (took, it.sources(), verbs(asked))


@pytest.mark.long
def test_n5_when_the_hub_is_cut_off_nobody_goes_backwards_and_it_is_fed_by_the_next_one(
    site: Site,
) -> None:
    with Readers(list(site.sharers.values())) as readers:
        hub, followers = fed(site, readers)
        cut = time.time()
        hub.node.link.black_hole()
        readers.all_see_news(*followers)
        successor = site.wait_hub(but=hub.name)
        # Its own link is down: what it shares comes over the LAN.
        site.wait_fed(successor)
        readers.all_see_news(*site.sharers.values())
        hub.node.link.heal()
        until(lambda: hub.node.member.status()["ownLink"], what="its own link is up")
        readers.all_see_news(*site.sharers.values())
        readers.assert_in_order(*site.sharers.values())
        assert_never_listed_again(site, *site.sharers.values(), since=cut)


@pytest.mark.long
def test_n5_a_follower_whose_link_is_cut_stays_live_on_the_hub(site: Site) -> None:
    with Readers(list(site.sharers.values())) as readers:
        hub, _ = fed(site, readers)
        third = next(it for it in site.others(hub) if it.candidate is None)
        cut = time.time()
        third.node.link.refuse()
        until(lambda: not third.node.member.status()["ownLink"], what="it is cut off")
        for _ in range(20):
            assert third.is_fed_by(hub.name)
            time.sleep(0.1)
        readers.all_see_news(third)
        third.node.link.heal()
        until(lambda: third.node.member.status()["link"] == "Own", what="it is back")
        assert third.is_fed_by(hub.name)
        readers.all_see_news(third)
        readers.assert_in_order(third)
        assert site.requests(third, since=cut) == []


@pytest.mark.long
def test_pending_a_node_takes_nothing_from_peers_and_answers_from_its_own_journal(
    site: Site,
) -> None:
    """All links are cut: nobody leads. One that may lead could otherwise empty all Services."""
    with Readers(list(site.sharers.values())) as readers:
        hub, followers = fed(site, readers)
        third = next(it for it in followers if it.candidate is None)
        # Nobody is told of the streams of one that may not lead: it is not believed.
        member = hub.node.member
        told = member.ask("/sources", token=member.token).json()["peers"]
        assert {it["node"]: set(it["cursors"]) for it in told} == {
            it.name: set() if it is third else set(PATHS) for it in followers
        }
        third.node.relay.terminate()
        readers.all_see_news(*site.others(third))
        missed = make(hub.node.plane)
        for watching in readers.of(hub):
            watching.wait_for(lambda it: any(seen.name == missed for seen in it.seen), what=missed)
    for it in site.sharers.values():
        it.node.link.refuse()
    members = [it.node.member for it in site.sharers.values()]
    until(lambda: all(it.status()["role"] == "Pending" for it in members), what="all are cut off")
    cut = time.time()
    services, anything = PATHS[SERVICES], "?resourceVersion=0"
    for refused in (services, f"{services}{anything}", f"{services}{anything}&watch=true"):
        assert _asked(hub, refused).status == 503
    third.node.relay.start()
    until(lambda: all(_names(third, it) for it in PATHS.values()), what="its journal is read")
    time.sleep(ROUNDS)
    for path in PATHS.values():
        assert missed not in _names(third, path), "only a peer can have said so"
        assert int(third.caller.get(path, {"resourceVersion": "0"}).headers["Age"]) >= 0
    with Readers([third]) as readers:
        for it in site.sharers.values():
            it.node.link.heal()
        until(lambda: third.node.member.status()["ownLink"], what="it is back")
        readers.all_see_news(third)
        readers.assert_in_order(third)
    assert all(missed in _names(third, it) for it in PATHS.values())
    assert_never_listed_again(site, third, since=cut)


def _names(sharer: Sharer, path: str) -> set[str]:
    items = sharer.caller.get(path, {"resourceVersion": "0"}).json()["items"]
    return {it["metadata"]["name"] for it in items}


LIES = (
    lying_hub.garbled,
    lying_hub.gone,
    lying_hub.gone_as_an_event,
    lying_hub.forbidden,
    lying_hub.old,
    lying_hub.ends_at_once,
    lying_hub.silent,
)
# Seconds for which a hub is left after its first failure, twice as many after each further one.
LEFT = 10.0


@pytest.mark.long
def test_n5_a_hub_that_lies_makes_no_follower_go_backwards_list_again_or_loop(
    pool_plane: ControlPlane, tmp_path: Path
) -> None:
    with (
        LyingHub(dict.fromkeys(PATHS, "1"), LIES) as lying,
        sharing(pool_plane, tmp_path, leaders=("s1",), lying=lying) as site,
    ):
        followers = [site.sharers["s2"], site.sharers["s3"]]
        site.wait_hub()
        asked_at = time.monotonic()
        with Readers(followers) as readers:
            readers.all_see_news(*followers)
            began = time.time()
            while len(lying.asked) <= len(LIES):
                readers.all_see_news(*followers)
                time.sleep(1.0)
                assert time.monotonic() - asked_at < 20 * LEFT, lying.asked
            readers.all_see_news(*followers)
            readers.assert_in_order(*followers)
            assert_never_listed_again(site, *followers, since=began)
            times = 2 + math.log2(1 + (time.monotonic() - asked_at) / LEFT)
            watches = [it for it in lying.asked if "watch=true" in it]
            assert len(watches) <= len(followers) * len(PATHS) * times, lying.asked
            # Beside a watch that it accepts, what it holds is asked for, while that lasts.
            assert len(lying.asked) <= 3 * len(followers) * len(PATHS) * times, lying.asked
            until(lambda: all(it.is_fed_by("cloud") for it in followers), what="it is left")


@pytest.mark.long
def test_n4_a_relay_that_may_not_read_a_resource_gets_it_from_no_hub(
    site: Site, pool_plane: ControlPlane
) -> None:
    hub = site.wait_hub()
    third = next(it for it in site.others(hub) if it.candidate is None)
    binding = expect(pool_plane.admin.get(f"{BINDINGS}/{BINDING}"))
    binding["subjects"] = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"system:node:{it.name}"}
        for it in site.others(third)
    ]
    expect(pool_plane.admin.put(f"{BINDINGS}/{BINDING}", binding))
    until(lambda: _status(third) == 403, what="the API server denies it")
    slices = next(it for it in PATHS if it != SERVICES)
    assert third.caller.get(PATHS[slices], {"resourceVersion": "0"}).status == 403
    # Services a node may read: the Node authorizer says so.
    assert third.caller.get(PATHS[SERVICES], {"resourceVersion": "0"}).status == 200
    until(lambda: third.streams() == {SERVICES: ("live", hub.name)}, what="its stream is fed")


def _status(sharer: Sharer) -> int:
    return sharer.caller.get(next(it for key, it in PATHS.items() if key != SERVICES)).status
