"""All of it at once: two hundred informers, thousands of random changes, cuts of every kind, kills
at random moments. At the end everybody holds what stands in the cloud, and nobody saw
anything twice or going back."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from tests.integration.relay.conftest import check_logs
from tests.integration.relay.oracle import assert_snapshot
from tests.integration.relay.place import Kind, Place
from tests.integration.relay.watched import Watched, wait_equal
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.informers import InformerProcess
from tools.harness.pods.wire.caller import Caller, Parameters
from tools.harness.relay_objects import Contents, Widgets

# Through one relay; through two, of which each event costs twice as much, half as many.
CHANGES = {Kind.RELAY: 2000, Kind.BEHIND_RELAY: 1000}
WRITERS = 3
# Informers of each kind in `watched`.
COUNT = 20
ANY: Parameters = {"resourceVersion": "0"}


class Writer:
    """Random changes of objects that are its own, so that writers never conflict."""

    def __init__(self, number: int, contents: Contents, widgets: Widgets, caller: Caller) -> None:
        self._number = number
        self._contents = contents
        self._widgets = widgets
        self._caller = caller
        self._draw = random.Random(number)
        self._known: dict[str, list[str]] = {"configmaps": [], widgets.resource: []}
        self._made = 0
        self.failure: BaseException | None = None

    def write(self, changes: int) -> None:
        try:
            for _ in range(changes):
                self._change(self._draw.choice(list(self._known)))
        except BaseException as failure:  # whatever it is: a thread tells nobody else
            self.failure = failure
            raise

    def _change(self, resource: str) -> None:
        known, draw = self._known[resource], self._draw
        path = self._contents.path(resource)
        choice = draw.random()
        if choice < 0.35 or not known:
            self._made += 1
            name = f"o-{self._number}-{self._made:05}"
            self._caller.post(path, self._body(resource, name)).expect(201)
            known.append(name)
        elif choice < 0.8:
            name = draw.choice(known)
            change = {"metadata": {"labels": self._labels()}, **self._fields(resource)}
            self._caller.patch(f"{path}/{name}", change).expect()
        else:
            name = known.pop(draw.randrange(len(known)))
            self._caller.delete(f"{path}/{name}").expect()

    def _body(self, resource: str, name: str) -> dict[str, object]:
        kind = {"apiVersion": self._widgets.api_version, "kind": "Widget"}
        return {
            **(kind if resource == self._widgets.resource else {}),
            "metadata": {"name": name, "labels": self._labels()},
            **self._fields(resource),
        }

    def _labels(self) -> dict[str, str]:
        return {"x": self._draw.choice("01"), "y": self._draw.choice("01")}

    def _fields(self, resource: str) -> dict[str, object]:
        if resource == "configmaps":
            return {"data": {"key": str(self._draw.random())}}
        return {"spec": {"site": self._draw.choice(["north", "south"])}}


def torment(place: Place, draw: random.Random, ended: threading.Event) -> list[str]:
    """Breaks the link and kills relays until all is written; what was done, in order."""
    breaks: list[Callable[[FaultProxy], None]] = [
        FaultProxy.refuse,
        FaultProxy.reset,
        FaultProxy.black_hole,
        FaultProxy.lose_response,
        lambda link: link.lose_segments(0.3),
    ]
    done: list[str] = []
    kills = 0
    while not ended.is_set():
        break_it = draw.choice(breaks)
        break_it(place.link)
        done.append(f"{time.monotonic():.2f} {getattr(break_it, '__name__', 'loss')}")
        ended.wait(draw.uniform(0.2, 3.0))
        if draw.random() < 0.4 and kills < 4:
            kills += 1
            relay = draw.choice(place.relays)
            relay.kill()
            done.append(f"{time.monotonic():.2f} kill {relay.name}")
            relay.start()
        place.link.heal()
        ended.wait(draw.uniform(0.5, 2.5))
    place.heal()
    return done


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.value)
def test_after_a_storm_every_informer_holds_what_stands_in_the_cloud(
    control_plane: ControlPlane, contents: Contents, widgets: Widgets, kind: Kind
) -> None:
    space = contents.namespace
    watched = [
        Watched("typed", "configmaps", space),
        Watched("typed", "configmaps", space, label_selector="x=1"),
        Watched("typed", "configmaps", space, label_selector="x=1,y!=0"),
        Watched("dynamic", "configmaps", space),
        Watched("metadata", "configmaps", space, label_selector="y in (0)"),
        Watched("dynamic", widgets.resource, space),
        Watched("dynamic", widgets.resource, space, field_selector="spec.site=north"),
        Watched("dynamic", widgets.resource, space, label_selector="x=0"),
        Watched("metadata", widgets.resource, space),
        Watched("metadata", widgets.resource, space, field_selector="spec.site!=north"),
    ]
    with Place(kind, control_plane) as place:
        specs = [each.spec for each in watched]
        writers = [Writer(number, contents, widgets, place.cloud) for number in range(WRITERS)]
        with (
            InformerProcess(place.kubeconfig(), specs, count=COUNT // 2) as informers,
            InformerProcess(
                place.kubeconfig(), specs, count=COUNT // 2, watch_list=False
            ) as listing,
        ):
            ended = threading.Event()
            threads = [
                threading.Thread(target=each.write, args=(CHANGES[kind] // WRITERS,))
                for each in writers
            ]
            tormenting = threading.Thread(
                target=torment, args=(place, random.Random(7), ended), name="torment"
            )
            for thread in (*threads, tormenting):
                thread.start()
            for thread in threads:
                thread.join()
            ended.set()
            tormenting.join()
            assert [each.failure for each in writers] == [None] * WRITERS
            for each in (informers, listing):
                wait_equal(each, watched, place, timeout=120)
                each.check()
        for resource in ("configmaps", widgets.resource):
            path = contents.path(resource)
            reply = place.caller().get(path, {"resourceVersion": contents.version(resource)})
            assert_snapshot(place, path, {}, reply)
        check_logs(place)
