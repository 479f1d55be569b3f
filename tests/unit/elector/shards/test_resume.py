"""P11 with shards: the elector of one member crashes, and is back beside the same main."""

import json
import math
from typing import Any

import pytest

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import ANSWERS_AT_ANNOTATION, RESUMED_ANNOTATION
from elector_sidecar.core.lease_writes import WriteLease
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION, decode
from elector_sidecar.shards.members.succession import Succession
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import decode as decode_table
from tests.unit.elector.shards.member import Process
from tests.unit.elector.shards.ring import TIMING, Ring, cut

CRASHED = 1.0
# From the start until all members have written that they go by the table.
CONFIRMED = TIMING.renew_interval + 1.0


def ring(*names: str, **more: Any) -> Ring:
    it = Ring(ShardElection, *(names or ("a", "b", "c")), **more)
    it.run(60)
    return it


def crash(it: Ring, name: str) -> Process:
    it.members[name].kill()
    it.run(CRASHED)
    return it.restart(name)


def owners(it: Ring) -> list[str]:
    return [owner.identity if owner else "" for owner in decode_table(it.text())[0].owners]


def tokens(process: Process) -> dict[int, int]:
    return {s: it.fencing_token for s, it in process.election.ownership.shards.items()}


def takes_all(it: Ring, name: str) -> bool:
    """Within a lease duration, before the other one has its share again."""
    until = it.world.time + TIMING.lease_duration + 1.0
    while len(it.members[name].owned()) < it.shards and it.world.time < until:
        it.run(0.1)
    return len(it.members[name].owned()) == it.shards


def why_not(process: Process) -> str:
    return process.election.election.why_not_resumed(process.clock.now()) or ""


def test_p11_its_shards_stay_with_new_tokens_and_no_other_member_writes_the_table() -> None:
    it = ring()
    named, before, owned = owners(it), tokens(it.members["a"]), it.members["a"].owned()
    others = {name: tokens(it.members[name]) for name in ("b", "c")}
    again = crash(it, "a")
    it.run(CONFIRMED)
    assert again.owned() == owned
    assert owners(it) == named
    assert {name: tokens(it.members[name]) for name in ("b", "c")} == others
    assert min(tokens(again).values()) > max(before.values())
    assert again.election.election.identity == it.members["a"].identity
    it.run(60)
    assert owners(it) == named
    assert again.owned() == owned


def test_p11_others_see_one_term_that_no_longer_knows_who_was_a_member_before_whom() -> None:
    it = ring()
    lease = it.members["a"].lease
    before = it.server.leases[lease]
    crash(it, "a")
    it.run(0.5)
    after = it.server.leases[lease]
    first, second = decode(before), decode(after)
    assert first is not None
    assert second is not None
    assert (after.spec.holder_identity, second.term) == (before.spec.holder_identity, first.term)
    assert after.spec.lease_transitions == before.spec.lease_transitions + 1
    assert second.begun_on == before.resource_version
    keys = [json.loads(x.annotation(MEMBER_ANNOTATION) or "{}").keys() for x in (before, after)]
    assert keys[0] == keys[1], "members of an earlier release read it"


def test_p11_a_lease_of_its_own_later_is_another_term() -> None:
    it = ring("a", "b")
    last = it.members["a"]
    for term in (2, 3):
        cut(last, 2 * TIMING.lease_duration)
        it.run(3 * TIMING.lease_duration)
        note = decode(it.server.leases[last.lease])
        assert note is not None
        assert note.term == term
        if last is it.members["a"]:
            last = crash(it, "a")
            it.run(CONFIRMED)
        assert it.shares() == [8, 8]


def test_p11_nothing_is_taken_again_before_all_who_may_work_go_by_the_table() -> None:
    it = ring()
    owned = it.members["a"].owned()
    cut(it.members["b"], 5.0)
    again = crash(it, "a")
    it.run(CONFIRMED)
    assert again.owned() == []
    view = again.election.view(again.clock.now())
    assert "own again once all members go by this table" in view.reason
    assert view.unowned == 0
    it.run(5.0)
    assert again.owned() == owned


def test_s6_what_the_main_was_promised_by_the_dead_process_is_waited_for() -> None:
    """It ends at once, and its main never says that it has stopped."""
    it = ring(confirms_after=math.inf)
    it.members["a"].kill()
    works = it.members["a"].worked_on()
    assert works
    again = it.restart("a")
    it.run(0.5)
    again.leave()
    it.run(1.0)
    assert again.worked_on() == works
    assert not again.election.is_settled(again.clock.now())
    it.run(TIMING.lease_duration + 5.0)
    assert it.shares() == [8, 8]


def test_s6_it_is_bound_from_the_sending_of_the_write_that_may_be_applied() -> None:
    """The answer is late, and the process is to end before it knows."""
    it = ring()
    it.members["a"].kill()
    again = it.restart("a")
    again._write_own = lambda write: None  # type: ignore[method-assign]
    it.run(0.5)
    again.set_intent(Intent.HOLD)
    assert not again.election.is_settled(again.clock.now())
    it.run(TIMING.lease_duration)
    assert again.election.is_settled(again.clock.now())


def test_s6_it_says_that_it_goes_by_a_table_when_no_promise_of_the_dead_one_is_left() -> None:
    """That one may have owned what this table does not show."""
    it = ring("a", "b")
    again = crash(it, "a")
    it.run(CONFIRMED)
    note = decode(it.server.leases[again.lease])
    assert note is not None
    assert note.seen is None
    it.run(TIMING.lease_duration)
    note = decode(it.server.leases[again.lease])
    assert note is not None
    assert note.seen is not None


def test_s6_what_the_dead_one_took_is_kept_for_it_when_an_old_table_that_was_put_back_goes() -> (
    None
):
    """Its main was promised what that table does not show."""
    it = ring(confirms_after=math.inf)
    old = it.text()
    it.members["b"].kill()
    while len(it.members["a"].owned()) < 8:
        it.run(0.1)
    it.members["a"]._read_document()
    owned = it.members["a"].owned()
    cut(it.members["c"], 1.0)
    it.members["a"].kill()
    it.put(old)
    again = it.restart("a")
    it.run(0.5)
    assert len(again.election.ownership.inherited) < len(owned)
    while owners(it).count(it.members["a"].identity) < len(owned):
        it.run(0.01)
    until = it.world.time + TIMING.lease_duration
    while it.world.time < until:
        it.run(0.01)
        assert {owners(it)[shard] for shard in owned} == {it.members["a"].identity}
    it.run(CONFIRMED)
    assert again.owned() == owned


def test_s6_a_lease_that_is_stolen_before_anything_is_taken_again() -> None:
    """No other term is written while the main may work on the shards of the first one."""
    it = ring(confirms_after=math.inf)
    cut(it.members["b"], 8.0)
    again = crash(it, "a")
    it.run(0.2)
    raw = it.server.leases[again.lease].raw
    mine = raw["spec"]

    def steal(record: dict[str, Any]) -> None:
        record["spec"] = {**mine, "holderIdentity": "bogus", "leaseDurationSeconds": 1}

    it.server.edit(again.lease, steal)
    it.run(0.2)
    it.server.edit(again.lease, lambda record: record["spec"].update(holderIdentity=""))
    it.run(60)
    assert it.shares() == [5, 5, 6]


def test_p11_one_that_crashes_again_within_a_minute_loses_its_shards() -> None:
    it = ring("a", "b")
    crash(it, "a")
    it.run(CONFIRMED)
    third = crash(it, "a again")
    it.run(0.5)
    assert "this pod resumed" in why_not(third)
    assert takes_all(it, "b")


def test_p11_both_members_crash_at_once_and_each_keeps_its_shards() -> None:
    """Neither tells the other that it goes by the table, before one lease duration is over."""
    it = ring("a", "b")
    named = owners(it)
    for name in ("a", "b"):
        it.members[name].kill()
    it.run(CRASHED)
    again = [it.restart(name) for name in ("a", "b")]
    it.run(TIMING.lease_duration + CONFIRMED)
    assert [len(process.owned()) for process in again] == [8, 8]
    assert owners(it) == named


def test_p11_in_doubt_about_the_table_it_goes_on_with_nothing() -> None:
    it = ring("a", "b")
    it.members["a"].kill()
    it.put("{}")
    cut(it.members["b"], 60.0)
    again = it.restart("a")
    it.run(1.0)
    assert "the table is not known" in why_not(again)
    it.run(120)
    assert sum(it.shares()) == 16


def test_p11_a_member_that_gave_everything_up_leaves_nothing_to_go_on_with() -> None:
    it = ring("a", "b", confirms_after=math.inf)
    it.members["a"].set_intent(Intent.HOLD)
    it.run(TIMING.renew_interval + 0.5)
    assert it.server.leases[it.members["a"].lease].annotation(ANSWERS_AT_ANNOTATION) is None
    again = crash(it, "a")
    it.run(0.5)
    assert again.election.election.went_on_by is None
    assert takes_all(it, "b")


@pytest.mark.parametrize("resumed", [None, "1700000000.000"])
def test_p3_a_late_renewal_with_the_same_stamp_is_no_write_of_the_new_process(
    resumed: str | None,
) -> None:
    """The dead one counted on from the same record: both ask for one whole second later."""
    it = ring("a", "b")
    lease = it.members["a"].lease
    it.members["a"].kill()
    again = it.restart("a")
    sent: list[WriteLease] = []
    again._write_own = sent.append  # type: ignore[assignment,method-assign]
    it.run(0.5)
    [write, *_] = sent
    assert write.goes_on_as == it.members["a"].identity

    def renew(raw: dict[str, Any]) -> None:
        raw["spec"] = write.body["spec"]
        annotations = write.body["metadata"]["annotations"] | {RESUMED_ANNOTATION: resumed}
        raw["metadata"]["annotations"] = {k: v for k, v in annotations.items() if v}

    it.server.edit(lease, renew)
    it.run(0.5)
    assert again.election.election.went_on_by is None
    assert again.election.election.identity == again.identity


def test_an_elector_with_another_number_of_shards_does_not_go_on() -> None:
    it = ring("a", "b")
    other = Succession(32, it.members["b"].election.table)
    record = it.server.leases[it.members["a"].lease]
    assert "had --shards 16" in other.why_not(record)
