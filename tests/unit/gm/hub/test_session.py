"""GM's side of a stream: when it begins, what it says, how it ends."""

import pytest

from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Drain,
    Hello,
    Put,
    ReportRefused,
    SnapshotEnd,
    ToNode,
)
from gm.hub.core.redial_policy import (
    FORGET_AFTER,
    LIFETIME,
    PATIENCE,
    REWOUND_AFTER,
    YOUNG_LIFETIME,
    YOUTH,
    RestoreDetection,
    RestoreVerdict,
    lifetime,
)
from gm.hub.core.session import EndCause, HubSession, flaw
from tests.unit.gm.hub.samples import document, hello, report


def said(session: HubSession) -> list[ToNode]:
    told: list[ToNode] = []
    while (message := session.next_message()) is not None:
        told.append(message)
    return told


@pytest.mark.parametrize(
    ("versions", "is_behind"),
    [
        ({"dataset": 7, "model": 3}, False),
        ({"dataset": 9, "model": 9}, False),
        ({"dataset": 6, "model": 3}, True),
        ({"dataset": 7}, True),
    ],
)
def test_gm_is_behind_while_one_collection_has_not_come_to_what_lc_knows(
    versions: dict[str, int], is_behind: bool
) -> None:
    session = HubSession(hello(dataset=7, model=3), since=0.0)
    assert session.is_behind(lambda kind: versions.get(kind, 0)) is is_behind


def test_nothing_is_told_before_the_snapshot() -> None:
    session = HubSession(hello(), since=0.0)
    session.concerns(document("early"))
    session.leaves(document("early"))
    assert said(session) == []
    session.serve([document("a")])
    session.concerns(document("b"))
    assert said(session) == [Put(document("a")), SnapshotEnd(), Put(document("b"))]


def test_reports_are_answered_before_the_snapshot_stands() -> None:
    session = HubSession(hello(), since=0.0)
    session.answer(Ack("store-1", "u", 4))
    session.answer(ReportRefused("store-1", "v", 1, "gone"))
    assert said(session) == [ReportRefused("store-1", "v", 1, "gone"), Ack("store-1", "u", 4)]


def test_an_ended_session_says_drain_and_nothing_else() -> None:
    session = HubSession(hello(), since=0.0)
    session.serve([document("a")])
    session.end(EndCause.UNAVAILABLE, "this GM does not lead")
    session.end(EndCause.REPLACED, "too late")
    session.concerns(document("b"))
    session.answer(Ack("store-1", "u", 1))
    assert said(session) == [Drain("this GM does not lead")]
    assert session.ended is not None
    assert session.ended.cause is EndCause.UNAVAILABLE


@pytest.mark.parametrize("cause", [EndCause.MALFORMED, EndCause.FOREIGN, EndCause.REPLACED])
def test_who_is_at_fault_is_not_sent_elsewhere(cause: EndCause) -> None:
    session = HubSession(hello(), since=0.0)
    session.end(cause, "go")
    assert said(session) == []


def test_a_report_of_another_store_is_not_the_sessions() -> None:
    assert HubSession(hello(), since=0.0).is_own(report())
    other = HubSession(Hello("edge-a", "store-2", {}), since=0.0)
    assert not other.is_own(report())


@pytest.mark.parametrize(
    ("message", "proven", "cause"),
    [
        (Hello("edge-a", "s", {}), "edge-a", None),
        (Hello("edge-a", "s", {}), None, None),
        (Hello("edge-b", "s", {}), "edge-a", EndCause.FOREIGN),
        (Hello("", "s", {}), None, EndCause.MALFORMED),
        (Hello("edge-a", "", {}), "edge-a", EndCause.MALFORMED),
    ],
)
def test_a_hello_says_who_it_is_and_must_prove_it(
    message: Hello, proven: str | None, cause: EndCause | None
) -> None:
    found = flaw(message, proven)
    assert (found and found.cause) is cause


def test_an_lc_that_knows_more_waits_a_little_and_then_goes_elsewhere() -> None:
    history = RestoreDetection()
    assert history.judge("edge-a", waiting_since=0.0, now=0.0) is RestoreVerdict.WAIT
    assert history.judge("edge-a", waiting_since=0.0, now=PATIENCE) is RestoreVerdict.ANOTHER_GM


def test_a_history_that_stays_behind_is_rewound_after_many_tries() -> None:
    history = RestoreDetection()
    now, verdict = 0.0, RestoreVerdict.WAIT
    while verdict is not RestoreVerdict.REWOUND:
        began = now
        while (
            verdict := history.judge("edge-a", waiting_since=began, now=now)
        ) is RestoreVerdict.WAIT:
            now += 0.5
        now += 8.0
    assert now >= REWOUND_AFTER
    history.reached("edge-a")
    assert history.judge("edge-a", waiting_since=now, now=now) is RestoreVerdict.WAIT


def test_tries_with_much_time_between_prove_nothing() -> None:
    history = RestoreDetection()
    for now in (0.0, FORGET_AFTER + 1, 2 * (FORGET_AFTER + 1)):
        assert history.judge("edge-a", waiting_since=now, now=now) is RestoreVerdict.WAIT


def test_an_outage_of_the_link_explains_why_lcs_know_more() -> None:
    history = RestoreDetection()
    history.judge("edge-a", waiting_since=0.0, now=0.0)
    history.judge("edge-a", waiting_since=50.0, now=50.0)
    history.forget()
    assert history.judge("edge-a", waiting_since=95.0, now=95.0) is RestoreVerdict.WAIT


@pytest.mark.parametrize(("age", "mean"), [(0.0, YOUNG_LIFETIME), (YOUTH, LIFETIME)])
def test_streams_of_a_young_gm_live_shorter_and_no_two_the_same(age: float, mean: float) -> None:
    assert lifetime(age, 0.0) == mean / 2
    assert lifetime(age, 0.5) == mean
