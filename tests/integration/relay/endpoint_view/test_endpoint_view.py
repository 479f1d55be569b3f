"""The endpoint view of a real relay before a real API server, with a pool-sidecar whose words the
test has: what clients of one node see.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.relay.endpoint_view.view_site import (
    ALL,
    GROUP,
    NODES,
    Site,
    ready_of,
    site_of,
    slice_of,
    until,
)
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.wire.caller import Watching

# As a client with WatchList begins.
WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with site_of(control_plane, tmp_path) as found:
        until(lambda: _verdicts(found), what="the relay has verdicts")
        yield found


def _verdicts(site: Site) -> bool:
    return bool(site.relay.status()["endpointView"]["hasVerdicts"])


def told(watching: Watching, name: str = "web-1") -> list[str]:
    """Who is ready, by each event of the slice."""
    return [ready_of(it.object) for it in watching.events() if it.name == name]


def in_order(watching: Watching) -> list[int]:
    """The versions of all events after the initial ones, which have to grow."""
    ended = next((n for n, it in enumerate(watching.seen) if it.is_initial_end), -1)
    versions = [it.version for it in watching.seen[ended + 1 :]]
    assert versions == sorted(versions)
    changes = [it.version for it in watching.seen[ended + 1 :] if it.type != "BOOKMARK"]
    assert len(set(changes)) == len(changes)
    return versions


def test_endpoint_view_endpoints_of_a_silent_node_leave_list_and_watch_and_come_back(
    site: Site,
) -> None:
    site.make()
    with site.view.watch(site.slices, WATCH_LIST) as watching:
        watching.wait_initial_end()
        watching.wait_for(lambda it: told(it) == ["n1 n2 n3"], what="the slice")
        site.words.say(alive=("n3",), silent=("n2",))
        watching.wait_for(lambda it: told(it)[-1] == "n1 n3", what="n2 is out")
        changed = watching.events("MODIFIED")[-1]
        assert site.listed() == "n1 n3"
        one = site.view.get(f"{site.slices}/web-1").expect()
        assert (ready_of(one), int(one["metadata"]["resourceVersion"])) == (
            "n1 n3",
            changed.version,
        )
        # Elsewhere nothing is seen of it.
        assert site.upstream() == "n1 n2 n3"
        ordinary = site.ordinary().get(f"{site.slices}/web-1").expect()
        assert (ready_of(ordinary), int(ordinary["metadata"]["resourceVersion"])) == (
            "n1 n2 n3",
            changed.version >> 24,
        )
        assert _counted(site, "silentEndpoints") == 1
        assert 'relay_endpoint_view_endpoints{as="silent"} 1' in site.relay.metrics()

        # What happens upstream meanwhile, comes with the verdict on it.
        site.make("web-2")
        watching.wait_for(lambda it: told(it, "web-2") == ["n1 n3"], what="the second slice")
        site.words.say(alive=("n2", "n3"))
        watching.wait_for(lambda it: told(it)[-1] == "n1 n2 n3", what="n2 is back")
        watching.wait_for(lambda it: told(it, "web-2")[-1] == "n1 n2 n3", what="there too")
        expect(site.plane.admin.delete(f"{site.slices}/web-1"))
        watching.wait_for(lambda it: ("DELETED", "web-1") in it.told(), what="it is gone")
        in_order(watching)
    assert _counted(site, "silentEndpoints") == 0


def _counted(site: Site, name: str) -> int:
    return int(site.relay.status()["endpointView"][name])


def test_endpoint_view_everything_else_is_the_ordinary_api_byte_for_byte(site: Site) -> None:
    site.make()
    made = {"metadata": {"name": "made"}, "data": {"key": "value"}}
    site.view.post(f"/api/v1/namespaces/{site.namespace}/configmaps", made).expect(201)
    for path in (
        f"/api/v1/namespaces/{site.namespace}/configmaps/made",
        f"/api/v1/namespaces/{site.namespace}",
        f"{GROUP}",
        "/version",
    ):
        assert site.view.get(path).expect() == expect(site.plane.admin.get(path)), path
    path = f"/api/v1/namespaces/{site.namespace}/configmaps"
    assert site.view.get(path).body == site.ordinary().get(path).body
    with site.view.watch(path, WATCH_LIST) as watching:
        watching.wait_initial_end()
        assert watching.told() == [("ADDED", "made")]


def test_endpoint_view_nobody_writes_slices_through_it(site: Site) -> None:
    site.make()
    one = f"{site.slices}/web-1"
    made = slice_of(site.namespace, "other", {"n1": True}, {})
    for reply in (
        site.view.post(site.slices, made),
        site.view.put(one, made),
        site.view.patch(one, {"metadata": {"labels": {"a": "b"}}}),
        site.view.delete(one),
        site.view.delete(site.slices),
        # Other ways to write a path, or to be someone else.
        site.view.get(f"{GROUP}/watch/endpointslices"),
        site.view.post(site.slices.replace("endpointslices", "%65ndpointslices"), made),
        site.view.ask(one, method="HEAD"),
    ):
        assert reply.status == HTTPStatus.METHOD_NOT_ALLOWED, reply
        if reply.body:
            status = reply.json()
            assert (status["kind"], status["reason"]) == ("Status", "MethodNotAllowed")
            assert "endpoint view" in status["message"]
    reply = site.view.ask(ALL, headers={"Impersonate-User": "somebody"})
    assert (reply.status, reply.json()["reason"]) == (403, "Forbidden")
    assert site.upstream() == "n1 n2 n3"


def test_endpoint_view_selectors_see_what_is_shown(site: Site) -> None:
    site.make("plain")
    site.make("headless", **{"service.kubernetes.io/headless": ""})
    query = {"labelSelector": "!service.kubernetes.io/headless", **WATCH_LIST}
    with site.view.watch(site.slices, query) as watching:
        watching.wait_initial_end()
        site.words.say(silent=("n2",), alive=("n3",))
        watching.wait_for(lambda it: told(it, "plain")[-1] == "n1 n3", what="n2 is out")
        assert {name for _, name in watching.told()} >= {"plain"}
        assert told(watching, "headless") == []
    found = site.view.get(site.slices, {"fieldSelector": "metadata.name=headless"})
    assert found.names == ["headless"]
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = site.view.get(site.slices, {"resourceVersion": "0"}, accept=accept)
    assert found.json()["kind"] == "PartialObjectMetadataList"
    assert sorted(found.names) == ["headless", "plain"]
    # An ordinary relay passes on what is so long; here it is the view that is asked for.
    long = f"a notin ({','.join(f'x{it}' for it in range(3000))})"
    found = site.view.get(site.slices, {"labelSelector": long})
    shown = {it["metadata"]["name"]: ready_of(it) for it in found.json()["items"]}
    assert shown["plain"] == "n1 n3"
    # What is far longer would stop the node's other readers.
    reply = site.view.get(site.slices, {"labelSelector": f"a notin ({'x' * 70_000})"})
    assert reply.status == HTTPStatus.BAD_REQUEST
    reply = site.view.get(site.slices, {"fieldSelector": "spec.nodeName=n1"})
    assert reply.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("is_overlaid", [False, True], ids=["plain", "overlaid"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["online", "cut"])
def test_endpoint_view_after_a_restart_a_watch_goes_on_only_at_the_state_that_it_saw(
    site: Site, is_overlaid: bool, is_cut: bool
) -> None:
    site.make()
    until(lambda: site.listed() == "n1 n2 n3", what="it is there")
    if is_overlaid:
        site.words.say(silent=("n2",), alive=("n3",))
        until(lambda: site.listed() == "n1 n3", what="n2 is out")
    before = int(site.view.get(ALL, {"resourceVersion": "0"}).version)
    site.relay.kill()
    if is_cut:
        site.link.refuse()
    site.relay.start()
    until(lambda: site.view.get(ALL, {"resourceVersion": "0"}).status == 200, what="it answers")
    with site.view.watch(
        site.slices, {"resourceVersion": before, "allowWatchBookmarks": "true"}
    ) as it:
        if is_overlaid:
            it.wait_for(lambda it: bool(it.seen), what="an answer")
            assert it.seen[0].object["reason"] == "Expired"
        else:
            site.words.say(silent=("n3",), alive=("n2",))
            it.wait_for(lambda it: told(it)[-1:] == ["n1 n2"], what="what came then")
            assert in_order(it)[0] > before
    assert int(site.view.get(ALL, {"resourceVersion": "0"}).version) > before
    if is_cut:
        site.link.heal()
        site.relay.wait_link(up=True)


def test_endpoint_view_without_the_pool_sidecar_it_is_as_upstream(site: Site) -> None:
    site.make()
    with site.view.watch(site.slices, WATCH_LIST) as watching:
        watching.wait_initial_end()
        site.words.say(silent=("n2", "n3"))
        watching.wait_for(lambda it: told(it)[-1] == "n1", what="both are out")
        site.words.mute()
        watching.wait_for(lambda it: told(it)[-1] == "n1 n2 n3", what="it fails open")
        assert not _verdicts(site)
        assert "relay_endpoint_view_verdicts 0" in site.relay.metrics()
        site.words.say(silent=("n2",), alive=("n3",))
        watching.wait_for(lambda it: told(it)[-1] == "n1 n3", what="it goes by verdicts again")
        in_order(watching)


def test_endpoint_view_while_cut_it_answers_with_an_age_and_goes_by_verdicts(site: Site) -> None:
    site.make()
    with site.view.watch(site.slices, WATCH_LIST) as watching:
        watching.wait_initial_end()
        site.link.refuse()
        site.relay.wait_link(up=False)
        site.words.say(silent=("n2",), alive=("n3",))
        watching.wait_for(lambda it: told(it)[-1] == "n1 n3", what="n2 is out")
        reply = site.view.get(ALL, {"resourceVersion": "0"})
        assert (reply.status, "Age" in reply.headers) == (200, True)
        with site.view.watch(site.slices, WATCH_LIST) as second:
            second.wait_initial_end()
            assert told(second) == ["n1 n3"]
        site.words.say(alive=("n2", "n3"))
        watching.wait_for(lambda it: told(it)[-1] == "n1 n2 n3", what="n2 is back")
        site.link.heal()
        site.relay.wait_link(up=True)
        site.mark({"n1": True, "n2": True, "n3": False})
        watching.wait_for(lambda it: told(it)[-1] == "n1 n2", what="upstream is heard")
        in_order(watching)


@pytest.mark.long
@pytest.mark.slow
def test_endpoint_view_after_a_long_cut_of_the_site_no_endpoint_dips(site: Site) -> None:
    site.make()
    site.words.say(alive=("n2",))
    with site.view.watch(site.slices, WATCH_LIST) as watching:
        watching.wait_initial_end()
        site.link.black_hole()
        site.relay.wait_link(up=False)
        # Meanwhile Kubernetes marks all of its pods.
        site.mark(dict.fromkeys(NODES, False))
        time.sleep(31)
        assert told(watching)[-1] == "n1 n2 n3"
        site.link.heal()
        site.relay.wait_link(up=True)
        # n3 is not heard: it may be gone.
        watching.wait_for(lambda it: told(it)[-1] != "n1 n2 n3", what="upstream is heard")
        assert told(watching)[-1] == "n1 n2"
        assert _counted(site, "keptEndpoints") == 2
        # kubelet of n1 speaks; n2's never does.
        site.mark({"n1": True, "n2": False, "n3": False})
        until(lambda: _counted(site, "keptEndpoints") == 1, what="n1 is upstream's")
        site.mark({"n1": False, "n2": False, "n3": False})
        watching.wait_for(lambda it: told(it)[-1] == "n2", what="upstream is believed of n1")
        watching.wait_for(lambda it: told(it)[-1] == "", what="30 s are over", timeout=60)
        assert all("n1 n2" in it or it in ("n2", "") for it in told(watching))
        in_order(watching)


def test_endpoint_view_after_a_restart_while_cut_no_endpoint_dips(site: Site) -> None:
    site.make()
    until(lambda: site.listed() == "n1 n2 n3", what="it is there")
    site.link.refuse()
    site.relay.wait_link(up=False)
    site.relay.kill()
    site.relay.start()
    until(lambda: site.listed() == "n1 n2 n3", what="it is there still")
    # The API server was not heard in this life.
    until(lambda: _verdicts(site), what="the relay has verdicts")
    site.relay.wait_link(up=False)
    # Some lines of the pool, at each of which the view looks at the link.
    time.sleep(3)
    with site.view.watch(site.slices, WATCH_LIST) as watching:
        watching.wait_initial_end()
        site.mark(dict.fromkeys(NODES, False))
        site.link.heal()
        site.relay.wait_link(up=True)
        until(lambda: _counted(site, "keptEndpoints") == 3, what="upstream is heard")
        site.mark(dict.fromkeys(NODES, True))
        until(lambda: _counted(site, "keptEndpoints") == 0, what="all are upstream's")
        assert set(told(watching)) == {"n1 n2 n3"}


def test_endpoint_view_over_tls_callers_see_what_they_may(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    authority = Authority(control_plane.folder, f"view-ca-{secrets.token_hex(4)}")
    rules = [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        }
    ]
    viewer, stranger = (f"{it}-{secrets.token_hex(4)}" for it in ("viewer", "stranger"))
    control_plane.kubeconfig_for("default", viewer, [], cluster_rules=rules)
    control_plane.kubeconfig_for("default", stranger, [])
    with site_of(control_plane, tmp_path, "--access=caller", authority=authority) as site:
        site.make()
        bearer, other = _bearer(control_plane, viewer), _bearer(control_plane, stranger)
        assert site.view.ask(ALL).status == HTTPStatus.UNAUTHORIZED
        assert site.view.ask(ALL, headers=other).status == HTTPStatus.FORBIDDEN
        with site.view.watch(site.slices, WATCH_LIST, headers=bearer) as watching:
            watching.wait_initial_end()
            site.words.say(silent=("n2",), alive=("n3",))
            watching.wait_for(lambda it: told(it)[-1] == "n1 n3", what="n2 is out")
        denied = site.view.ask(f"{site.slices}/web-1", headers=bearer)
        assert denied.status == HTTPStatus.FORBIDDEN
        denied = site.view.ask("/api/v1/configmaps", headers=bearer)
        assert denied.status == HTTPStatus.FORBIDDEN


def _bearer(plane: ControlPlane, account: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {plane.new_token('default', account)}"}


def test_endpoint_view_strangers_on_its_port_take_nothing_from_the_ordinary_api(
    site: Site,
) -> None:
    site.make()
    with ExitStack() as stack:
        for _ in range(1500):
            try:
                held = socket.create_connection((LOOPBACK, site.view_port), timeout=5)
            except OSError:
                break
            stack.callback(held.close)
        assert site.ordinary().get(f"{site.slices}/web-1").status == 200
    until(lambda: site.listed() == "n1 n2 n3", what="the view answers again")
