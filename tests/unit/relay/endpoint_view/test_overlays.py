"""Which endpoints the view shows otherwise than upstream, and when: its promises, in virtual time.

`View` is one node's view of one slice, with an observer that knows the promises only: it is shown
to notice each of the mutants.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.core.verdicts import Verdicts
from relay_sidecar.endpoint_view.endpoint_slice import (
    Endpoint,
    EndpointId,
    Overlay,
    read_endpoints,
)
from relay_sidecar.endpoint_view.overlays import EndpointOverlays
from relay_sidecar.endpoint_view.view_version import LAST
from tests.examples import play
from tests.unit.relay.endpoint_view.slices import Json, conditions, endpoint, endpoint_slice

KEY = ("default", "web-1")
# n1 is the node itself.
NODE_OF = {"a": "n1", "b": "n2", "c": "n2", "d": "n3"}
READY: Json = {"ready": True}
NOT_READY: Json = {"ready": False}
ENDING: Json = {"ready": False, "serving": True, "terminating": True}


def verdicts(*silent: str, alive: str = "n1 n2 n3") -> Verdicts:
    return Verdicts(frozenset(set(alive.split()) - set(silent)), frozenset(silent))


@dataclass
class View:
    overlays: EndpointOverlays = field(default_factory=EndpointOverlays)
    upstream: dict[str, Json] = field(default_factory=lambda: dict.fromkeys("abcd", READY))
    now: float = 1000.0
    room: int = LAST
    cut_at: float | None = None
    # What the observer knows: who may be shown ready against upstream, and whether it was not
    # ready since; until when, time of outages not counted.
    may_be_kept: dict[str, bool] = field(default_factory=dict)
    kept_until: float = 0.0
    told: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.say()

    # ── what happens ──

    def say(self, **changed: Json | None) -> "View":
        """Upstream says so of these endpoints, None: they are gone."""
        for uid, it in changed.items():
            if it is None:
                self.upstream.pop(uid, None)
                # What upstream brings back later is a new one.
                self.told = [it for it in self.told if it[1] != uid]
            else:
                self.upstream[uid] = it
        for uid, was_down in list(self.may_be_kept.items()):
            it = self.upstream.get(uid)
            if it is None or it.get("terminating") or (it["ready"] and was_down):
                del self.may_be_kept[uid]
            elif not it["ready"]:
                self.may_be_kept[uid] = True
        self.overlays.take(KEY, self.raw, self.now)
        self.check()
        return self

    def judge(self, found: Verdicts | None) -> "View":
        self.overlays.judge(found)
        return self.step()

    def cut(self) -> "View":
        if self.cut_at is None:
            self.cut_at = self.now
        self.overlays.outage_began(self.now, heard_at=self.now)
        return self

    def heal(self) -> "View":
        if self.cut_at is None:
            return self
        lasted, is_kept = self.now - self.cut_at, self.cut_at < self.kept_until
        self.kept_until += lasted
        if lasted > 30:
            ready = {uid: False for uid, it in self.upstream.items() if it["ready"]}
            self.may_be_kept = (self.may_be_kept if is_kept else {}) | ready
            self.kept_until = self.now + 30
        self.cut_at = None
        self.overlays.outage_ended(self.now)
        return self

    def wait(self, seconds: float) -> "View":
        """As the shell waits: up to each moment at which something is due."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(max(self.overlays.due_at(self.now), self.now + 0.001), end)
            self.step()
        return self

    def step(self) -> "View":
        before = self.shown
        for key in self.overlays.due(self.now, room=self.room):
            assert key == KEY
            self.told += [(self.now, uid) for uid in before if before[uid] != self.shown.get(uid)]
        self.check()
        return self

    # ── what is seen ──

    @property
    def raw(self) -> bytes:
        made = [endpoint(NODE_OF[uid], uid, **it) for uid, it in sorted(self.upstream.items())]
        return endpoint_slice("web-1", made)

    @property
    def shown(self) -> dict[str, Json]:
        return conditions(self.overlays.rendered(KEY))

    @property
    def ready(self) -> str:
        return "".join(uid for uid, it in self.shown.items() if it["ready"])

    def check(self) -> None:
        """Nothing is made ready that was not; an endpoint changes once in two seconds."""
        # A change may wait for two seconds.
        is_late = self.cut_at is None and self.now > self.kept_until + 2.001
        for uid, it in self.shown.items():
            if it["ready"] and not self.upstream[uid]["ready"]:
                assert uid in self.may_be_kept, f"{uid} was made ready"
                assert not is_late, f"{uid} is kept for too long"
                assert not it.get("terminating")
            assert not it["ready"] or it.get("serving", True), f"{uid} is ready and does not serve"
        for uid in NODE_OF:
            times = [at for at, told in self.told if told == uid]
            gaps = [later - at for at, later in pairwise(times)]
            assert all(gap >= 1.999 for gap in gaps), f"{uid} was told at {times}"


def test_endpoint_view_endpoints_of_a_silent_node_are_not_ready_and_come_back_at_once() -> None:
    view = View().judge(verdicts())
    assert view.ready == "abcd"
    view.judge(verdicts("n2"))
    assert view.ready == "ad"
    assert [view.shown[it]["serving"] for it in "bc"] == [False, False]
    assert view.overlays.count(Overlay.SILENT) == 2
    view.wait(10).judge(verdicts())
    assert (view.ready, view.overlays.overlaid) == ("abcd", 0)


def test_endpoint_view_a_terminating_endpoint_of_a_silent_node_serves_no_more() -> None:
    view = View().say(b=ENDING).judge(verdicts("n2"))
    assert view.shown["b"] == {"ready": False, "serving": False, "terminating": True}


@pytest.mark.parametrize("word", ["Degraded", "unknown"])
def test_endpoint_view_of_a_node_that_is_neither_alive_nor_silent_nothing_changes(
    word: str,
) -> None:
    view = View().judge(Verdicts(frozenset({"n1"}), frozenset()))
    assert (view.ready, word) == ("abcd", word)


def test_endpoint_view_new_endpoints_of_a_silent_node_are_not_ready_from_the_first_moment() -> None:
    view = View(upstream={"a": READY}).judge(verdicts("n2"))
    assert view.say(b=READY).ready == "a"


def test_endpoint_view_a_verdict_that_flaps_is_told_once_in_two_seconds() -> None:
    view = View().judge(verdicts())
    for number in range(60):
        view.judge(verdicts("n2") if number % 2 else verdicts()).wait(0.25)
    assert len([it for it in view.told if it[1] == "b"]) <= 8
    view.judge(verdicts()).wait(2)
    assert view.ready == "abcd"


def test_endpoint_view_what_upstream_says_of_an_endpoint_is_never_held_back() -> None:
    view = View().judge(verdicts("n2"))
    assert view.say(a=NOT_READY, b=NOT_READY).ready == "d"
    view.judge(verdicts())
    assert view.say(a=READY, b=READY).ready == "abd"
    # c was told of a moment ago, and upstream has nothing new of it.
    assert view.wait(2).ready == "abcd"


def test_endpoint_view_without_verdicts_all_is_upstreams() -> None:
    view = View().judge(verdicts("n2")).wait(2.5).judge(None)
    assert view.overlays.rendered(KEY) == view.raw
    view.cut().wait(60).heal().say(b=NOT_READY)
    assert view.ready == "acd"


def test_endpoint_view_after_a_long_outage_what_was_ready_stays_so_for_thirty_seconds() -> None:
    view = View().say(d=NOT_READY).judge(verdicts())
    view.cut().wait(31).heal()
    view.say(**dict.fromkeys("abcd", NOT_READY))
    assert view.ready == "abc"
    assert view.overlays.count(Overlay.KEPT) == 3
    assert view.wait(29).ready == "abc"
    assert view.wait(3).ready == ""
    assert view.overlays.overlaid == 0


def test_endpoint_view_a_short_outage_keeps_nothing() -> None:
    view = View().judge(verdicts()).cut().wait(30).heal()
    assert view.say(a=NOT_READY).ready == "bcd"


@pytest.mark.parametrize(("heard_at", "ready"), [(980.0, "abcd"), (990.0, "bcd")], ids=str)
def test_endpoint_view_an_outage_lasts_from_when_upstream_was_heard_last(
    heard_at: float, ready: str
) -> None:
    view = View().judge(verdicts())
    view.overlays.outage_began(1000.0, heard_at=1000.0)
    # It is known a moment later since when.
    view.overlays.outage_began(1002.0, heard_at=heard_at)
    view.overlays.outage_ended(1015.0)
    view.overlays.take(KEY, View(upstream=view.upstream | {"a": NOT_READY}).raw, 1015.0)
    assert view.ready == ready


def test_endpoint_view_only_endpoints_of_nodes_that_are_alive_are_kept() -> None:
    view = View().judge(verdicts("n2", alive="n1")).cut().wait(40).heal()
    view.say(**dict.fromkeys("abcd", NOT_READY))
    assert view.ready == "a"
    view.judge(verdicts())
    view.wait(2)
    assert view.ready == "abcd"
    view.wait(2).judge(verdicts("n3"))
    assert view.ready == "abc"


def test_endpoint_view_what_upstream_shows_terminating_gone_or_ready_again_is_upstreams() -> None:
    view = View().judge(verdicts()).cut().wait(40).heal()
    # One after the other, as the endpoints controller hears of the pods.
    view.say(a=NOT_READY)
    view.say(b=NOT_READY, c=NOT_READY)
    assert view.ready == "abcd"
    view.say(a=ENDING, b=None, c=READY)
    assert view.ready == "cd"
    view.say(a=NOT_READY, b=NOT_READY, c=NOT_READY, d=NOT_READY)
    assert view.ready == "d"


def test_endpoint_view_an_outage_soon_after_another_one_takes_nothing_away() -> None:
    view = View().judge(verdicts()).cut().wait(40).heal()
    view.say(**dict.fromkeys("abcd", NOT_READY)).wait(10).cut().wait(20)
    assert view.ready == "abcd"
    view.heal().wait(19)
    assert view.ready == "abcd"
    view.cut().wait(60).heal().wait(29)
    assert view.ready == "abcd"
    assert view.wait(3).ready == ""


def test_endpoint_view_endpoints_that_no_object_is_behind_are_not_kept() -> None:
    overlays = EndpointOverlays()
    made = [endpoint("n1", "", address="10.0.0.1")]
    overlays.take(KEY, endpoint_slice("web-1", made), 0.0)
    overlays.judge(verdicts())
    overlays.outage_began(0.0, heard_at=0.0)
    overlays.outage_ended(40.0)
    made[0]["conditions"] = NOT_READY
    overlays.take(KEY, endpoint_slice("web-1", made), 41.0)
    assert conditions(overlays.rendered(KEY))[""]["ready"] is False


def test_endpoint_view_a_whole_list_says_what_is_gone() -> None:
    view = View().judge(verdicts("n2"))
    other = endpoint_slice("web-2", [endpoint("n2", "x")])
    view.overlays.replace([(("default", "web-2"), other)], view.now)
    assert view.overlays.overlaid == 1
    with pytest.raises(KeyError):
        view.overlays.rendered(KEY)
    assert view.overlays.due(view.now, room=LAST) == []


def test_endpoint_view_where_versions_end_it_shows_upstreams_state_until_upstream_moves() -> None:
    overlays = EndpointOverlays()
    keys = [("default", f"web-{number}") for number in range(3)]
    for key in keys:
        overlays.take(key, endpoint_slice(key[1], [endpoint("n2", key[1])]), 0.0)
    overlays.judge(verdicts("n2"))
    # To change them and back takes six.
    assert overlays.due(0.0, room=5) == []
    overlays.upstream_moved()
    assert sorted(overlays.due(0.0, room=6)) == keys
    overlays.judge(verdicts())
    assert sorted(overlays.due(10.0, room=3)) == keys
    overlays.judge(verdicts("n2"))
    assert overlays.due(20.0, room=0) == []
    assert overlays.overlaid == 0
    overlays.upstream_moved()
    assert sorted(overlays.due(20.0, room=LAST)) == keys


def test_endpoint_view_that_stands_still_has_room_to_take_all_overlays_back() -> None:
    overlays = EndpointOverlays()
    keys = [("default", f"web-{number}") for number in range(4)]
    for key, node in zip(keys, ("n2", "n2", "n3", "n3"), strict=True):
        overlays.take(key, endpoint_slice(key[1], [endpoint(node, key[1])]), 0.0)
    overlays.judge(verdicts("n2"))
    room = 6
    room -= len(overlays.due(0.0, room=room))
    assert (overlays.overlaid, room) == (2, 4)
    overlays.judge(verdicts("n2", "n3"))
    # Two more, and four to take back: instead the two are taken back.
    assert len(overlays.due(10.0, room=room)) == 2
    assert overlays.overlaid == 0


# ── drawn histories ──

Move = Callable[[View], View]


def _say(changed: dict[str, Json | None]) -> Move:
    return lambda view: view.say(**changed)


def _judge(silent: set[str], unknown: set[str]) -> Move:
    alive = " ".join({"n1", "n2", "n3"} - unknown)
    return lambda view: view.judge(verdicts(*(silent - {"n1"}), alive=alive))


STATES = st.sampled_from([READY, NOT_READY, NOT_READY, ENDING, None])
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.dictionaries(st.sampled_from("abcd"), STATES, min_size=1).map(_say),
    st.builds(
        _judge, st.sets(st.sampled_from(["n2", "n3"])), st.sets(st.sampled_from(["n2", "n3"]))
    ),
    st.just(lambda view: view.judge(None)),
    st.floats(0.1, 45.0).map(lambda seconds: lambda view: view.wait(seconds)),
    st.floats(0.1, 5.0).map(lambda seconds: lambda view: view.wait(seconds)),
    # Nothing comes from upstream while it is cut off.
    st.floats(1.0, 90.0).map(lambda seconds: lambda view: view.cut().wait(seconds).heal()),
)


def live(view: View, moves: list[Move]) -> None:
    for move in moves:
        view.wait(0.05)
        move(view)


@play(300)
@given(st.lists(MOVES, max_size=25))
def test_endpoint_view_never_makes_ready_what_was_not(moves: list[Move]) -> None:
    view = View()
    live(view, moves)
    # Fails open: without verdicts, two seconds later at most, all is upstream's.
    view.judge(None).wait(2.1)
    assert view.overlays.overlaid == 0
    assert view.shown == conditions(view.raw)


@play(150)
@given(st.lists(MOVES, max_size=15))
def test_endpoint_view_two_seconds_after_a_verdict_the_silent_are_out_and_others_in(
    moves: list[Move],
) -> None:
    view = View()
    live(view, moves)
    view.judge(verdicts("n2")).wait(35)
    expected = {uid for uid, it in view.upstream.items() if it["ready"] and NODE_OF[uid] != "n2"}
    assert set(view.ready) == expected


class KeepsTheTerminating(EndpointOverlays):
    def _wanted(self, found, id: EndpointId, it: Endpoint, now: float):  # type: ignore[no-untyped-def]
        is_kept = it.uid and it.node in (self._verdicts.alive if self._verdicts else ())
        return Overlay.KEPT if is_kept and self._keeps(now) and not it.is_ready else None


class KeepsForTooLong(EndpointOverlays):
    def outage_ended(self, now: float) -> None:
        super().outage_ended(now)
        self._keep_until += 10


class TellsAtOnce(EndpointOverlays):
    def _next(self, key, it, unchanged, now: float):  # type: ignore[no-untyped-def]
        return super()._next(key, it, {}, now)


class RemembersTheReadyAgain(EndpointOverlays):
    def take(self, key: tuple[str, str], raw: bytes | None, now: float) -> None:
        kept = dict(self._slices[key].kept) if key in self._slices else {}
        super().take(key, raw, now)
        if raw is not None:
            found = self._slices[key]
            found.kept = {id: True for id in kept if id in read_endpoints(raw)}


def _healed(view: View) -> View:
    return view.judge(verdicts()).cut().wait(40).heal()


@pytest.mark.parametrize(
    ("mutant", "history"),
    [
        (KeepsTheTerminating, lambda it: _healed(it).say(a=ENDING)),
        (KeepsForTooLong, lambda it: _healed(it).say(a=NOT_READY).wait(35)),
        (TellsAtOnce, lambda it: it.judge(verdicts("n2")).wait(0.5).judge(verdicts())),
        (
            RemembersTheReadyAgain,
            lambda it: _healed(it).say(a=NOT_READY).say(a=READY).say(a=NOT_READY),
        ),
    ],
    ids=lambda it: it.__name__,
)
def test_endpoint_view_the_observer_notices_a_mutant(
    mutant: type[EndpointOverlays], history: Move
) -> None:
    history(View())
    with pytest.raises(AssertionError):
        history(View(mutant()))
