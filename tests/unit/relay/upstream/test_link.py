"""Is upstream within reach? The verdict, and when the next probe is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.core.link import LATE, LinkEvidence, UpstreamLink, is_of_api_server
from tests.examples import play

NOW = 100.0
FAILURES = [LinkEvidence.REFUSED, LinkEvidence.TIMED_OUT]


def link() -> UpstreamLink:
    return UpstreamLink(probe_interval=1.0, probe_timeout=1.0)


def up() -> UpstreamLink:
    made = link()
    made.probing(NOW)
    made.probed(LinkEvidence.ANSWERED, NOW)
    return made


@pytest.mark.parametrize(
    ("status", "headers", "is_there"),
    [
        (200, {}, True),
        (409, {"Content-Type": "application/json"}, True),
        (404, {"Content-Type": "application/json"}, True),
        # Also kube-apiserver's, of a resource that it does not serve: no sign of either.
        (404, {"Content-Type": "text/plain; charset=utf-8"}, False),
        (503, {}, False),
        (200, {"Age": "3"}, False),
        (200, {"Content-Type": "text/html; charset=utf-8"}, False),
        (404, {"Content-Type": "Text/HTML"}, False),
    ],
)
def test_neither_a_gateway_nor_a_relay_that_is_offline_is_the_api_server(
    status: int, headers: dict[str, str], is_there: bool
) -> None:
    assert is_of_api_server(status, headers) is is_there


def test_at_first_nothing_is_known_and_a_probe_is_due() -> None:
    fresh = link()

    assert not fresh.is_known
    assert not fresh.is_up(NOW)
    assert fresh.down_since(NOW) is None
    assert fresh.wake_at <= NOW


def test_the_first_answer_makes_it_up() -> None:
    assert up().is_known
    assert up().is_up(NOW)
    assert up().wake_at == NOW + 1


def test_a_request_that_is_answered_makes_it_up_as_well_and_saves_a_probe() -> None:
    made = link()
    made.met(LinkEvidence.ANSWERED, NOW + 0.5)

    assert made.is_up(NOW + 0.5)
    assert made.wake_at == NOW + 1.5


@pytest.mark.parametrize("second", FAILURES)
@pytest.mark.parametrize("first", FAILURES)
def test_two_failed_probes_make_it_down(first: LinkEvidence, second: LinkEvidence) -> None:
    made = up()
    made.probing(NOW + 1)
    made.probed(first, NOW + 2)
    assert made.is_up(NOW + 2)
    assert made.wake_at == NOW + 2
    made.probing(NOW + 2)
    made.probed(second, NOW + 3)

    assert not made.is_up(NOW + 3)
    assert made.down_since(NOW + 10) == NOW + 2


def test_a_refused_request_and_the_probe_that_confirms_it_make_it_down() -> None:
    made = up()
    made.met(LinkEvidence.REFUSED, NOW + 0.1)
    assert made.is_up(NOW + 0.1)
    assert made.wake_at == NOW + 0.1
    made.probing(NOW + 0.1)
    made.probed(LinkEvidence.REFUSED, NOW + 0.2)

    assert not made.is_up(NOW + 0.2)


def test_while_a_neighbour_lends_no_more_connections_the_verdict_stays_what_it_is() -> None:
    made, down = up(), link()
    for number in range(60):
        for it in (made, down):
            it.met(LinkEvidence.FULL, NOW + 0.1 + number)
            it.probing(NOW + 0.2 + number)
            it.probed(LinkEvidence.FULL, NOW + 0.3 + number)
        assert not made.is_in_doubt(NOW + 0.4 + number)
    # Nobody heard of the API server itself, and when that ends, so does what was known of it.
    assert made.heard_at == NOW
    assert not made.is_up(NOW + 90)
    assert not down.is_up(NOW + 60)


def test_a_way_that_is_lost_is_down_at_once_and_another_one_is_probed_at_once() -> None:
    made = up()
    made.way_changed(NOW + 0.5, is_lost=True)
    assert made.is_known
    assert not made.is_up(NOW + 0.5)
    assert made.down_since(NOW + 5) == NOW + 0.5
    assert made.wake_at == NOW + 0.5

    made = up()
    made.way_changed(NOW + 0.5, is_lost=False)
    assert made.is_up(NOW + 0.5)
    assert made.wake_at == NOW + 0.5


def test_requests_alone_never_make_it_down() -> None:
    """A restart of the API server breaks all of them at once."""
    made = up()
    for number in range(100):
        made.met(LinkEvidence.REFUSED, NOW + 0.1 + number / 1000)

    assert made.is_up(NOW + 0.3)


def test_one_answer_between_two_failures_makes_them_chance() -> None:
    made = up()
    made.probed(LinkEvidence.TIMED_OUT, NOW + 2)
    made.met(LinkEvidence.ANSWERED, NOW + 2.5)
    made.probed(LinkEvidence.TIMED_OUT, NOW + 3.5)

    assert made.is_up(NOW + 3.5)


def down() -> UpstreamLink:
    made = up()
    for at in (NOW + 1, NOW + 2):
        made.probing(at)
        made.probed(LinkEvidence.REFUSED, at)
    return made


def test_one_answer_makes_it_up_again() -> None:
    made = down()
    made.probed(LinkEvidence.ANSWERED, NOW + 60)

    assert made.is_up(NOW + 60)
    assert made.down_since(NOW + 60) is None


def test_while_it_is_down_probes_keep_their_interval_whatever_requests_meet() -> None:
    made = down()
    made.probing(NOW + 3)
    made.probed(LinkEvidence.REFUSED, NOW + 3)
    made.met(LinkEvidence.REFUSED, NOW + 3.2)

    assert made.wake_at == NOW + 4


def test_a_first_verdict_needs_two_failures_too() -> None:
    made = link()
    made.probing(NOW)
    made.probed(LinkEvidence.REFUSED, NOW)
    assert made.down_since(NOW) is None
    assert made.wake_at == NOW
    made.probing(NOW)
    made.probed(LinkEvidence.REFUSED, NOW + 0.1)

    assert made.is_known
    assert made.down_since(NOW + 5) == NOW


def test_after_a_life_that_ended_in_an_outage_one_failure_is_enough() -> None:
    made = UpstreamLink(probe_interval=1.0, probe_timeout=1.0, was_down=True)
    assert made.down_since(NOW) is None
    made.probing(NOW)
    made.probed(LinkEvidence.TIMED_OUT, NOW + 1)
    assert made.down_since(NOW + 5) == NOW + 1
    made.probed(LinkEvidence.ANSWERED, NOW + 6)

    assert made.is_up(NOW + 6)


def test_an_outage_that_is_over_when_the_process_starts_is_none() -> None:
    made = UpstreamLink(probe_interval=1.0, probe_timeout=1.0, was_down=True)
    made.probing(NOW)
    made.probed(LinkEvidence.ANSWERED, NOW)
    made.met(LinkEvidence.REFUSED, NOW + 0.1)

    assert made.is_up(NOW + 0.1)


def test_what_was_heard_before_the_process_was_suspended_proves_nothing() -> None:
    made = up()
    assert made.is_up(NOW + 9)

    assert not made.is_up(NOW + 3600)
    assert made.down_since(NOW + 3600) == NOW + 3600


@play(200)
@given(
    before=st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.sampled_from(LinkEvidence))),
    kind=st.sampled_from(FAILURES),
)
def test_a_cut_is_noticed_within_an_interval_and_two_time_outs(
    before: list[tuple[float, bool, LinkEvidence]], kind: LinkEvidence
) -> None:
    made, now = up(), NOW
    for seconds, is_probe, outcome in before:
        now += seconds
        if is_probe:
            made.probing(now)
            made.probed(outcome, now)
        else:
            made.met(outcome, now)
    cut_at = now
    while made.is_up(now):
        now = max(now, made.wake_at)
        made.probing(now)
        now += made.probe_timeout if kind is LinkEvidence.TIMED_OUT else 0.01
        made.probed(kind, now)

    assert now <= cut_at + 3.0 + 1e-6
    made.probed(LinkEvidence.ANSWERED, now + 1)
    assert made.is_up(now + 1)


# ── an interval that is longer than what who waits can bear ──


def rarely() -> UpstreamLink:
    """Up, and probed each minute."""
    made = UpstreamLink(probe_interval=60.0, probe_timeout=1.0)
    made.probing(NOW)
    made.probed(LinkEvidence.ANSWERED, NOW)
    # The first probe began before there was a sign of life.
    made.probing(NOW + 1)
    made.probed(LinkEvidence.ANSWERED, NOW + 1)
    return made


def test_at_rest_the_interval_is_kept() -> None:
    assert rarely().wake_at == NOW + 61


def test_a_request_that_waits_is_a_reason_to_look_and_no_evidence() -> None:
    made = rarely()
    made.waits(NOW + 20)

    assert made.wake_at == NOW + 20
    assert made.is_up(NOW + 20)
    assert not made.is_in_doubt(NOW + 20)


def test_many_that_wait_bring_one_look_a_second() -> None:
    made = rarely()
    made.waits(NOW + 20)
    made.probing(NOW + 20)
    made.waits(NOW + 20.1)
    assert made.wake_at == NOW + 21
    made.probed(LinkEvidence.ANSWERED, NOW + 20.5)
    for number in range(100):
        made.waits(NOW + 20.5 + number / 1000)

    assert made.wake_at == NOW + 21.5


def test_a_probe_that_is_due_sooner_stays_due() -> None:
    made = up()
    made.waits(NOW + 0.1)

    assert made.wake_at == NOW + 1


def test_an_outage_is_looked_at_each_second_until_it_ends() -> None:
    made = rarely()
    for at in (NOW + 61, NOW + 62, NOW + 63):
        made.probing(at)
        made.probed(LinkEvidence.REFUSED, at)
    assert not made.is_up(NOW + 63)
    assert made.wake_at == NOW + 64
    made.probing(NOW + 64)
    made.probed(LinkEvidence.ANSWERED, NOW + 64)

    assert made.is_up(NOW + 64)
    assert made.wake_at == NOW + 124


# ── another relay before the API server ──


def relayed() -> UpstreamLink:
    made = up()
    for _ in range(2):
        made.probing(NOW + 1)
        made.probed(LinkEvidence.RELAYED, NOW + 1)
    return made


def test_a_relay_that_is_cut_off_itself_is_no_upstream_but_can_be_asked() -> None:
    assert not relayed().is_up(NOW + 1)
    assert relayed().is_relayed(NOW + 1)
    assert relayed().down_since(NOW + 2) == NOW + 1
    assert not up().is_relayed(NOW)


def test_what_such_a_relay_answers_to_requests_proves_no_upstream() -> None:
    made = up()
    made.probing(NOW + 1)
    made.probed(LinkEvidence.RELAYED, NOW + 1)
    made.met(LinkEvidence.ANSWERED, NOW + 1)
    made.probing(NOW + 1)
    made.probed(LinkEvidence.RELAYED, NOW + 1)
    made.met(LinkEvidence.ANSWERED, NOW + 1)

    assert not made.is_up(NOW + 1)


def test_the_first_probe_that_reaches_the_api_server_through_it_makes_it_up() -> None:
    made = relayed()
    made.probed(LinkEvidence.ANSWERED, NOW + 2)

    assert made.is_up(NOW + 2)
    assert not made.is_relayed(NOW + 2)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_relay_that_is_gone_as_well_is_asked_no_more_after_two_probes(kind: LinkEvidence) -> None:
    made = relayed()
    made.probed(kind, NOW + 2)
    assert made.is_relayed(NOW + 2)
    made.probed(kind, NOW + 3)
    assert not made.is_relayed(NOW + 3)
    made.met(LinkEvidence.ANSWERED, NOW + 4)
    assert made.is_up(NOW + 4)


def test_what_was_heard_of_a_relay_before_a_suspend_proves_nothing_either() -> None:
    assert not relayed().is_relayed(NOW + 3600)


# ── a process that stood still ──


def test_a_probe_that_is_started_late_shows_that_the_process_stood_still() -> None:
    made = up()
    due = made.wake_at

    assert not made.is_behind(due + LATE)
    assert made.is_behind(due + LATE + 0.1)
    made.looked_back(due + 20)
    assert not made.is_behind(due + 20)


def test_a_probe_that_ends_late_shows_it_too() -> None:
    made = up()
    made.probing(NOW + 1)
    ends = NOW + 1 + made.probe_timeout

    assert not made.is_behind(ends + LATE)
    assert made.is_behind(ends + LATE + 0.1)
    made.looked_back(ends + 20)
    assert not made.is_behind(ends + 20)
    made.probed(LinkEvidence.ANSWERED, ends + 20)
    assert not made.is_behind(ends + 20.5)


def test_before_the_first_probe_nobody_is_late() -> None:
    assert not link().is_behind(NOW)


@pytest.mark.parametrize("is_probed", [False, True])
def test_what_is_read_after_a_standstill_may_have_come_before_it(is_probed: bool) -> None:
    made = up()
    if is_probed:
        made.probing(NOW + 1)
    later = NOW + 1000
    made.looked_back(later)
    made.met(LinkEvidence.ANSWERED, later)
    if is_probed:
        made.probed(LinkEvidence.ANSWERED, later)
    assert made.heard_at == NOW
    made.probing(later)
    made.probed(LinkEvidence.ANSWERED, later + 1)
    assert made.heard_at == later + 1
    made.met(LinkEvidence.ANSWERED, later + 2)
    assert made.heard_at == later + 2


def on_long_round_trips(*seconds: float) -> UpstreamLink:
    made = UpstreamLink(probe_interval=1.0, probe_timeout=0.9, max_probe_timeout=10.0)
    for each in seconds:
        made.round_trip_took(each)
    return made


@pytest.mark.parametrize(
    ("seen", "deadline"),
    [((), 0.9), ((0.01,), 0.9), ((0.3,), 1.2), ((2.0,), 8.0), ((7.0,), 10.0)],
)
def test_the_deadline_of_a_probe_follows_the_round_trip(
    seen: tuple[float, ...], deadline: float
) -> None:
    assert on_long_round_trips(*seen).probe_timeout == pytest.approx(deadline)


def test_one_late_answer_among_quick_ones_is_forgotten_within_seconds() -> None:
    made = on_long_round_trips(*[0.01] * 5, 2.0)
    assert made.probe_timeout > 2.0
    for _ in range(6):
        made.round_trip_took(0.01)

    assert made.probe_timeout == pytest.approx(0.9)


def test_an_answer_after_the_deadline_of_its_probe_makes_the_link_up() -> None:
    made = down()
    made.probed_late(LinkEvidence.ANSWERED, NOW + 9)

    assert made.is_up(NOW + 9)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_after_the_deadline_counts_no_second_time(kind: LinkEvidence) -> None:
    made = up()
    made.probing(NOW + 1)
    made.probed(LinkEvidence.TIMED_OUT, NOW + 2)
    made.probed_late(kind, NOW + 2.1)

    assert made.is_up(NOW + 2.2)
