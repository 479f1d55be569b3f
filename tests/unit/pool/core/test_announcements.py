"""What a member writes of itself to the API, and when."""

import itertools
from collections.abc import Collection

import pytest

from pool_sidecar.core.announcements import (
    HELD,
    OFTEN,
    OFTEN_FOR,
    SELDOM,
    Announcements,
    CloudLink,
    Situation,
)
from pool_sidecar.core.peers import Standing
from pool_sidecar.core.pool_member import Link, MemberStatus, PeerVerdict, Report, Verdict

SILENT = {"n2": Standing(Verdict.SILENT, 0.0)}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"
KNOWN = MemberStatus(("10.0.0.1",), (CERTIFICATE,), Link.OWN)


def situation(
    link: Link = Link.OWN,
    *,
    via: str = "",
    verdicts: dict[str, Standing] | None = None,
    is_trouble: bool = False,
    judged: Collection[str] = (),
    lost: Collection[str] = (),
    is_rumour: bool = False,
) -> Situation:
    return Situation(
        ("10.0.0.1",),
        (CERTIFICATE,),
        link,
        via,
        verdicts or {},
        is_trouble,
        judged,
        lost,
        is_rumour,
    )


def written(it: Announcements, what: Situation, now: float, *, seconds: float) -> list[float]:
    """When it writes a status in so many seconds from `now`; conditions are written, too."""
    moments = []
    for second in range(int(seconds)):
        status = it.status(what, now + second)
        condition = it.condition(what, now + second)
        if status is not None:
            it.written(status, now + second)
            moments.append(now + second)
        if condition is not None:
            it.condition_written(condition)
    return moments


def known(status: MemberStatus = KNOWN) -> Announcements:
    it = Announcements()
    it.found(status)
    return it


def test_before_the_api_has_been_read_nothing_is_written() -> None:
    assert Announcements().status(situation(), 0.0) is None


def test_n7_all_well_a_known_member_writes_nothing() -> None:
    it = known()
    assert written(it, situation(), 0.0, seconds=3600) == []
    assert it.condition(situation(), 3600.0) is None


def test_a_new_member_says_where_it_is_at_once_and_how_it_is_linked_when_that_has_held() -> None:
    it = known(MemberStatus())
    # The Node's condition, of which nothing is known, comes first.
    assert written(it, situation(), 0.0, seconds=60) == [0.0, HELD + 1]
    assert it.status(situation(), 100.0) is None


def test_a_link_is_announced_when_it_has_held_for_ten_seconds() -> None:
    it = known()
    cut = situation(Link.LENT, via="n3")
    assert written(it, cut, 0.0, seconds=10) == []
    status = it.status(cut, HELD)
    assert status is not None
    assert (status.link, status.via) == (Link.LENT, "n3")
    it.written(status, HELD)
    assert it.condition(cut, HELD) == CloudLink(False, "n3")
    it.condition_written(CloudLink(False, "n3"))
    assert it.condition(cut, HELD + 1) is None


def test_a_link_that_flaps_is_not_announced() -> None:
    it = known()
    for second in range(300):
        link = Link.OWN if second // 5 % 2 else Link.LENT
        now = float(second)
        assert it.status(situation(link, via="" if link is Link.OWN else "n3"), now) is None


def test_a_member_that_ends_between_its_two_writes_takes_the_condition_back_when_it_starts() -> (
    None
):
    """Else the node keeps the taint `cut`."""
    cut = situation(Link.LENT, via="n3")
    situations = [situation()] * 15 + [cut] * 15 + [situation()] * 15
    for crash_at in range(1, 2 * len(situations)):
        status, condition = MemberStatus(("10.0.0.1",), (CERTIFICATE,)), CloudLink(True)
        it, steps = known(status), 0
        for second, what in enumerate([*situations, *[situation()] * 15]):
            wanted = it.status(what, float(second))
            if wanted is not None:
                status = wanted
                it.written(wanted, float(second))
            steps += 1
            if steps == crash_at:
                it = known(status)
            told = it.condition(what, float(second))
            if told is not None:
                condition = told
                it.condition_written(told)
            steps += 1
            if steps == crash_at:
                it = known(status)
        assert condition == CloudLink(True)
        assert status.link is Link.OWN


def test_a_node_that_joins_while_an_old_condition_is_there_takes_it_back() -> None:
    it = known(MemberStatus())
    it.condition(situation(), 0.0)
    assert it.condition(situation(), HELD) == CloudLink(True)


def test_a_report_comes_on_change_then_each_ten_seconds_then_each_minute() -> None:
    it = known()
    moments = written(it, situation(verdicts=SILENT), 0.0, seconds=OFTEN_FOR + 200)
    assert moments[0] == 0.0
    gaps = [later - before for before, later in itertools.pairwise(moments)]
    often = [gap for moment, gap in zip(moments, gaps, strict=False) if moment < OFTEN_FOR - OFTEN]
    assert set(often) == {OFTEN}
    assert gaps[-1] == SELDOM


def test_on_a_node_that_the_api_has_lost_a_report_comes_each_ten_seconds_however_long() -> None:
    it = known()
    written(it, situation(verdicts=SILENT), 0.0, seconds=1200)
    lost = situation(verdicts=SILENT, lost={"n2"})
    moments = written(it, lost, 1200.0, seconds=900)
    assert moments[0] <= 1200.0 + OFTEN
    assert {later - before for before, later in itertools.pairwise(moments)} == {OFTEN}


def test_on_a_node_that_the_api_has_lost_a_vote_is_reported_as_soon_as_it_is_one() -> None:
    it = known()
    moments = written(it, situation(verdicts=SILENT, lost={"n2"}), 3.0, seconds=60)
    assert 40.0 in moments


def test_a_vote_is_taken_back_at_once() -> None:
    it = known()
    written(it, situation(verdicts=SILENT), 0.0, seconds=52)
    assert written(it, situation(), 52.0, seconds=60) == [52.0]


@pytest.mark.parametrize("period", [4, 10, 30])
@pytest.mark.parametrize("what", ["word", "refusal", "rumour"])
def test_who_is_well_and_ill_in_turn_makes_others_write_once_a_minute(
    what: str, period: int
) -> None:
    ill = Standing(Verdict.DEGRADED, 0.0, is_word=what == "word")
    bad = situation(is_rumour=True) if what == "rumour" else situation(verdicts={"liar": ill})
    it, writes = known(), 0
    for second in range(3600):
        now = float(second)
        if second % period == 0:
            ill = Standing(Verdict.DEGRADED, now, is_word=what == "word")
            if what != "rumour":
                bad = situation(verdicts={"liar": ill})
        status = it.status(bad if second % period < period / 2 else situation(), now)
        if status is not None:
            it.written(status, now)
            writes += second >= OFTEN_FOR
    # What was refused was seen, and may be taken back beside.
    assert writes <= (3600 - OFTEN_FOR) / 60 * (2 if what == "refusal" else 1) + 1


def test_a_single_neighbour_s_word_makes_one_report_a_minute() -> None:
    it = known()
    told = {"n2": Standing(Verdict.DEGRADED, 0.0, is_word=True)}
    moments = written(it, situation(verdicts=told, is_rumour=True), 0.0, seconds=600)
    assert moments == [float(second) for second in range(0, 600, SELDOM)]


def test_a_report_is_never_older_than_it_says_itself() -> None:
    it = known()
    told: Report | None = None
    told_at = 0.0
    for second in range(1200):
        now = float(second)
        status = it.status(situation(verdicts=SILENT), now)
        if status is not None:
            it.written(status, now)
            told, told_at = status.report, now
        assert told is not None
        assert now - told_at <= told.every


def test_who_hears_of_trouble_reports_that_it_sees_none() -> None:
    it = known()
    assert written(it, situation(is_trouble=True), 0.0, seconds=30) != []


def test_once_all_that_it_names_are_judged_it_is_quiet() -> None:
    it = known()
    written(it, situation(verdicts=SILENT), 0.0, seconds=60)
    judged = situation(verdicts=SILENT, judged={"n2"})
    assert written(it, judged, 60.0, seconds=600) == []


def test_when_all_are_well_again_one_last_report_is_empty() -> None:
    before = Report(41, OFTEN, (PeerVerdict("n2", Verdict.SILENT, 47),))
    it = known(MemberStatus(("10.0.0.1",), (CERTIFICATE,), Link.OWN, "", before))
    moments = written(it, situation(), 100.0, seconds=600)
    assert moments == [100.0]


def test_the_sequence_goes_on_from_what_the_api_has() -> None:
    before = Report(41, OFTEN, (PeerVerdict("n2", Verdict.SILENT, 47),))
    it = known(MemberStatus(("10.0.0.1",), (CERTIFICATE,), Link.OWN, "", before))
    status = it.status(situation(verdicts=SILENT), 100.0)
    assert status is not None
    assert status.report == Report(42, OFTEN, (PeerVerdict("n2", Verdict.SILENT, 100),))
