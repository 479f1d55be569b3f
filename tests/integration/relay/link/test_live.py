"""R6: what a relay tells while it catches up is of now, or says how old it is.

In the first seconds after a start, an idle close, a cut, a list that is made anew and a standstill
of the process: each answer holds what was written before it was asked for, or its Age is at least
as long ago as the first write that it lacks.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters, Reply
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
NEWEST: Parameters = {}
LONG: Parameters = {"timeoutSeconds": 120}
KINDS = (Kind.RELAY, Kind.BEHIND_RELAY, Kind.FOR_CALLERS)
FLAGS = ("--reads=cache", "--idle-timeout=1s")
# Seconds for which each answer is looked at, after what happened; and for the last to be of now.
LOOKED_AT = 2.0
SOON = 20.0
# Seconds: longer than a process that is only busy is late.
STANDSTILL = 6.0


@dataclass
class Scene:
    """ConfigMaps that a relay holds, and one after the other that it has yet to learn of."""

    place: Place
    contents: Contents
    names: list[str] = field(default_factory=list)
    # Wall time at which the first was there that the relay has not been seen to know.
    missing_since: float = 0.0

    @property
    def path(self) -> str:
        return self.contents.path("configmaps")

    def write(self, count: int = 5) -> None:
        for _ in range(count):
            name = f"a{len(self.names):03}"
            self.contents.configmap(name)
            self.names.append(name)
            self.missing_since = self.missing_since or time.time()

    def learn(self) -> None:
        """Returns when the relay's stream is live."""
        wait_for(self.is_live, timeout=SOON, what="a live stream", interval=0.05)
        self.missing_since = 0.0

    def is_live(self) -> bool:
        """As told in the first relay's status; somebody asks each time."""
        reply = self.ask(ANY)
        if reply.names != self.names or "Age" in reply.headers:
            return False
        states = [
            each["state"]
            for relay in self.place.relays
            for each in relay.status()["streams"]
            if each["resource"] == "configmaps.v1." and each["namespace"] == self.contents.namespace
        ]
        return states == ["live"] * len(self.place.relays)

    def ask(self, query: Parameters) -> Reply:
        reply = self.place.caller().get(self.path, query)
        reply.expect()
        return reply

    def look(self) -> None:
        """Each kind of read tells what is, or how old it is."""
        for query in (ANY, NEWEST):
            wanted = list(self.names)
            reply = self.ask(query)
            self._judge(reply.names, wanted, reply.headers.get("Age"))
        name = self.names[-1]
        one = self.place.caller().get(f"{self.path}/{name}", ANY)
        assert one.status in (200, 404, 503)
        there = [name] if one.status == 200 else []
        if one.status != 503:
            self._judge(there, [name], one.headers.get("Age"))
        with self.place.caller().watch(self.path, {**LONG, **ANY}) as watching:
            # The state comes at once, what happens later may follow it.
            count = len(self.names)
            age = watching.headers.get("Age")
            if age is None:
                watching.wait_for(lambda it: len(it.events()) >= count, what="the state")
                assert watching.seen[0].at - watching.started_at < LOOKED_AT

    def _judge(self, names: list[str], wanted: list[str], age: str | None) -> None:
        if names == wanted:
            return
        assert age is not None, f"{len(names)} of {len(wanted)}, and no word of it"
        # Whole seconds, rounded down.
        assert time.time() - int(age) <= self.missing_since + 1.0

    def look_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()


@contextmanager
def scene(kind: Kind, plane: ControlPlane, contents: Contents) -> Iterator[Scene]:
    with Place(kind, plane, flags=FLAGS) as place:
        it = Scene(place, contents)
        it.write()
        it.learn()
        yield it
        it.learn()
        for relay in place.relays:
            assert "Traceback" not in relay.log_text(all_lives=True)


def restart(it: Scene) -> None:
    for relay in it.place.relays:
        relay.kill()
    it.write()
    for relay in reversed(it.place.relays):
        relay.start()


def restart_after_a_moment(it: Scene) -> None:
    """Of the nearest relay only."""
    it.place.relay.kill()
    it.write()
    it.place.relay.start()


def idle(it: Scene) -> None:
    def is_closed() -> bool:
        streams = it.place.relay.status()["streams"]
        return all(each["state"] == "idle" for each in streams)

    wait_for(is_closed, timeout=SOON, what="an idle stream", interval=0.1)
    it.write()


def cut(it: Scene) -> None:
    it.place.cut()
    it.write()
    it.place.heal()


def cut_on_a_slow_link(it: Scene) -> None:
    """What was missed comes a while after the watch was accepted."""
    it.place.cut()
    it.write()
    it.place.link.delay_response(0.7)


def relist(it: Scene) -> None:
    it.place.cut()
    it.write()
    it.place.plane.compact()
    it.place.heal()


def freeze(it: Scene) -> None:
    it.place.relay.freeze()
    it.write()
    time.sleep(STANDSTILL)
    it.place.relay.thaw()


SITUATIONS = (restart, restart_after_a_moment, idle, cut, cut_on_a_slow_link, relist, freeze)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [it if it is Kind.RELAY else pytest.param(it, marks=pytest.mark.long) for it in KINDS],
    ids=lambda kind: kind.value,
)
def test_r6_what_is_told_while_catching_up_is_of_now_or_tells_its_age(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    with scene(kind, control_plane, contents) as it:
        for happen in SITUATIONS:
            happen(it)
            it.look_for(LOOKED_AT)
            it.place.link.heal()
            it.learn()


def test_r6_a_list_of_what_was_not_known_is_of_now(one_relay: Place, contents: Contents) -> None:
    """It was asked for after its client had come: nobody waits for the watch."""
    contents.configmap("a")
    reply = one_relay.caller().get(contents.path("configmaps"), ANY)
    assert reply.names == ["a"]
    assert "Age" not in reply.headers


@pytest.mark.parametrize("how", ["at once", "after a restart"])
def test_r4_the_version_of_a_list_does_not_go_back_when_the_link_is_cut(
    relayed: Place, contents: Contents, how: str
) -> None:
    """A quiet stream has no event at the version of upstream's list, which tells the same."""
    contents.configmap("a")
    caller, path = relayed.caller(), contents.path("configmaps")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    contents.create("serviceaccounts", "beside-it")
    told = caller.get(path).version
    assert int(told) == contents.version("serviceaccounts")
    relayed.cut()
    if how == "after a restart":
        relayed.relay.kill()
        relayed.relay.start()
    for query in (NEWEST, ANY, {"resourceVersion": told}):
        reply = caller.get(path, query)
        assert (reply.version, reply.names) == (told, ["a"])
    assert caller.get(f"{path}/a", {"resourceVersion": told}).status == 200
    asked: Parameters = {**LONG, "resourceVersion": told, "allowWatchBookmarks": "true"}
    state = {**asked, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with caller.watch(path, asked) as watching, caller.watch(path, state) as whole:
        assert str(whole.wait_initial_end().version) == told
        relayed.heal()
        contents.configmap("b")
        contents.delete("configmaps", "a")
        watching.wait_told(("ADDED", "b"), ("DELETED", "a"))
        whole.wait_told(("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"))
