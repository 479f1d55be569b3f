"""R1, R4 and R5 with client-go's shared informers: typed, dynamic and of metadata, with WatchList
and without. After any fault they hold what stands in the cloud, and saw nothing twice."""

import time
from collections.abc import Iterator

import pytest

from tests.integration.relay.place import Place
from tests.integration.relay.upstream import of_relays, verbs
from tests.integration.relay.watched import Watched, wait_equal
from tools.harness.peers.informers import InformerProcess
from tools.harness.relay_objects import Contents, Widgets

watch_list = pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])


class Stage:
    """Objects of several resources and informers of every kind on them."""

    def __init__(
        self, place: Place, contents: Contents, widgets: Widgets, *, watch_list: bool
    ) -> None:
        self.place = place
        self.contents = contents
        self.widgets = widgets
        space = contents.namespace
        self.watched = [
            Watched("typed", "configmaps", space),
            Watched("typed", "configmaps", space, label_selector="x=1"),
            Watched("typed", "pods", space),
            Watched("typed", "pods", space, field_selector="spec.nodeName=n1"),
            Watched("typed", "secrets", space),
            Watched("dynamic", "configmaps", space),
            Watched("dynamic", self.widgets.resource, space),
            Watched("dynamic", self.widgets.resource, space, field_selector="spec.site=north"),
            Watched("metadata", "pods", space),
            Watched("metadata", self.widgets.resource, space),
        ]
        self.informers = InformerProcess(
            place.kubeconfig(), [each.spec for each in self.watched], watch_list=watch_list
        )
        self._round = 0

    def write(self) -> None:
        """Adds, changes, moves over selectors and deletes, of each resource."""
        self._round += 1
        contents, number = self.contents, self._round
        for which in range(3):
            contents.configmap(f"cm-{number}-{which}", labels={"x": str(which)}, key="0")
        contents.edit("configmaps", f"cm-{number}-0", {"data": {"key": "1"}})
        contents.label("configmaps", f"cm-{number}-0", x="1")
        contents.label("configmaps", f"cm-{number}-1", x="2")
        contents.pod(f"p-{number}-1", node="n1")
        contents.pod(f"p-{number}-2", node="n2")
        contents.set_phase(f"p-{number}-1", "Running")
        contents.create("secrets", f"s-{number}", stringData={"key": str(number)})
        for site in ("north", "south"):
            self.widgets.create(contents, f"w-{number}-{site}", site=site)
        contents.edit(self.widgets.resource, f"w-{number}-north", {"spec": {"site": "south"}})
        contents.edit(self.widgets.resource, f"w-{number}-south", {"spec": {"site": "north"}})
        if number > 1:
            contents.delete("configmaps", f"cm-{number - 1}-1")
            contents.delete("pods", f"p-{number - 1}-1")
            contents.delete("secrets", f"s-{number - 1}")
            contents.delete(self.widgets.resource, f"w-{number - 1}-north")

    def settle(self) -> None:
        """Returns when all hold what stands in the cloud."""
        wait_equal(self.informers, self.watched, self.place)
        self.informers.check()

    def sets(self) -> list[int]:
        """How many complete sets each informer took in: one, unless it had to list again."""
        return [each["completeSets"] for each in self.informers.stats()]


@pytest.fixture
def stage(place: Place, contents: Contents, widgets: Widgets, watch_list: bool) -> Iterator[Stage]:
    """Informers that have synced, on a place of their own."""
    it = Stage(place, contents, widgets, watch_list=watch_list)
    it.write()
    with it.informers:
        it.settle()
        yield it


@watch_list
def test_r1_informers_hold_what_stands_in_the_cloud(stage: Stage, watch_list: bool) -> None:
    stage.write()
    stage.settle()
    stage.write()
    stage.settle()
    stats = stage.informers.stats()
    assert stage.sets() == [1] * len(stage.watched)
    assert {each["watchLists"] > 0 for each in stats} == {watch_list}
    assert {each["lists"] > 0 for each in stats} == {not watch_list}
    assert [each["errors"] for each in stats] == [{}] * len(stage.watched)
    specs = [each.spec for each in stage.watched]
    with InformerProcess(stage.place.plane.admin_kubeconfig(), specs) as direct:
        wait_equal(direct, stage.watched, stage.place)
        contents = [each.content_hash for each in direct.states(content=True)]
        assert [each.content_hash for each in stage.informers.states(content=True)] == contents


@watch_list
@pytest.mark.parametrize("black_hole", [False, True], ids=["refused", "black-hole"])
def test_r4_informers_go_on_after_a_cut_without_listing_again(
    stage: Stage, black_hole: bool, watch_list: bool
) -> None:
    if black_hole and not stage.place.is_relayed:
        # client-go itself waits for TCP and HTTP/2 pings, half a minute and more.
        stage.place.link.reset()
    else:
        stage.place.cut(black_hole=black_hole)
    stage.write()
    stage.place.heal()
    stage.settle()
    if stage.place.is_relayed:
        # client-go alone lists again after a refused connection; here it notices nothing.
        assert [each["errors"] for each in stage.informers.stats()] == [{}] * len(stage.watched)
        assert stage.sets() == [1] * len(stage.watched)
    stage.write()
    stage.settle()


@watch_list
def test_r4_informers_list_again_where_upstream_forgot_their_versions(
    stage: Stage, watch_list: bool
) -> None:
    stage.place.cut()
    stage.write()
    stage.place.plane.compact()
    stage.place.plane.stop_apiserver()
    stage.place.plane.start_apiserver()
    stage.write()
    stage.place.heal()
    stage.settle()
    stage.write()
    stage.settle()


@watch_list
def test_r5_informers_go_on_over_a_relay_that_is_killed_and_starts_while_cut_off(
    relayed: Place, contents: Contents, widgets: Widgets, watch_list: bool
) -> None:
    it = Stage(relayed, contents, widgets, watch_list=watch_list)
    it.write()
    with it.informers:
        it.settle()
        relayed.cut()
        for relay in relayed.relays:
            relay.kill()
        it.write()
        since = time.time()
        for relay in reversed(relayed.relays):
            relay.start()
        relayed.heal()
        it.settle()
    # client-go lists again where a connection breaks; that is answered by what the relay kept.
    for resource in ("configmaps", "pods", widgets.plural):
        asked = of_relays(relayed.plane, contents.namespace, resource=resource, since=since)
        assert set(verbs(asked)) == {"watch"}, [each.request_uri for each in asked]


def test_r5_informers_that_start_before_a_relay_that_is_cut_off_sync_with_what_is_known(
    relayed: Place, contents: Contents, widgets: Widgets
) -> None:
    it = Stage(relayed, contents, widgets, watch_list=True)
    it.write()
    with it.informers:
        it.settle()
        relayed.cut()
        known = [each.hash for each in it.informers.states()]
    contents.configmap("unknown")
    with InformerProcess(relayed.kubeconfig(), [each.spec for each in it.watched]) as late:
        late.wait_synced()
        assert [each.hash for each in late.states()] == known
        relayed.heal()
        wait_equal(late, it.watched, relayed)
        late.check()


def test_r1_client_gos_own_check_of_watch_lists_finds_nothing(
    shared: Place, contents: Contents
) -> None:
    """It lists again at exactly the version where the initial events ended, and panics where the
    two differ: tools/cache/reflector_data_consistency_detector.go."""
    for number in range(5):
        contents.configmap(f"cm-{number}", labels={"x": str(number % 2)})
    space = contents.namespace
    watched = [
        Watched("typed", "configmaps", space),
        Watched("typed", "configmaps", space, label_selector="x=1"),
        Watched("dynamic", "configmaps", space),
    ]
    with InformerProcess(
        shared.kubeconfig(),
        [each.spec for each in watched],
        environ={"KUBE_WATCHLIST_INCONSISTENCY_DETECTOR": "true"},
    ) as process:
        process.wait_synced()
        wait_equal(process, watched, shared)
        assert "panic" not in process.log_text()
        assert process.total("lists") >= len(watched)


def test_r1_an_informer_of_a_resource_that_comes_later_syncs_when_it_is_there(
    shared: Place, contents: Contents
) -> None:
    space = contents.namespace
    widgets = Widgets(shared.plane)
    widgets.create(contents, "w", site="north")
    widgets.delete()
    watched = [Watched("dynamic", widgets.resource, space)]
    with InformerProcess(shared.kubeconfig(), [watched[0].spec]) as process:
        # Refused at least once before the CRD is there.
        deadline = time.monotonic() + 30
        while not process.stats()[0]["errors"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not process.states()[0].is_synced
        widgets.define()
        widgets.create(contents, "w2", site="south")
        wait_equal(process, watched, shared)
        process.check()
