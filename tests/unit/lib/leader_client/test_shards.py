"""Which shards are owned, when the main hears of a loss, and what is confirmed when."""

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.leader_client import Shard, ShardsDocument, shard_of
from edge_sidecars.leader_client.proof import NotAnElectorDocument
from edge_sidecars.leader_client.shards import ShardClaims
from tests.examples import play

SHARDS = 16


def document(
    owned: Mapping[int, str], *, handing_over: Mapping[int, str] | None = None, until: float = 10.0
) -> ShardsDocument:
    """Valid until `until`, by both bounds where it is heard at 0."""
    return ShardsDocument(
        shards=SHARDS,
        owned=tuple(Shard(number, SHARDS, token) for number, token in owned.items()),
        handing_over=tuple(
            Shard(number, SHARDS, token) for number, token in (handing_over or {}).items()
        ),
        selector="shardRange(object.metadata.uid,'0x0','0x1')" if owned else None,
        remaining=until,
        valid_until=until,
        identity="pod_1",
        members=(),
        unowned=0,
        reason="",
    )


def claims(first: ShardsDocument) -> ShardClaims:
    it = ShardClaims()
    it.proof.asked(0.0)
    it.heard(first, 0.0)
    return it


def uid_in(shard: int) -> str:
    uids = (str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(1000))
    return next(uid for uid in uids if shard_of(uid, SHARDS) == shard)


def numbers(shards: tuple[Shard, ...]) -> list[int]:
    return sorted(it.number for it in shards)


def test_nothing_is_owned_before_a_document_nor_after_its_deadline() -> None:
    it = ShardClaims()
    assert not it.owned(0.0)
    it = claims(document({1: "7"}))
    assert numbers(tuple(it.owned(9.9).values())) == [1]
    assert not it.owned(10.0)
    uid = uid_in(1)
    assert it.owner_of(uid, 9.9) == Shard(1, SHARDS, "7")
    assert it.owner_of(uid, 10.0) is None


def test_what_a_frozen_process_reads_late_proves_nothing() -> None:
    it = claims(document({1: "7"}))
    it.heard(document({1: "7"}, until=11.0), 60.0)
    assert not it.owned(60.0)


def test_an_expiry_is_a_loss_and_what_is_proven_again_a_gain() -> None:
    it = claims(document({1: "7"}))
    assert numbers(it.changes(0.0).gained) == [1]
    lost = it.changes(10.0).lost
    assert numbers(lost) == [1]
    # The main still stops to work on it.
    it.proof.asked(10.5)
    it.heard(document({1: "7"}, until=20.0), 11.0)
    assert not it.owned(11.0)
    assert it.changes(11.0).gained == ()
    it.stopped(lost)
    assert numbers(it.changes(11.0).gained) == [1]
    assert numbers(tuple(it.owned(11.0).values())) == [1]


def test_another_fencing_token_is_a_loss_and_a_gain() -> None:
    it = claims(document({1: "7"}))
    it.changes(0.0)
    it.heard(document({1: "8"}), 1.0)
    changes = it.changes(1.0)
    assert (numbers(changes.lost), changes.gained) == ([1], ())
    assert not it.owned(1.0)
    it.stopped(changes.lost)
    assert it.changes(1.0).gained == (Shard(1, SHARDS, "8"),)


def test_a_hand_over_is_confirmed_once_and_only_when_the_work_has_ended() -> None:
    it = claims(document({1: "7", 2: "7"}))
    it.changes(0.0)
    it.heard(document({1: "7"}, handing_over={2: "7"}), 1.0)
    lost = it.changes(1.0).lost
    assert numbers(lost) == [2]
    assert it.to_confirm() == ()
    it.stopped(lost)
    assert it.to_confirm() == (Shard(2, SHARDS, "7"),)
    assert it.to_confirm() == ()
    it.unconfirmed(Shard(2, SHARDS, "7"))
    assert it.to_confirm() == (Shard(2, SHARDS, "7"),)


def test_a_hand_over_of_what_was_never_worked_on_is_confirmed_at_once() -> None:
    it = claims(document({}, handing_over={3: "9"}))
    assert it.changes(0.0).lost == ()
    assert it.to_confirm() == (Shard(3, SHARDS, "9"),)


def test_after_resigning_nothing_is_begun_and_everything_is_stopped() -> None:
    it = claims(document({1: "7", 2: "7"}))
    it.changes(0.0)
    idle = [it.is_idle]
    changes = it.changes(1.0, has_resigned=True)
    assert (numbers(changes.lost), changes.gained) == ([1, 2], ())
    idle.append(it.is_idle)
    it.stopped(changes.lost)
    assert [*idle, it.is_idle] == [False, False, True]
    assert it.changes(2.0, has_resigned=True).gained == ()


OWNED = st.dictionaries(st.integers(0, 3), st.sampled_from(["1", "2"]), max_size=4)


@play(100)
@given(steps=st.lists(st.tuples(OWNED, OWNED, st.booleans(), st.booleans()), max_size=20))
def test_what_the_main_works_on_is_what_it_was_told(
    steps: list[tuple[dict[int, str], dict[int, str], bool, bool]],
) -> None:
    """It is told of a loss of exactly what it was given, and confirms nothing that it works on."""
    it = claims(document({}))
    held: dict[int, Shard] = {}
    stopping: list[Shard] = []
    for now, (owned, handing_over, is_expired, stops) in enumerate(steps):
        handed = {n: token for n, token in handing_over.items() if n not in owned}
        it.proof.asked(now)
        it.heard(document(owned, handing_over=handed, until=now + 0.5), now)
        at = now + 0.6 if is_expired else now + 0.1
        changes = it.changes(at)
        for shard in changes.lost:
            assert held.pop(shard.number) == shard
            stopping.append(shard)
        assert not {shard.number for shard in stopping} & set(it.owned(at))
        for shard in changes.gained:
            assert shard.number not in held
            held[shard.number] = shard
        assert held == it.owned(at)
        confirmed = {shard.number for shard in it.to_confirm()}
        assert not confirmed & (held.keys() | {shard.number for shard in stopping})
        assert it.is_idle is not bool(held or stopping)
        if stops:
            it.stopped(stopping)
            stopping = []


def entry(number: int, **changed: object) -> dict[str, object]:
    bounds = [f"0x{bound:016x}" for bound in Shard(number, SHARDS, "1").range]
    return {"shard": number, "range": bounds, "fencingToken": "1", "ownedSeconds": 1.5} | changed


READ: dict[str, object] = {
    "shards": SHARDS,
    "owned": [entry(3), entry(15)],
    "handingOver": [entry(4)],
    "selector": "shardRange(object.metadata.uid,'0x3000000000000000','0x4000000000000000')",
    "validUntil": 512.5,
    "remainingSeconds": 12.25,
    "identity": "pod-1_0af3",
    "members": [{"identity": "pod-1_0af3", "pod": "pod-1", "owned": 3, "settled": True}],
    "unowned": 2,
    "reason": "owns 2 of 16 shards",
}


def test_an_electors_document_is_read() -> None:
    document = ShardsDocument.parse(READ)
    assert numbers(document.owned) == [3, 15]
    assert document.owned[1].range[1] == 1 << 64
    assert numbers(document.handing_over) == [4]
    assert (document.remaining, document.valid_until, document.unowned) == (12.25, 512.5, 2)
    [member] = document.members
    assert (member.pod, member.owned, member.is_settled) == ("pod-1", 3, True)
    pending = READ | {"owned": [], "selector": None, "validUntil": None, "remainingSeconds": 0}
    assert replace(ShardsDocument.parse(pending), handing_over=()).owned == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"shards": None},
        {"shards": True},
        {"shards": 1},
        {"shards": 257},
        {"owned": None},
        {"owned": [3]},
        {"owned": [entry(3, shard=16)]},
        {"owned": [entry(3, shard="3")]},
        {"owned": [entry(3, fencingToken=None)]},
        {"owned": [entry(3, fencingToken="")]},
        {"owned": [entry(3, range=["0x3000000000000000", "0x3fffffffffffffff"])]},
        {"handingOver": "none"},
        {"members": {}},
        {"remainingSeconds": None},
        {"remainingSeconds": -1},
    ],
)
def test_what_is_no_document_of_an_elector_proves_nothing(wrong: dict[str, object]) -> None:
    with pytest.raises(NotAnElectorDocument):
        ShardsDocument.parse(READ | wrong)
