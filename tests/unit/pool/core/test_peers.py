"""The verdict on each peer, by the rules of its rounds."""

import pytest

from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Peer
from pool_sidecar.core.peers import (
    HEARD_VALID,
    STATE_VALID,
    TROUBLE_HOLD,
    Peers,
    Sign,
    Standing,
)
from pool_sidecar.core.pool_member import Link, Verdict

NAMES = ("n1", "n2", "n3", "n4")


def state(name: str, *, is_kubelet_ok: bool = True) -> LanState:
    return LanState(name, "incarnation", Link.OWN, is_kubelet_ok)


def heard(names: tuple[str, ...] = NAMES, *, now: float = 0.0) -> Peers:
    """All of them alive."""
    peers = Peers()
    peers.follow({it: Peer(it, ("10.0.0.1",), (it.encode(),)) for it in names})
    for name in names:
        peers.answered(name, state(name), now)
    return peers


def miss(peers: Peers, name: str, *, since: float, rounds: int = 3) -> float:
    """Rounds without a sign, two seconds each; when the last one ended."""
    for number in range(1, rounds + 1):
        peers.failed(name, Sign.NONE, since + 2.0 * number)
    return since + 2.0 * rounds


def test_a_peer_of_which_nothing_is_known_has_no_verdict() -> None:
    peers = Peers()
    peers.follow({"n1": Peer("n1", ("10.0.0.1",))})
    assert peers.standing("n1", 100.0) is None
    assert peers.verdicts(100.0) == {}


def test_three_rounds_without_a_sign_make_it_silent_and_two_do_not() -> None:
    peers = heard()
    now = miss(peers, "n1", since=0.0, rounds=2)
    assert peers.verdicts(now) == {}
    peers.failed("n1", Sign.NONE, 6.0)
    assert peers.verdicts(6.0) == {"n1": Standing(Verdict.SILENT, 6.0)}


def test_an_answer_between_them_begins_the_count_anew() -> None:
    peers = heard()
    miss(peers, "n1", since=0.0, rounds=2)
    peers.answered("n1", state("n1"), 5.0)
    now = miss(peers, "n1", since=5.0, rounds=2)
    assert peers.verdicts(now) == {}


@pytest.mark.parametrize("is_refused", [True, False])
def test_who_refuses_or_has_a_kubelet_that_fails_is_degraded(is_refused: bool) -> None:
    peers = heard()
    if is_refused:
        peers.failed("n1", Sign.HOST_LIVES, 2.0)
    else:
        peers.answered("n1", state("n1", is_kubelet_ok=False), 2.0)
    assert peers.verdicts(3.0) == {"n1": Standing(Verdict.DEGRADED, 2.0)}
    peers.answered("n1", state("n1"), 4.0)
    assert peers.verdicts(5.0) == {}


def test_who_refuses_offers_no_link_any_more() -> None:
    peers = heard()
    assert peers.state("n1", 1.0) is not None
    peers.failed("n1", Sign.HOST_LIVES, 1.0)
    assert peers.state("n1", 1.0) is None


def test_a_state_of_another_name_is_a_wrong_certificate() -> None:
    peers = heard()
    peers.answered("n1", state("n2"), 2.0)
    found = peers.standing("n1", 2.0)
    assert found is not None
    assert found.verdict is Verdict.DEGRADED


def test_never_heard_is_not_silent() -> None:
    peers = Peers()
    peers.follow({"n1": Peer("n1", ("10.0.0.1",), (b"1",))})
    now = miss(peers, "n1", since=0.0)
    assert peers.verdicts(now)["n1"].verdict is Verdict.NEVER_HEARD
    peers.failed("n1", Sign.HOST_LIVES, now)
    assert peers.verdicts(now)["n1"].verdict is Verdict.NEVER_HEARD


@pytest.mark.parametrize(
    "other",
    [Peer("n1", ("10.0.0.9",), (b"n1",)), Peer("n1", ("10.0.0.1",), (b"other",))],
    ids=["address", "certificate"],
)
def test_another_address_or_certificate_was_never_heard(other: Peer) -> None:
    peers = heard()
    peers.follow({"n1": other})
    now = miss(peers, "n1", since=10.0)
    assert peers.verdicts(now)["n1"].verdict is Verdict.NEVER_HEARD


def test_who_was_heard_more_than_a_day_ago_was_never_heard() -> None:
    peers = heard()
    now = miss(peers, "n1", since=10.0)
    assert peers.verdicts(now)["n1"].verdict is Verdict.SILENT
    assert peers.verdicts(HEARD_VALID + 1.0)["n1"].verdict is Verdict.NEVER_HEARD


def test_who_is_only_ever_ill_was_not_heard_alive() -> None:
    peers = Peers()
    peers.follow({"n1": Peer("n1", ("10.0.0.1",), (b"n1",))})
    peers.answered("n1", state("n1", is_kubelet_ok=False), 0.0)
    assert peers.verdicts(1.0)["n1"].verdict is Verdict.NEVER_HEARD


def test_n8_a_standstill_of_the_own_loop_voids_all_verdicts() -> None:
    peers = heard()
    now = miss(peers, "n1", since=0.0)
    peers.stood_still()
    assert peers.verdicts(now) == {}
    assert peers.state("n2", now) is None
    now = miss(peers, "n1", since=100.0, rounds=2)
    assert peers.verdicts(now) == {}


def test_where_most_turn_silent_at_once_the_trouble_is_here() -> None:
    peers = heard()
    for name in ("n1", "n2", "n3"):
        miss(peers, name, since=0.0)
    assert peers.verdicts(7.0) == {}
    # They are silent for as long as it is believed, from then on.
    late = 6.0 + TROUBLE_HOLD
    assert peers.verdicts(late) == {it: Standing(Verdict.SILENT, late) for it in ("n1", "n2", "n3")}


def test_trouble_that_is_over_for_most_is_over_for_all() -> None:
    """As where all start at once, and one does not: it is silent from then on."""
    peers = heard()
    for name in NAMES:
        miss(peers, name, since=0.0)
    for name in ("n1", "n2"):
        peers.answered(name, state(name), 8.0)
    assert peers.verdicts(8.0) == {}
    peers.failed("n3", Sign.HOST_LIVES, 9.0)
    assert peers.verdicts(9.0) == {
        "n3": Standing(Verdict.DEGRADED, 9.0),
        "n4": Standing(Verdict.SILENT, 9.0),
    }


def test_who_is_silent_is_a_vote_only_once_nobody_is_at_its_address() -> None:
    peers = heard()
    for moment in (2.0, 4.0, 6.0):
        peers.failed("n1", Sign.UNPROVEN, moment)
    assert peers.verdicts(6.0) == {"n1": Standing(Verdict.SILENT, 6.0)}
    assert peers.testimony(6.0) == {"n1": Standing(Verdict.DEGRADED, 6.0)}
    peers.failed("n1", Sign.NONE, 50.0)
    assert peers.testimony(50.0) == {"n1": Standing(Verdict.SILENT, 6.0)}


def test_half_of_the_others_is_not_most_of_them() -> None:
    peers = heard()
    for name in ("n1", "n2"):
        miss(peers, name, since=0.0)
    assert set(peers.verdicts(7.0)) == {"n1", "n2"}


def test_one_of_one_is_no_trouble_here() -> None:
    peers = heard(("n1",))
    miss(peers, "n1", since=0.0)
    assert set(peers.verdicts(7.0)) == {"n1"}


def test_an_answer_amid_trouble_counts_at_once() -> None:
    peers = heard(("n1", "n2"))
    miss(peers, "n1", since=0.0)
    miss(peers, "n2", since=0.0)
    peers.failed("n1", Sign.HOST_LIVES, 8.0)
    assert set(peers.verdicts(9.0)) == {"n1"}


def test_a_word_is_valid_for_three_rounds() -> None:
    peers = heard()
    assert peers.state("n1", STATE_VALID) is not None
    assert peers.state("n1", STATE_VALID + 0.1) is None
    assert list(peers.heard(STATE_VALID + 0.1)) == []
