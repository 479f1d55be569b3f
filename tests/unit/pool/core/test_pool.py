"""Role, link and lender, as functions of now."""

from pool_sidecar.core.lan_state import Claim, LanState
from pool_sidecar.core.members import Directory, Peer
from pool_sidecar.core.peers import STATE_VALID
from pool_sidecar.core.pool import BACK_AFTER, LINK_VALID, SHUN, Pool, Role
from pool_sidecar.core.pool_member import Link
from pool_sidecar.core.pool_streams import PoolStream


def pool(*names: str, may_lead: bool = True, lends: bool = True) -> Pool:
    it = Pool("own", lends=lends)
    peers = {name: Peer(name, ("10.0.0.1",), (name.encode(),), True) for name in names}
    it.follow(Directory("own", "hall", may_lead, peers))
    return it


def up(it: Pool, since: float, until: float) -> None:
    """The own link, as the relay says each second."""
    now = since
    while now <= until:
        it.own.observed(is_up=True, now=now)
        it.streams.observed({"link": {"ownIsUp": True}, "pool": None}, now)
        it.advance(now)
        now += 1.0


def offer(it: Pool, name: str, now: float, link: Link = Link.OWN) -> None:
    it.peers.answered(name, LanState(name, "1", link, True), now)
    it.advance(now)


def test_without_news_about_it_the_own_link_is_down() -> None:
    it = pool()
    assert it.link(0.0) is Link.NONE
    up(it, 0.0, 5.0)
    assert it.link(5.0 + LINK_VALID) is Link.OWN
    assert it.link(5.1 + LINK_VALID) is Link.NONE
    assert it.role(5.1 + LINK_VALID) is Role.PENDING


def test_a_cut_node_borrows_and_goes_back_after_ten_seconds() -> None:
    it = pool("n1", "n2")
    up(it, 0.0, 20.0)
    it.own.observed(is_up=False, now=21.0)
    offer(it, "n1", 21.0)
    assert (it.link(21.0), it.via(21.0)) == (Link.LENT, "n1")
    for now in range(22, 40):
        offer(it, "n1", float(now))
        it.own.observed(is_up=True, now=float(now))
        it.advance(float(now))
        is_back = now - 22 >= BACK_AFTER
        assert it.link(float(now)) is (Link.OWN if is_back else Link.LENT)


def test_a_borrower_never_lends() -> None:
    it = pool("n1")
    up(it, 0.0, 20.0)
    assert it.lends(20.0)
    it.own.observed(is_up=False, now=21.0)
    offer(it, "n1", 21.0)
    it.own.observed(is_up=True, now=22.0)
    offer(it, "n1", 22.0)
    assert it.link(22.0) is Link.LENT
    assert not it.lends(22.0)


def test_who_was_told_not_to_lend_does_not() -> None:
    it = pool(lends=False)
    up(it, 0.0, 20.0)
    assert it.link(20.0) is Link.OWN
    assert not it.lends(20.0)


def test_nobody_borrows_from_a_borrower() -> None:
    it = pool("n1", "n2")
    offer(it, "n1", 1.0, Link.LENT)
    offer(it, "n2", 1.0, Link.NONE)
    assert it.link(1.0) is Link.NONE


def test_a_lender_stays_while_it_lends_and_the_next_one_is_the_first_by_rank() -> None:
    it = pool("n1", "n2", "n3")
    offer(it, "n3", 1.0)
    assert it.via(1.0) == "n3"
    offer(it, "n1", 2.0)
    offer(it, "n2", 2.0)
    assert it.via(2.0) == "n3"
    it.peers.answered("n3", LanState("n3", "1", Link.NONE, True), 3.0)
    it.advance(3.0)
    chosen = it.via(3.0)
    assert chosen in ("n1", "n2")
    again = pool("n1", "n2")
    again.peers.answered("n1", LanState("n1", "1", Link.OWN, True), 1.0)
    again.peers.answered("n2", LanState("n2", "1", Link.OWN, True), 1.0)
    again.advance(1.0)
    assert again.via(1.0) == chosen


def test_the_order_of_lenders_spreads_over_borrowers() -> None:
    chosen = set()
    for number in range(20):
        it = Pool(f"b{number}")
        names = ("n1", "n2", "n3")
        it.follow(
            Directory(f"b{number}", "hall", False, {n: Peer(n, ("a",), (b"",)) for n in names})
        )
        for name in names:
            it.peers.answered(name, LanState(name, "1", Link.OWN, True), 1.0)
        it.advance(1.0)
        chosen.add(it.via(1.0))
    assert chosen == {"n1", "n2", "n3"}


def test_a_lender_that_refuses_or_fails_twice_is_left_for_another_one() -> None:
    it = pool("n1", "n2")
    offer(it, "n1", 1.0)
    offer(it, "n2", 1.0)
    first = it.via(1.0)
    it.borrowing.looked(first, is_answered=False, now=1.0)
    it.advance(1.0)
    assert it.via(1.0) == first
    it.borrowing.looked(first, is_answered=False, now=2.0)
    it.advance(2.0)
    second = it.via(2.0)
    assert second not in ("", first)
    it.borrowing.refused(second, 2.0)
    it.advance(2.0)
    assert it.via(2.0) in ("n1", "n2"), "the only ones are better than none"
    assert SHUN > 0


def test_n1_a_lender_that_is_silent_is_left_at_once_where_there_is_another_one() -> None:
    it = pool("n1", "n2")
    offer(it, "n1", 1.0)
    offer(it, "n2", 1.0)
    first = it.via(1.0)
    it.borrowing.was_silent(first, 1.0)
    it.advance(1.0)
    second = it.via(1.0)
    assert second not in ("", first)
    # The other one has failed lately: it is given a second look.
    it.borrowing.was_silent(second, 2.0)
    it.advance(2.0)
    assert it.via(2.0) == second


def test_a_leader_may_lead_has_a_claim_and_a_link_that_was_up_for_long_enough() -> None:
    it = pool()
    up(it, 0.0, BACK_AFTER)
    it.claim.observed(transitions=3, valid_until=BACK_AFTER + 2.0)
    assert it.role(BACK_AFTER) is Role.LEADER
    assert it.role(BACK_AFTER + 0.1) is Role.FOLLOWER, "its claim is about to lapse"
    it.claim.observed(transitions=3, valid_until=100.0)
    assert it.is_eligible(BACK_AFTER)
    it.stood_still()
    assert it.role(BACK_AFTER) is Role.PENDING
    other = pool(may_lead=False)
    up(other, 0.0, 20.0)
    other.claim.observed(transitions=3, valid_until=100.0)
    assert other.role(20.0) is Role.FOLLOWER


def test_a_link_that_was_just_up_again_makes_no_leader() -> None:
    it = pool()
    up(it, 0.0, 20.0)
    it.own.observed(is_up=False, now=21.0)
    up(it, 22.0, 25.0)
    it.claim.observed(transitions=3, valid_until=100.0)
    assert it.role(25.0) is Role.FOLLOWER


def test_of_two_claims_the_later_acquisition_is_the_hub() -> None:
    it = pool("n1", "n2")
    for name, transitions in (("n1", 4), ("n2", 7)):
        claim = Claim(transitions, 5.0)
        it.peers.answered(name, LanState(name, "1", Link.OWN, True, claim), 1.0)
    assert it.hub(1.0) == "n2"
    assert it.hub(6.1) == "", "both claims are over"


def test_a_claim_of_one_who_may_not_lead_is_none() -> None:
    it = Pool("own")
    it.follow(Directory("own", "hall", False, {"n1": Peer("n1", ("a",), (b"1",), may_lead=False)}))
    claim = Claim(4, 5.0)
    it.peers.answered("n1", LanState("n1", "1", Link.OWN, True, claim), 1.0)
    assert it.hub(1.0) == ""


def test_healthy_is_a_hub_that_is_reached_and_ready_its_stream_that_is_live() -> None:
    it = pool("n1")
    shown = {"state": "live", "source": "hub", "resource": "services.v1.", "cursor": "7"}
    it.streams.observed({"pool": {"streams": [shown]}}, 0.0)
    assert _told(it, 0.0) == {"services.v1.": (False, False)}
    streams = (
        PoolStream("services.v1.", False, 9),
        PoolStream("endpointslices.v1.discovery.k8s.io", True, 9),
    )
    claim = Claim(1, 20.0)
    state = LanState("n1", "1", Link.OWN, True, claim, streams=streams)
    it.peers.answered("n1", state, 1.0)
    assert _told(it, 1.0) == {
        "services.v1.": (True, False),
        "endpointslices.v1.discovery.k8s.io": (True, True),
    }
    assert _told(it, 1.0 + STATE_VALID + 0.1) == {}, "neither the hub nor the relay says anything"


def test_the_hub_itself_is_healthy_and_ready_by_what_it_shows() -> None:
    it = pool("n1")
    cloud = {"state": "live", "source": "cloud", "resource": "services.v1.", "cursor": "7"}
    for now in range(12):
        it.own.observed(is_up=True, now=float(now))
        it.streams.observed({"pool": {"streams": [cloud]}}, float(now))
        it.advance(float(now))
    assert _told(it, 11.0) == {"services.v1.": (False, False)}
    it.claim.observed(transitions=1, valid_until=30.0)
    assert _told(it, 11.0) == {"services.v1.": (True, True)}


def _told(it: Pool, now: float) -> dict[str, tuple[bool, bool]]:
    return {of.resource: (of.is_healthy, of.is_ready) for of in it.stream_health(now)}
