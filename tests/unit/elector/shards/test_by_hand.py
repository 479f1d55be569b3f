"""S1-S6 in single schedules in virtual time: what somebody does by hand to the table and to Leases
of members, servers that refuse, crash loops. The mutants at the end break one rule each, and fail.
"""

import copy
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import HOLDER_ANNOTATION
from elector_sidecar.core.lease_writes import Purpose, WriteLease
from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION
from elector_sidecar.shards.members.membership import Membership
from elector_sidecar.shards.members.succession import Succession
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import (
    TABLE_ANNOTATION,
    _digest,
    _text,
    decode,
)
from tests.examples import PROFILE
from tests.unit.elector.core.clientgo import ClientGo
from tests.unit.elector.core.world import Clock, Link, Trouble
from tests.unit.elector.shards import mutants
from tests.unit.elector.shards.leases import Answer, TableServer
from tests.unit.elector.shards.member import TABLE, Process
from tests.unit.elector.shards.ring import SETTLE, SHARDS, TIMING, Make, Ring, cut


@pytest.fixture
def make() -> Make:
    return ShardElection


@pytest.mark.parametrize("sequence", [2**53 - 1, 2**53, 2**63 - 1])
def test_s2_a_sequence_near_its_end_is_written_over(sequence: int, make: Make) -> None:
    """Also with the digest that belongs to it: no member ends, and none moves anything."""
    ring = Ring(make, "x", "y", "z")
    ring.run(40)
    content = json.loads(ring.text()) | {"sequence": sequence, "restored": sequence}
    del content["digest"]
    ring.put(_text(content | {"digest": _digest(content)}))
    ring.run(3)
    assert ring.shares() == [5, 5, 6]
    assert decode(ring.text())[0].sequence < 1000


@pytest.mark.parametrize("seconds", [8.0, 60.0])
def test_s1_an_old_table_is_put_back(seconds: float, make: Make) -> None:
    ring = Ring(make, "x", "y", "z")
    ring.run(40)
    old = ring.text()
    ring.members["z"].silence_watch()
    ring.members["x"].leave()
    ring.run(1.6)
    assert len(ring.members["y"].owned()) == 11, "it took what x left; z did not see that"
    cut(ring.members["y"], seconds)
    ring.put(old)
    ring.run(seconds + 40)
    assert ring.shares()[-2:] == [8, 8]


def test_s1_two_who_know_different_pasts_agree_on_one(make: Make) -> None:
    ring = Ring(make, "x", "y", "z")
    ring.run(40)
    ring.members["z"].silence_watch()
    ring.members["x"].leave()
    while len(ring.members["y"].owned()) < 6:
        ring.run(0.005)
    cut(ring.members["y"], 2.4)
    ring.put("{}")
    ring.run(60)
    assert ring.shares()[-2:] == [8, 8]
    text = ring.text()
    ring.run(60)
    assert ring.text() == text


def test_s1_a_members_lease_is_put_back_to_its_holder_before(make: Make) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    ring.members["a"].leave()
    ring.run(5)
    second = ring.start("a2", pod="a")
    ring.run(20)
    old = copy.deepcopy(dict(ring.server.leases[second.lease].raw))
    second.kill()
    third = ring.start("a3", pod="a")
    ring.run(60)
    cut(third, 60.0)

    def restore(raw: dict[str, Any]) -> None:
        raw["spec"] = old["spec"]
        raw["metadata"]["annotations"] = old["metadata"]["annotations"]

    ring.server.edit(third.lease, restore)
    ring.run(55)
    assert ring.shares() == [0, 16], "the third one was waited out"


def test_s2_owners_whose_leases_went_with_their_pods_before_anybody_saw_them(
    make: Make,
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    for member in list(ring.members.values()):
        member.kill()
        ring.server.delete(member.lease)
    ring.start("c")
    ring.start("d")
    ring.run(TIMING.lease_duration + 5.0)
    assert ring.shares() == [8, 8]


@pytest.mark.parametrize("status", [404, 409])
def test_s2_the_create_of_a_deleted_table_is_refused_once(status: int, make: Make) -> None:
    ring = Ring(make, "a")
    ring.run(60)
    post = ring.server.post
    refused: list[Any] = []

    def refuse_once(body: dict[str, Any]) -> Answer:
        if body["metadata"]["name"] == TABLE and not refused:
            refused.append(body)
            return Answer(status)
        return post(body)

    ring.server.post = refuse_once  # type: ignore[method-assign]
    ring.server.delete(TABLE)
    ring.run(10)
    assert refused
    assert ring.shares() == [SHARDS]


def test_s4_nothing_is_given_up_for_a_member_that_does_not_take(make: Make) -> None:
    ring = Ring(make, "x", "y", "z")
    ring.run(60)
    ring.members["z"].freeze(13)
    ring.run(0.1)
    ring.members["x"].leave()
    ring.run(12)
    ownership = ring.members["y"].election.ownership
    assert ownership.hand_overs == 0
    assert len(ownership.shards) == 11, "what z did not take, y took once"
    ring.run(5)
    assert ring.shares()[-2:] == [8, 8]


def _everywhere(status: int) -> Callable[..., Answer]:
    return lambda *_: Answer(status)


@pytest.mark.parametrize(
    ("what", "most"),
    [("put 403", 45), ("put 409", 45), ("list 403", 60), ("get 403", 45), ("no watch", 60)],
)
def test_a_server_that_refuses_at_once_is_asked_ever_more_seldom(
    what: str, most: int, make: Make
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(40)
    server, (verb, _, status) = ring.server, what.partition(" ")
    put = server.put
    if verb == "put":
        server.put = lambda body: (  # type: ignore[method-assign]
            Answer(int(status)) if body["metadata"]["name"] == TABLE else put(body)
        )
    elif verb == "no":
        for member in ring.living:
            member.link.trouble(Trouble.NO_WATCH, lasting=999.0, amount=0.0)
    else:
        setattr(server, verb, _everywhere(int(status)))
    for member in ring.living:
        member.end_watch()
    ring.members["b"].leave()
    ring.run(10)
    assert ring.requests(60, ring.members["a"]) <= most, "30 of them are its own renewals"


def test_a_writer_that_edits_the_table_again_at_once_costs_few_requests_and_no_shard(
    make: Make,
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    before = {it.identity: it.owned() for it in ring.living}

    def revert(change: Any) -> None:
        if change.name == TABLE and change.lease is not None and ring.text() != "{}":
            ring.world.after(0.01, lambda: ring.put("{}"))

    ring.server.on_change.append(revert)
    ring.put("{}")
    spent = ring.requests(60, ring.members["a"])
    assert spent <= 90, "30 of them are its own renewals"
    assert {it.identity: it.owned() for it in ring.living} == before


def test_s1_an_owner_is_cut_for_as_long_as_its_lease_lasts(make: Make) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    cut(ring.members["a"], 60.0)
    ring.run(TIMING.lease_duration + 3.0)
    assert ring.shares() == [0, SHARDS]
    ring.run(60)
    assert ring.shares() == [8, 8]


def test_s2_a_member_that_lost_its_lease_for_a_while_owns_again(
    make: Make,
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    ring.members["a"].freeze(TIMING.lease_duration - 1.0)
    ring.run(60)
    assert ring.shares() == [8, 8]


def test_s4_a_member_that_comes_and_goes_moves_nothing_between_the_others(
    make: Make,
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    before = {it.identity: it.owned() for it in ring.living}
    for number in range(10):
        flapping = ring.start(f"c{number}", pod="c")
        ring.run(0.9 * SETTLE)
        flapping.leave()
        ring.run(3.5)
        assert {it.identity: it.owned() for it in ring.living if it.owned()} == before


def test_s6_a_main_that_does_not_confirm_keeps_its_shards_until_what_it_was_told_is_over(
    make: Make,
) -> None:
    ring = Ring(make, "a", "b", confirms_after=math.inf)
    ring.run(30)
    ring.start("c")
    ring.run(SETTLE + 2.0)
    assert ring.shares() == [0, 5, 6], "given up, and not yet free"
    ring.run(TIMING.lease_duration)
    assert ring.shares() == [5, 5, 6]


def _released(ring: Ring, lease: str) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["spec"]["holderIdentity"] = ""
        raw["metadata"]["annotations"].pop(HOLDER_ANNOTATION, None)

    ring.server.edit(lease, change)


def _unlabelled(ring: Ring, lease: str) -> None:
    ring.server.edit(lease, lambda raw: raw["metadata"].update(labels={}))


@pytest.mark.parametrize(
    "hide",
    [_released, _unlabelled, lambda ring, lease: ring.server.delete(lease)],
    ids=["released", "unlabelled", "deleted"],
)
def test_s1_the_first_table_is_put_back_while_its_only_owner_is_out_of_sight(
    hide: Callable[[Ring, str], None], make: Make
) -> None:
    ring = Ring(make)
    owner = ring.start("a")
    while TABLE_ANNOTATION not in ring.annotations():
        ring.run(0.001)
    first = ring.text()
    ring.run(30)
    assert ring.shares() == [SHARDS]
    cut(owner, 60.0)
    ring.put(first)
    hide(ring, owner.lease)
    ring.start("c")
    ring.run(40)
    assert ring.shares() == [0, SHARDS]


@pytest.mark.parametrize("is_owner_alive", [False, True])
def test_s2_a_table_that_was_blanked_is_not_waited_out_for_as_long_as_it_says(
    make: Make, *, is_owner_alive: bool
) -> None:
    """Nobody who knows the table writes it back: ten years is the table's duration, not a
    leader's. An owner that is only cut off keeps its shards until its own validity ends (S1)."""
    ring = Ring(make)
    owner = ring.start("a")
    ring.run(30)
    assert ring.shares() == [SHARDS]
    if is_owner_alive:
        cut(owner, 60.0)
    else:
        owner.kill()
    ring.server.edit(TABLE, lambda raw: raw["spec"].update(holderIdentity=""))
    ring.start("b")
    ring.run(50)
    assert ring.shares()[-1] == SHARDS
    assert len(ring.members["b"].owned()) == SHARDS


def test_s2_what_three_members_give_up_is_taken_in_time_and_in_few_writes(make: Make) -> None:
    ring = Ring(make, "x", "y", "z", shards=64)
    ring.run(40)
    before = json.loads(ring.text())["sequence"]
    ring.start("w")
    unowned: list[float] = []
    for process in ring.members.values():
        process.on_step.append(
            lambda _: unowned.append(ring.world.time) if sum(ring.shares()) < 64 else None
        )
    ring.run(5)
    assert ring.shares() == [16, 16, 16, 16]
    assert max(unowned) - min(unowned) <= 0.3
    # Each of the three gives up its own in one write, and the newcomer takes all in one.
    assert json.loads(ring.text())["sequence"] - before == 4


def test_s2_what_a_member_leaves_in_order_is_taken_at_once_at_any_time(make: Make) -> None:
    for phase in range(8):
        ring = Ring(make, "x", "y", "z")
        ring.run(40 + 0.27 * phase)
        ring.members["x"].leave()
        ring.run(0.3)
        assert ring.shares()[-2:] == [8, 8]


def test_s2_a_lease_that_cannot_be_emptied_keeps_only_its_own_shards_back(make: Make) -> None:
    ring = Ring(make, "x", "y", "z")
    ring.run(40)
    dead, put = ring.members["x"], ring.server.put
    ring.server.put = lambda body: (  # type: ignore[method-assign]
        Answer(403) if body["metadata"]["name"] == dead.lease else put(body)
    )
    kept = len(dead.owned())
    dead.kill()
    ring.run(25)
    ring.members["y"].leave()
    ring.run(5)
    assert ring.shares()[-1:] == [SHARDS - kept]


@pytest.mark.parametrize("what", ["table", "member"])
def test_s2_a_labelled_copy_under_another_name_delays_and_does_not_stop(
    what: str, make: Make
) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    raw = copy.deepcopy(
        dict(ring.server.leases[TABLE if what == "table" else ring.members["a"].lease].raw)
    )
    raw["spec"]["leaseDurationSeconds"] = 86400
    kept = {key: raw["metadata"][key] for key in ("namespace", "labels", "annotations")}
    ring.server.post({"metadata": kept | {"name": f"{TABLE}-backup"}, "spec": raw["spec"]})
    ring.start("c")
    ring.run(2 * TIMING.lease_duration + 5)
    assert ring.shares() == [5, 5, 6]


def test_s3_a_lease_that_a_killed_member_left_delays_no_newcomer(make: Make) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    unsettled = ring.start("c")
    ring.run(0.5)
    unsettled.kill()
    ring.run(TIMING.lease_duration + 2)
    ring.start("d")
    ring.run(SETTLE + 1)
    assert ring.shares() == [5, 5, 6]


def test_s6_a_lease_that_is_stolen_and_let_go_while_the_main_works(make: Make) -> None:
    ring = Ring(make, "a", "b", confirms_after=math.inf)
    ring.run(40)
    lease = ring.members["a"].lease
    ring.server.edit(lease, lambda raw: raw["spec"].update(holderIdentity="bogus"))
    ring.run(0.2)
    ring.server.edit(lease, lambda raw: raw["spec"].update(holderIdentity=""))
    ring.run(2 * TIMING.lease_duration)
    assert ring.shares() == [8, 8]


def test_s6_a_member_that_backs_off_twice_while_its_main_works(make: Make) -> None:
    """A main that flaps, with a short backoff: the second pause is not taken for the first one's
    end, though a term was begun between them."""
    ring = Ring(make, "x", "y", confirms_after=math.inf)
    ring.run(40)
    flapping = ring.members["x"]
    for _ in range(3):
        flapping.set_intent(Intent.ABSTAIN)
        ring.run(0.7)
        flapping.set_intent(Intent.CONTEND)
        ring.run(1.1)
    ring.run(60)
    assert ring.shares() == [8, 8]


def test_a_note_that_a_webhook_takes_off_is_not_written_without_end(make: Make) -> None:
    ring = Ring(make, "a", "b")
    ring.run(30)
    member, put = ring.members["a"], ring.server.put

    def strip(body: dict[str, Any]) -> Answer:
        if body["metadata"]["name"] == member.lease:
            body["metadata"]["annotations"].pop(MEMBER_ANNOTATION, None)
        return put(body)

    ring.server.put = strip  # type: ignore[method-assign]
    ring.run(60)
    assert ring.requests(60, member) <= 45, "30 of them are its own renewals"


def _handed_over(ring: Ring, owner: Process) -> None:
    ring.start("newcomer")


@pytest.mark.parametrize(
    "happens",
    [
        lambda ring, owner: owner.kill(),
        lambda ring, owner: owner.freeze(60.0),
        lambda ring, owner: cut(owner, 60.0),
        lambda ring, owner: owner.leave(),
        _handed_over,
    ],
    ids=["killed", "frozen", "cut", "leaves", "handed over"],
)
@pytest.mark.parametrize(
    "timing", [TIMING, Timing(60.0, 20.0, 5.0), Timing(4.0, 1.0, 1.5)], ids=["15s", "60s", "4s"]
)
@pytest.mark.parametrize("is_owner_old", [False, True], ids=["all renew", "its owner is of 0.2"])
def test_s1_the_table_is_renewed_whatever_happens_to_the_owner_of_shard_0(
    happens: Callable[[Ring, Process], None], timing: Timing, make: Make, *, is_owner_old: bool
) -> None:
    """client-go up to 0.26 takes what nobody renewed for its own duration, which is 15 s by default
    and may be as short as the shortest --lease-duration here."""
    ring = Ring(mutants.NeverRenews if is_owner_old else make, "a", timing=timing)
    ring.run(timing.lease_duration)
    assert 0 in ring.members["a"].owned()
    ring.make = make
    ring.start("b")
    ring.run(timing.lease_duration + 20)
    assert 0 in ring.members["a"].owned()
    renewed_at: list[float] = [ring.world.time]
    ring.server.on_change.append(
        lambda change: renewed_at.append(ring.world.time) if change.name == TABLE else None
    )
    happens(ring, ring.members["a"])
    ring.run(timing.lease_duration + 10)
    renewed_at.append(ring.world.time)
    gaps = [after - before for before, after in itertools.pairwise(renewed_at)]
    assert max(gaps) < min(timing.lease_duration, 4.0)


@pytest.mark.parametrize("is_old", [False, True], ids=["0.36", "0.26"])
def test_s1_who_took_the_table_by_the_rules_leads_until_its_lease_ends(
    make: Make, *, is_old: bool
) -> None:
    """All members were gone, or could not renew; those that come back wait for it."""
    ring = Ring(make, "a", "b")
    ring.run(30)
    for member in ring.living:
        member.kill()
    ring.world.server = TableServer(ring.server, TABLE)
    clock = Clock(ring.world, 1.0, 0.0, 1.7e9)
    peer = ClientGo(
        ring.world, clock, Link(ring.world), identity="old", lease_duration=15, is_old=is_old
    )
    ring.run(20)
    assert peer.is_leading == is_old, "later ones go by the ten years of the record"
    member = ring.start("c")
    member.on_step.append(lambda _: _assert_alone(ring, peer))
    ring.run(60)
    assert peer.is_leading == is_old
    peer.kill()
    ring.run(1.2 * TIMING.lease_duration + 20)
    assert ring.shares() == [SHARDS]


def test_s1_no_owner_works_when_client_go_takes_what_no_member_could_renew(make: Make) -> None:
    """Owners whose own Leases were renewed later than the table end before it is taken."""
    ring = Ring(make, "a", "b")
    ring.run(30)
    ring.world.server = TableServer(ring.server, TABLE)
    clock, link = Clock(ring.world, 1.0, 0.0, 1.7e9), Link(ring.world)
    peer = ClientGo(ring.world, clock, link, identity="old", lease_duration=15, is_old=True)
    peer.retry_period = 0.05  # the soonest that its rules allow
    peer.on_leading.append(partial(_assert_alone, ring))
    written_at: dict[str, float] = {TABLE: 30.0}
    ring.server.on_change.append(lambda change: written_at.update({change.name: ring.world.time}))
    ring.run(8)
    # The two drift against each other.
    while not written_at[TABLE] + 1.2 < max(written_at.values()) < ring.world.time - 0.1:
        ring.run(0.05)
    for member in ring.living:
        cut(member, 60.0)
    ring.run(30)
    assert peer.is_leading


def _assert_alone(ring: Ring, peer: ClientGo) -> None:
    assert not (peer.is_leading and any(it.owned() for it in ring.living))


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param(0, id="older versions"),
        pytest.param(10_000, id="newer versions", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "age", [30.0, pytest.param(600.0, marks=[pytest.mark.long, pytest.mark.slow])]
)
@pytest.mark.parametrize("changes", ["nothing", "one joined", "one left"])
def test_s1_and_s2_members_go_by_a_history_that_was_restored(
    writes: int, age: float, changes: str, make: Make
) -> None:
    ring = Ring(make, "a", "b", "c", "d", "e")
    ring.run(40)
    backup = ring.server.back_up()
    if changes == "one joined":
        ring.start("f")
    elif changes == "one left":
        ring.members["a"].leave()
    ring.run(age)
    ring.server.restore(backup, writes=writes)
    for member in ring.living:
        member.end_watch()
    ring.run(TIMING.lease_duration + 5.0)
    assert sum(ring.shares()) == SHARDS
    assert {it.election.reason(it.clock.now()) for it in ring.living} == {""}
    ring.run(30)
    staying = [len(it.owned()) for it in ring.living]
    assert max(staying) - min(staying) <= 1


def test_a_lease_that_a_pod_of_the_same_name_left_goes_with_the_new_pod(make: Make) -> None:
    ring = Ring(make, "a")
    ring.run(30)
    lease = ring.members["a"].lease
    stored = [{"kind": "Pod", "name": "a", "uid": "gone"}, {"kind": "Deployment", "uid": "kept"}]
    body: dict[str, Any] = {"metadata": {"name": lease, "ownerReferences": stored}, "spec": {}}
    member = ring.members["a"].election
    own = replace(member.membership._member, pod={"kind": "Pod", "name": "a", "uid": "new"})
    write = WriteLease(1, Purpose.ACQUIRE_OR_RENEW, body, "stamp", 0.0, 1, creates=False)
    succession = Succession(SHARDS, member.table)
    Membership(own, member.election, succession).dress(write, 0.0, member.table)
    references = body["metadata"]["ownerReferences"]
    assert [it["uid"] for it in references] == ["kept", "new"]


# A nightly run counts the promised 50 members too, which takes two minutes.
CROWDS = [
    pytest.param(3, 64, Timing(15.0, 2.0, 3.0)),
    pytest.param(12, 64, Timing(15.0, 2.0, 3.0), marks=pytest.mark.slow),
]
if PROFILE == "nightly":
    CROWDS.append(pytest.param(50, 256, Timing(30.0, 5.0, 3.0)))


@pytest.mark.parametrize(("count", "shards", "timing"), CROWDS)
def test_s5_rest_costs_renewals_and_a_death_two_requests_for_each_shard_that_moves(
    count: int, shards: int, timing: Timing, make: Make
) -> None:
    ring = Ring(make, *(f"pod-{n}" for n in range(count)), shards=shards, timing=timing)
    ring.run(30)
    dying = ring.members["pod-1"]
    renewals = 60 / timing.renew_interval
    for member in ring.living:
        assert member.requests - member.table_renewals <= renewals + 25, "to start, and its share"
    of_table = sum(it.table_renewals for it in ring.living)
    assert ring.requests(60, dying) <= renewals + 1
    of_table = sum(it.table_renewals for it in ring.living) - of_table
    assert of_table <= 60 / min(timing.renew_interval, 2.0), "one member does it for all"
    moved = len(dying.owned())
    dying.kill()
    before = [_moves(it) for it in ring.living]
    ring.run(timing.lease_duration + 8.0)
    assert sum(ring.shares()) == shards
    spent = sum(_moves(it) for it in ring.living) - sum(before)
    assert spent <= 2 * moved + count


def _moves(member: Process) -> int:
    """Requests that are no renewals."""
    return member.requests - member.renewals - member.table_renewals


@pytest.mark.parametrize(
    ("mutant", "schedule"),
    [
        (mutants.TakesUnconfirmed, lambda make: test_s1_an_old_table_is_put_back(8.0, make)),
        (mutants.BelievesHandEdits, lambda make: test_s1_an_old_table_is_put_back(8.0, make)),
        (mutants.BelievesCopiesOfLeases, test_s1_a_members_lease_is_put_back_to_its_holder_before),
        (
            mutants.NeverRenews,
            lambda make: test_s1_the_table_is_renewed_whatever_happens_to_the_owner_of_shard_0(
                lambda ring, owner: owner.kill(), TIMING, make, is_owner_old=False
            ),
        ),
        (
            mutants.OwnsByItsOwnLeaseAlone,
            test_s1_no_owner_works_when_client_go_takes_what_no_member_could_renew,
        ),
        (mutants.TakesEarly, test_s1_an_owner_is_cut_for_as_long_as_its_lease_lasts),
        (mutants.NamesOnlyIdentities, test_s2_a_member_that_lost_its_lease_for_a_while_owns_again),
        (
            mutants.NeverSettles,
            test_s4_a_member_that_comes_and_goes_moves_nothing_between_the_others,
        ),
        (
            mutants.HandsOverUnconfirmed,
            test_s6_a_main_that_does_not_confirm_keeps_its_shards_until_what_it_was_told_is_over,
        ),
    ],
)
def test_a_member_that_breaks_a_rule_is_found(
    mutant: Make, schedule: Callable[[Make], None]
) -> None:
    with pytest.raises(AssertionError):
        schedule(mutant)
