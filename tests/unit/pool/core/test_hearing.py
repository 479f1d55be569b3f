"""Whom a member has heard, over its restarts and those of its node."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_sidecar.core.hearing import Hearing, decode, encode, identity_of
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Peer
from pool_sidecar.core.peers import HEARD_VALID, Peers, Sign
from pool_sidecar.core.pool_member import MAX_MEMBERS, Link, Verdict

PEER = Peer("n1", ("10.0.0.1",), (b"n1",))
BOOT, NEXT_BOOT = "boot-1", "boot-2"


def member_that_heard(at: float) -> Peers:
    peers = Peers()
    peers.follow({"n1": PEER})
    peers.answered("n1", LanState("n1", "1", Link.OWN, True), at)
    return peers


def started_again(before: Peers, *, at: float, now: float, boot_id: str = BOOT) -> Peers:
    """`at`: when the one before wrote."""
    text = encode(before.hearing(at), now=at, boot_id=BOOT)
    peers = Peers()
    peers.restore(decode(text, now=now, boot_id=boot_id))
    return peers


def silent(peers: Peers, now: float) -> float:
    for _ in range(3):
        now += 2.0
        peers.failed("n1", Sign.NONE, now)
    return now


@pytest.mark.parametrize(
    ("now", "boot_id", "heard_ago"),
    [(1500.0, BOOT, 500.0), (70.0, NEXT_BOOT, 70.0 + 100.0)],
    ids=["the process", "the node"],
)
def test_who_was_heard_before_a_start_is_silent_and_not_never_heard(
    now: float, boot_id: str, heard_ago: float
) -> None:
    peers = started_again(member_that_heard(1000.0), at=1100.0, now=now, boot_id=boot_id)
    # The directory comes in parts.
    peers.follow({})
    peers.follow({"n1": PEER})
    end = silent(peers, now)
    (standing,) = peers.testimony(end).values()
    assert standing.verdict is Verdict.SILENT
    assert standing.since == end
    assert standing.heard_at == pytest.approx(now - heard_ago)


@pytest.mark.parametrize(
    "other", [replace(PEER, addresses=("10.0.0.9",)), replace(PEER, certificates=(b"other",))]
)
def test_at_another_address_or_with_another_certificate_it_was_not_heard(other: Peer) -> None:
    peers = started_again(member_that_heard(1000.0), at=1100.0, now=1200.0)
    peers.follow({"n1": other})
    end = silent(peers, 1200.0)
    assert peers.testimony(end)["n1"].verdict is Verdict.NEVER_HEARD


def test_who_was_heard_more_than_a_day_of_running_ago_was_not_heard() -> None:
    peers = started_again(
        member_that_heard(1000.0), at=1000.0 + HEARD_VALID, now=1.0, boot_id=NEXT_BOOT
    )
    peers.follow({"n1": PEER})
    assert peers.testimony(silent(peers, 1.0))["n1"].verdict is Verdict.NEVER_HEARD


def test_nodes_that_are_replaced_within_a_day_cost_no_other_one_its_hearing() -> None:
    """Of a full pool, 40 nodes are made anew under other names while the member starts again."""

    def directory(*numbers: int) -> dict[str, Peer]:
        found = (replace(PEER, name=f"n{it}", certificates=(b"%d" % it,)) for it in numbers)
        return {it.name: it for it in found}

    peers, now = Peers(), 1000.0
    for first in range(1, 121, 40):
        found = directory(*range(first, first + MAX_MEMBERS - 1))
        peers.follow(found)
        for name in found:
            peers.answered(name, LanState(name, "1", Link.OWN, True), now)
        peers, now = started_again(peers, at=now + 60.0, now=now + 120.0), now + 120.0
    peers.follow(found)
    assert peers.hearing(now).keys() == found.keys()


def test_once_it_is_heard_again_nothing_of_before_is_told() -> None:
    peers = started_again(member_that_heard(1000.0), at=1100.0, now=1200.0)
    peers.follow({"n1": PEER})
    peers.answered("n1", LanState("n1", "2", Link.OWN, True), 1201.0)
    assert peers.testimony(silent(peers, 1201.0))["n1"].heard_at is None


def test_a_second_start_before_the_directory_is_known_loses_nothing() -> None:
    once = started_again(member_that_heard(1000.0), at=1100.0, now=1200.0)
    twice = started_again(once, at=1210.0, now=1300.0)
    twice.follow({"n1": PEER})
    assert twice.testimony(silent(twice, 1300.0))["n1"].verdict is Verdict.SILENT


HAS_LINK, HAS_NONE = (LanState("n1", "1", link, True) for link in (Link.OWN, Link.NONE))


def news(peers: Peers, state: LanState, begin: int, end: int) -> list[int]:
    """The rounds whose answer is news."""
    told = []
    for now in range(begin, end, 2):
        before = peers.news
        peers.answered("n1", state, now)
        told += [now] if peers.news > before else []
    return told


def rounds(begin: int, end: int) -> list[int]:
    return list(range(begin, end, 2))


def test_while_the_api_may_make_a_peer_ready_again_each_answer_is_news() -> None:
    peers = member_that_heard(1000.0)
    assert news(peers, HAS_LINK, 1002, 1100) == rounds(1002, 1060)
    assert news(peers, HAS_NONE, 1100, 1106) == []
    assert news(peers, HAS_LINK, 1106, 1120) == []
    assert news(peers, HAS_NONE, 1120, 1130) == []
    assert news(peers, HAS_LINK, 1130, 1200) == rounds(1130, 1190)
    silent(peers, 1200.0)
    assert news(peers, HAS_LINK, 1210, 1300) == rounds(1210, 1270)


def test_a_peer_that_is_heard_again_is_news_once_whatever_its_link() -> None:
    peers = member_that_heard(1000.0)
    news(peers, HAS_LINK, 1002, 1080)
    assert news(peers, HAS_NONE, 1080, 1090) == []
    assert news(peers, HAS_NONE, 1100, 1120) == [1100]


def test_each_answer_is_news_after_the_api_heard_a_peer_again() -> None:
    peers = member_that_heard(1000.0)
    news(peers, HAS_LINK, 1002, 1080)
    peers.follow({"n1": replace(PEER, is_lost=True)})
    assert news(peers, HAS_LINK, 1080, 1090) == []
    peers.follow({"n1": PEER})
    assert news(peers, HAS_LINK, 1090, 1200) == rounds(1090, 1150)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"at": "1"},
        {"at": float("nan")},
        {"at": 9000},
        {"heard": []},
        {"heard": {str(n): {"identity": "x", "ago": 1} for n in range(64)}},
        {"heard": {"n1": {"identity": 1, "ago": 1}}},
        {"heard": {"n1": {"identity": "x", "ago": -1}}},
        {"heard": {"n1": {"identity": "x", "ago": True}}},
    ],
)
def test_what_is_no_such_document_is_refused(change: dict[str, object]) -> None:
    document = json.loads(encode({"n1": Hearing("x", 1.0)}, now=10.0, boot_id=BOOT)) | change
    with pytest.raises(ValueError, match=r"version|seconds|peers|entry|later"):
        decode(json.dumps(document), now=20.0, boot_id=BOOT)


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        decode(text, now=1.0, boot_id=BOOT)
    except ValueError:
        return


def test_addresses_and_certificates_do_not_run_into_each_other() -> None:
    one = Peer("n", ("10.0.0.1", "10.0.0.2"), (b"a",))
    two = Peer("n", ("10.0.0.110.0.0.2",), (b"a",))
    assert identity_of(one) != identity_of(two)
