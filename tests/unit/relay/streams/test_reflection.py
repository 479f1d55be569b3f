"""One upstream stream as a machine: what it asks for, when, and what it makes of the answers."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item, Malformed, Page
from relay_sidecar.core.link import LinkEvidence, UpstreamLink
from relay_sidecar.core.stream.commands import (
    CloseRequest,
    Command,
    ListRequest,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.core.stream.reflection import FRUITLESS_MAX, GOOD_WATCH, Reflection
from tests.examples import play
from tests.unit.relay.streams.link import FixedLink
from tests.unit.relay.streams.samples import item

UP = 0.0
LINK = FixedLink()


def page(version: int = 100, token: str = "", items: list[Item] | None = None) -> Page:
    return Page("PodList", "v1", version, token, items or [])


def listing() -> Reflection:
    reflection = Reflection(LINK)
    assert reflection.next(UP, 0.0) == ListRequest("", 1000)
    return reflection


def watching(version: int = 100, *, at: float = UP) -> Reflection:
    reflection = Reflection(LINK, version=version)
    assert isinstance(reflection.next(at, 0.0), WatchRequest)
    reflection.opened(at)
    return reflection


def waited(command: Command) -> float:
    assert isinstance(command, Wait)
    return command.until


# ── list, then watch ──


def test_a_new_stream_lists_and_then_watches_from_the_version_of_the_list() -> None:
    reflection = listing()
    whole = reflection.page(page(100, items=[item("a", 5)]), UP)

    assert whole is not None
    assert [i.key[1] for i in whole.items] == ["a"]
    assert reflection.next(UP, 0.0) == WatchRequest(100, 480)


def test_a_restored_stream_watches_from_where_it_stood() -> None:
    assert Reflection(LINK, version=42).next(UP, 0.0) == WatchRequest(42, 480)


def test_a_watch_lasts_eight_to_ten_minutes() -> None:
    commands = [Reflection(LINK, version=1).next(UP, chance / 1000) for chance in range(1000)]
    asked = [command.timeout_seconds for command in commands if isinstance(command, WatchRequest)]

    assert (min(asked), max(asked)) == (480, 600)
    assert len(asked) == 1000


def test_where_the_link_is_to_be_quiet_a_watch_lasts_up_to_an_hour() -> None:
    def asked(chance: float) -> Command:
        return Reflection(LINK, version=1, watch_timeout=3600).next(UP, chance)

    assert [asked(0.0), asked(0.999999)] == [WatchRequest(1, 2880), WatchRequest(1, 3600)]


def test_one_request_runs_at_a_time() -> None:
    reflection = listing()
    assert reflection.next(UP, 0.0) == Wait(math.inf)
    reflection.page(page(), UP)
    assert isinstance(reflection.next(UP, 0.0), WatchRequest)
    assert isinstance(reflection.next(UP, 0.0), Wait)
    reflection.opened(UP)
    assert isinstance(reflection.next(UP, 0.0), Wait)


def test_a_stream_is_open_while_its_watch_is() -> None:
    reflection = listing()
    assert not reflection.is_open(UP)
    reflection.page(page(), UP)
    assert not reflection.is_open(UP)
    reflection.next(UP, 0.0)
    assert not reflection.is_open(UP)
    reflection.opened(UP)
    assert reflection.is_open(UP)
    reflection.ended(UP + 500, 0.0)
    assert not reflection.is_open(UP + 500)


def test_a_stream_is_live_once_its_watch_has_come_to_a_list_from_after_the_opening() -> None:
    reflection = watching(100)
    reflection.received(150, UP + 1)
    assert not reflection.is_live(UP + 1), "an event may be one of many that were missed"
    reflection.listed(150, UP + 2, asked_at=UP - 1, at_least=100)
    assert not reflection.is_live(UP + 2), "the list is from before the opening"
    reflection.listed(180, UP + 3, asked_at=UP + 2, at_least=150)
    reflection.listed(190, UP + 3, asked_at=UP + 3, at_least=150)
    assert not reflection.is_live(UP + 3)
    assert reflection.is_live(UP + 3, equal_at=180), "it holds what the list told"
    reflection.received(179, UP + 4)
    assert not reflection.is_live(UP + 4)
    reflection.received(185, UP + 5)
    assert reflection.is_live(UP + 5)

    reflection.doubt(UP + 6)
    assert not reflection.is_live(UP + 6), "the process stood still"
    reflection.listed(185, UP + 7, asked_at=UP + 6, at_least=185)
    assert reflection.is_live(UP + 7)
    reflection.ended(UP + 500, 0.0)
    reflection.next(UP + 501, 0.0)
    reflection.opened(UP + 501)
    assert not reflection.is_live(UP + 501)


def test_after_a_suspend_a_stream_is_live_no_more_before_anything_was_reported() -> None:
    link = UpstreamLink(probe_interval=1.0, probe_timeout=0.9)
    link.probing(UP)
    link.probed(LinkEvidence.ANSWERED, UP)
    reflection = Reflection(link, version=100)
    reflection.next(UP, 0.0)
    reflection.opened(UP)
    reflection.listed(100, UP, asked_at=UP, at_least=100)
    assert reflection.is_live(UP + 1)
    # Within the time for which a watch may be silent.
    woken = UP + 60
    assert not link.is_up(woken)
    assert not reflection.is_open(woken)
    assert not reflection.is_live(woken)
    assert reflection.was_live(woken), "as of the latest answer nothing was missing"
    # Shorter than that for which an answer counts, longer than a probe is late.
    assert link.is_up(UP + 5)
    assert link.is_behind(UP + 5)
    assert not reflection.is_live(UP + 5)
    link.looked_back(woken)
    reflection.doubt(woken)
    link.probing(woken)
    link.probed(LinkEvidence.ANSWERED, woken)
    assert reflection.is_open(woken)
    assert not reflection.is_live(woken), "what came meanwhile may be unread"


def test_two_lists_below_where_the_stream_stood_mean_a_restored_backup() -> None:
    reflection = watching(100)
    reflection.received(150, UP + 1)
    assert not reflection.listed(120, UP + 2, asked_at=UP + 1, at_least=110), "it was overtaken"
    assert not reflection.listed(120, UP + 2, asked_at=UP + 1, at_least=150), "only once"
    assert not reflection.is_live(UP + 2), "it is doubtful"
    assert not reflection.listed(120, UP + 3, asked_at=UP + 1, at_least=150), "asked before that"
    assert not reflection.listed(150, UP + 4, asked_at=UP + 3, at_least=150)
    assert reflection.is_live(UP + 4), "it was another stream of a relay above"
    assert not reflection.listed(120, UP + 5, asked_at=UP + 4, at_least=150)
    assert reflection.listed(120, UP + 6, asked_at=UP + 5, at_least=150)
    assert isinstance(reflection.next(UP + 6, 0.0), CloseRequest)
    assert isinstance(reflection.next(UP + 6, 0.0), ListRequest)


def test_where_the_watch_is_not_open_one_list_means_a_restored_backup() -> None:
    reflection = Reflection(LINK, version=150)
    reflection.next(UP, 0.0)
    assert reflection.listed(120, UP + 1, asked_at=UP, at_least=150)


def test_a_watch_that_ends_after_one_event_each_time_is_opened_once_a_second() -> None:
    reflection, now, version = Reflection(LINK, version=1), UP, 1
    starts: list[float] = []
    while len(starts) < 8:
        match reflection.next(now, 0.0):
            case WatchRequest():
                starts.append(now)
                reflection.opened(now)
                version += 1
                reflection.received(version, now)
                if version % 2:
                    reflection.ended(now, 0.0)
                else:
                    reflection.failed(Trouble.UNREACHABLE, now, 0.0)
            case Wait(until):
                now = until

    assert [after - before for before, after in pairwise(starts)] == pytest.approx([1.0] * 7)


def test_a_watch_that_ended_goes_on_at_once_from_the_last_version() -> None:
    reflection = watching(100)
    reflection.received(120, UP + 10)
    reflection.ended(UP + 500, 0.5)

    assert reflection.next(UP + 500, 0.0) == WatchRequest(120, 480)


def test_what_is_taken_in_while_its_watch_is_closed_is_not_asked_for_again() -> None:
    reflection = watching(100)
    reflection.link(False, UP + 1)
    assert isinstance(reflection.next(UP + 1, 0.0), CloseRequest)
    reflection.received(105, UP + 1)
    reflection.link(True, UP + 2)

    assert reflection.next(UP + 2, 0.0) == WatchRequest(105, 480)


# ── pages ──


def test_a_list_is_there_with_its_last_page() -> None:
    reflection = listing()
    assert reflection.page(page(100, "next", [item("a", 5)]), UP) is None
    assert reflection.next(UP, 0.0) == ListRequest("next", 1000)
    assert reflection.page(page(100, "last", [item("b", 6)]), UP) is None
    assert reflection.next(UP, 0.0) == ListRequest("last", 1000)
    whole = reflection.page(page(100, "", [item("c", 7)]), UP)

    assert whole is not None
    assert (whole.version, whole.continue_token) == (100, "")
    assert [i.key[1] for i in whole.items] == ["a", "b", "c"]


def test_a_page_that_got_lost_is_asked_for_again() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.next(UP, 0.0)
    reflection.failed(Trouble.UNREACHABLE, UP, 0.0)
    assert reflection.next(UP + 10, 0.0) == ListRequest("next", 1000)
    whole = reflection.page(page(100, "", [item("b", 6)]), UP + 10)

    assert whole is not None
    assert [i.key[1] for i in whole.items] == ["a", "b"]


def test_a_list_whose_token_expired_is_asked_for_as_a_whole() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.next(UP, 0.0)
    reflection.failed(Trouble.EXPIRED, UP, 0.0)
    assert reflection.next(UP, 0.0) == ListRequest("", 0)
    whole = reflection.page(page(200, "", [item("b", 150)]), UP)

    assert whole is not None
    assert (whole.version, [i.key[1] for i in whole.items]) == (200, ["b"])


def test_the_next_list_is_paged_again() -> None:
    reflection = listing()
    reflection.page(page(100, "next"), UP)
    reflection.next(UP, 0.0)
    reflection.failed(Trouble.EXPIRED, UP, 0.0)
    reflection.next(UP, 0.0)
    reflection.page(page(200), UP)
    reflection.relist(UP)

    assert reflection.next(UP, 0.0) == ListRequest("", 1000)


def test_nothing_of_a_list_is_left_for_the_next_one() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.next(UP, 0.0)
    reflection.page(page(100, "", [item("b", 6)]), UP)
    reflection.next(UP, 0.0)
    reflection.failed(Trouble.EXPIRED, UP, 0.0)
    assert reflection.next(UP, 0.0) == ListRequest("", 1000)
    whole = reflection.page(page(200, "", [item("c", 150)]), UP)

    assert whole is not None
    assert [i.key[1] for i in whole.items] == ["c"]


def test_pages_at_different_versions_are_no_list() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.next(UP, 0.0)
    with pytest.raises(Malformed):
        reflection.page(page(101, "", [item("b", 6)]), UP)
    reflection.failed(Trouble.BROKEN, UP, 0.0)

    assert reflection.next(UP + 10, 0.0) == ListRequest("", 1000)


# ── what goes wrong ──


def test_an_expired_version_leads_to_a_list_at_once() -> None:
    reflection = watching(100)
    reflection.failed(Trouble.EXPIRED, UP + 10, 0.5)

    assert reflection.next(UP + 10, 0.0) == ListRequest("", 1000)


def test_a_resource_that_is_gone_is_listed_when_it_is_back() -> None:
    reflection = watching(100)
    reflection.failed(Trouble.GONE_RESOURCE, UP, 0.0)

    assert waited(reflection.next(UP, 0.0)) > UP
    assert reflection.next(UP + 60, 0.0) == ListRequest("", 1000)


@pytest.mark.parametrize("trouble", [Trouble.UNREACHABLE, Trouble.BROKEN, Trouble.THROTTLED])
def test_a_watch_that_broke_goes_on_from_its_version_after_a_moment(trouble: Trouble) -> None:
    reflection = watching(100)
    reflection.failed(trouble, UP, 0.0)

    assert reflection.next(UP, 0.0) == Wait(UP + 0.2)
    assert reflection.next(UP + 0.2, 0.0) == WatchRequest(100, 480)


def delays(trouble: Trouble, chance: float, attempts: int) -> list[float]:
    reflection, now, found = Reflection(LINK, version=1), UP, []
    for _ in range(attempts):
        assert isinstance(reflection.next(now, 0.0), WatchRequest | ListRequest)
        reflection.failed(trouble, now, chance)
        until = waited(reflection.next(now, 0.0))
        found.append(until - now)
        now = until
    return found


def test_delays_double_up_to_five_seconds() -> None:
    assert delays(Trouble.UNREACHABLE, 0.0, 8) == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])


def test_up_to_half_of_a_delay_is_chance() -> None:
    longest, shortest = (delays(Trouble.BROKEN, chance, 8) for chance in (0.0, 0.999_999))

    assert shortest == pytest.approx([delay / 2 for delay in longest], rel=1e-3)


@pytest.mark.parametrize("trouble", [Trouble.DENIED, Trouble.GONE_RESOURCE])
def test_what_only_an_administrator_can_change_is_tried_once_a_minute(trouble: Trouble) -> None:
    assert delays(trouble, 0.0, 20)[-1] == 60


def test_after_a_watch_that_was_good_the_first_delay_is_short_again() -> None:
    reflection = watching(100)
    for attempt in range(1, 6):
        reflection.failed(Trouble.UNREACHABLE, UP + attempt * 10, 0.0)
        reflection.next(UP + attempt * 10 + 9, 0.0)
    now = UP + 60
    reflection.opened(now)
    reflection.received(101, now)
    reflection.failed(Trouble.UNREACHABLE, now, 0.0)

    assert reflection.next(now, 0.0) == Wait(now + 0.2)


def test_upstream_says_itself_when_to_come_back() -> None:
    reflection = watching(100)
    reflection.failed(Trouble.THROTTLED, UP, 0.0, retry_after=7)
    assert reflection.next(UP, 0.0) == Wait(UP + 7)

    reflection = watching(100)
    reflection.failed(Trouble.BROKEN, UP, 0.0, retry_after=1e9)
    assert reflection.next(UP, 0.0) == Wait(UP + 60)


def test_very_short_watches_are_spaced_out() -> None:
    reflection, now = Reflection(LINK, version=1), UP
    starts: list[float] = []
    while len(starts) < 8:
        match reflection.next(now, 0.0):
            case WatchRequest():
                starts.append(now)
                reflection.opened(now)
                reflection.ended(now, 0.0)
            case ListRequest():
                reflection.page(page(), now)
            case Wait(until):
                now = until

    gaps = [after - before for before, after in pairwise(starts)]
    assert gaps == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])


def asked(reflection: Reflection, now: float) -> type[object]:
    """The next request, as soon as it may go."""
    while True:
        match reflection.next(now, 0.0):
            case Wait(until):
                now = until
            case command:
                return type(command)


def in_vain(reflection: Reflection, now: float, kind: str) -> None:
    match kind:
        case "ends":
            reflection.opened(now)
            reflection.ended(now, 0.0)
        case "garbage":
            reflection.opened(now)
            reflection.failed(Trouble.BROKEN, now, 0.0)
        case "refused, while lists work":
            reflection.failed(Trouble.BROKEN, now, 0.0)
            reflection.listed(1, now, asked_at=now, at_least=1)


@pytest.mark.parametrize("kind", ["ends", "garbage", "refused, while lists work"])
def test_a_version_that_no_watch_gets_past_is_listed_anew(kind: str) -> None:
    reflection, now = Reflection(LINK, version=1), UP
    for _ in range(FRUITLESS_MAX):
        assert asked(reflection, now) is WatchRequest
        in_vain(reflection, now, kind)
        now += 10.0

    assert asked(reflection, now) is ListRequest


def test_an_api_server_that_answers_nothing_is_no_reason_to_list_anew() -> None:
    reflection, now = Reflection(LINK, version=1), UP
    for _ in range(20):
        assert asked(reflection, now) is WatchRequest
        reflection.failed(Trouble.BROKEN, now, 0.0)
        now += 10.0


def test_a_watch_that_brings_something_or_lasts_makes_those_before_chance() -> None:
    reflection, now = Reflection(LINK, version=1), UP
    for number in range(20):
        assert asked(reflection, now) is WatchRequest
        reflection.opened(now)
        if number % 2:
            reflection.received(number + 2, now)
        now += 0.1 if number % 4 else GOOD_WATCH
        reflection.ended(now, 0.0)
        now += 10.0


def test_a_version_that_expires_again_and_again_does_not_make_a_loop_of_lists() -> None:
    reflection, now = Reflection(LINK), UP
    lists: list[float] = []
    while len(lists) < 8:
        match reflection.next(now, 0.0):
            case ListRequest():
                lists.append(now)
                reflection.page(page(), now)
            case WatchRequest():
                reflection.opened(now)
                reflection.failed(Trouble.EXPIRED, now, 0.0)
            case Wait(until):
                now = until

    gaps = [after - before for before, after in pairwise(lists)]
    assert gaps == pytest.approx([0, 0.2, 0.4, 0.8, 1.6, 3.2, 5])


ANSWERS = st.sampled_from([*Trouble, "well", "backwards", "bookmark"])


@play(300)
@given(
    lists=st.lists(ANSWERS, min_size=1, max_size=3),
    watches=st.lists(ANSWERS, min_size=1, max_size=3),
    chance=st.floats(0, 0.999),
)
def test_an_upstream_that_answers_at_once_and_brings_nothing_is_not_asked_in_a_tight_loop(
    lists: list[Trouble | str], watches: list[Trouble | str], chance: float
) -> None:
    reflection, now, requests = Reflection(LINK), UP, 0
    while now < UP + 120:
        assert requests < 200
        match reflection.next(now, chance):
            case ListRequest():
                requests += 1
                answer = lists[requests % len(lists)]
                if isinstance(answer, Trouble):
                    reflection.failed(answer, now, chance)
                else:
                    reflection.page(page(), now)
            case WatchRequest(version):
                requests += 1
                answer = watches[requests % len(watches)]
                if isinstance(answer, Trouble):
                    reflection.failed(answer, now, chance)
                    continue
                reflection.opened(now)
                if answer == "backwards":
                    reflection.received(version - 1, now)
                elif answer == "bookmark":
                    reflection.received(version, now)
                    reflection.failed(Trouble.BROKEN, now, chance)
                else:
                    reflection.ended(now, chance)
            case Wait(until):
                assert until > now
                now = until


# ── silence ──


def test_a_silent_watch_is_opened_again_where_it_was() -> None:
    reflection = watching(100)
    reflection.received(110, UP + 10)
    assert reflection.next(UP + 11, 0.0) == Wait(UP + 100)
    assert reflection.is_open(UP + 99)
    assert not reflection.is_open(UP + 100)

    assert isinstance(reflection.next(UP + 100, 0.0), CloseRequest)
    assert reflection.next(UP + 100, 0.0) == WatchRequest(110, 480)


def test_bookmarks_are_signs_of_life() -> None:
    reflection = watching(100)
    for minute in range(1, 10):
        reflection.received(100, UP + 60 * minute)
        assert reflection.is_open(UP + 60 * minute + 59)
        assert isinstance(reflection.next(UP + 60 * minute + 59, 0.0), Wait)


def test_parts_of_a_long_event_are_signs_of_life() -> None:
    reflection = watching(100)
    for part in range(1, 10):
        reflection.progressed(UP + 60 * part)
        assert reflection.is_open(UP + 60 * part + 59)
        assert isinstance(reflection.next(UP + 60 * part + 59, 0.0), Wait)
    assert reflection.version == 100
    assert isinstance(reflection.next(UP + 630, 0.0), CloseRequest)


def test_a_watch_that_is_never_accepted_is_given_up() -> None:
    reflection = Reflection(LINK, version=100)
    reflection.next(UP, 0.0)

    assert isinstance(reflection.next(UP + 90, 0.0), CloseRequest)


def test_a_version_that_upstream_does_not_know_yet_is_doubted_after_three_silences() -> None:
    reflection, now = watching(100), UP
    for _ in range(2):
        now += 90
        assert isinstance(reflection.next(now, 0.0), CloseRequest)
        assert reflection.next(now, 0.0) == WatchRequest(100, 480)
        reflection.opened(now)
    assert isinstance(reflection.next(now + 90, 0.0), CloseRequest)

    assert reflection.next(now + 90, 0.0) == ListRequest("", 1000)


def test_an_upstream_that_went_back_is_listed_again() -> None:
    reflection = watching(100)
    reflection.received(99, UP + 1)

    assert not reflection.is_open(UP + 1)
    assert isinstance(reflection.next(UP + 1, 0.0), CloseRequest)
    assert reflection.next(UP + 1, 0.0) == ListRequest("", 1000)


# ── link ──


def test_while_the_link_is_down_nothing_is_tried() -> None:
    reflection = Reflection(LINK, version=100, may_ask=False)
    for now in (UP, UP + 1, UP + 100_000):
        assert reflection.next(now, 0.0) == Wait(math.inf)


@pytest.mark.parametrize("begun", [listing, watching])
def test_a_request_ends_with_the_link(begun: Callable[[], Reflection]) -> None:
    reflection = begun()
    reflection.link(False, UP + 1)

    assert not reflection.is_open(UP + 1)
    assert isinstance(reflection.next(UP + 1, 0.0), CloseRequest)
    assert reflection.next(UP + 1, 0.0) == Wait(math.inf)


def test_a_link_that_comes_back_ends_the_wait() -> None:
    reflection = watching(100)
    for attempt in range(10):
        reflection.failed(Trouble.UNREACHABLE, UP + 10 * attempt, 0.0)
        reflection.next(UP + 10 * attempt + 9, 0.0)
    reflection.failed(Trouble.UNREACHABLE, UP + 200, 0.0)
    assert waited(reflection.next(UP + 200, 0.0)) == UP + 205
    reflection.link(False, UP + 201)
    reflection.link(True, UP + 202)

    assert reflection.next(UP + 202, 0.0) == WatchRequest(100, 480)


def test_a_link_that_comes_back_does_not_end_the_wait_that_upstream_asked_for() -> None:
    reflection = watching(100)
    reflection.failed(Trouble.THROTTLED, UP, 0.0, retry_after=30)
    reflection.link(False, UP + 1)
    reflection.link(True, UP + 2)

    assert reflection.next(UP + 2, 0.0) == Wait(UP + 30)


def test_pages_outlast_an_outage() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.next(UP, 0.0)
    reflection.link(False, UP + 1)
    reflection.next(UP + 1, 0.0)
    reflection.link(True, UP + 2)

    assert reflection.next(UP + 2, 0.0) == ListRequest("next", 1000)


# ── list again ──


def test_a_doubtful_stream_is_closed_and_listed_again() -> None:
    reflection = watching(100)
    reflection.relist(UP + 1)
    assert not reflection.is_open(UP + 1)
    reflection.received(101, UP + 1)

    assert isinstance(reflection.next(UP + 1, 0.0), CloseRequest)
    assert reflection.next(UP + 1, 0.0) == ListRequest("", 1000)


def test_an_upstream_that_goes_back_again_and_again_is_listed_later_each_time() -> None:
    reflection, now = watching(100), UP
    delays = []
    for _ in range(4):
        reflection.relist(now, is_paced=True)
        command = reflection.next(now, 0.0)
        if isinstance(command, CloseRequest):
            command = reflection.next(now, 0.0)
        delays.append(waited(command) - now if isinstance(command, Wait) else 0.0)
        now += 10.0
        reflection.next(now, 0.0)
        reflection.page(page(), now)
        reflection.next(now, 0.0)
        reflection.opened(now)
    assert delays == pytest.approx([0.0, 0.2, 0.4, 0.8])


def test_a_page_that_was_asked_for_before_the_doubt_is_not_taken() -> None:
    reflection = listing()
    reflection.relist(UP)
    assert reflection.page(page(), UP) is None

    assert isinstance(reflection.next(UP, 0.0), CloseRequest)
    assert reflection.next(UP, 0.0) == ListRequest("", 1000)


def test_pages_from_before_the_doubt_are_not_kept() -> None:
    reflection = listing()
    reflection.page(page(100, "next", [item("a", 5)]), UP)
    reflection.relist(UP)
    assert reflection.next(UP, 0.0) == ListRequest("", 1000)
    whole = reflection.page(page(200, "", [item("b", 150)]), UP)

    assert whole is not None
    assert [i.key[1] for i in whole.items] == ["b"]


def test_reports_of_a_closed_request_change_nothing() -> None:
    reflection = watching(100)
    reflection.link(False, UP)
    reflection.next(UP, 0.0)
    reflection.link(True, UP)
    reflection.failed(Trouble.EXPIRED, UP, 0.0)
    reflection.ended(UP, 0.0)
    reflection.opened(UP)
    assert reflection.page(page(500), UP) is None

    assert not reflection.is_open(UP)
    assert reflection.next(UP, 0.0) == WatchRequest(100, 480)


# ── another way to upstream ──


def test_an_open_watch_goes_on_another_way_at_its_cursor_without_a_delay() -> None:
    reflection = watching(100)
    assert not reflection.received(107, UP + 1)
    reflection.reopen()

    assert isinstance(reflection.next(UP + 2, 0.0), CloseRequest)
    assert reflection.next(UP + 2, 0.0) == WatchRequest(107, 480)


def test_what_is_being_listed_or_opened_is_left_as_it_is() -> None:
    for reflection in (listing(), Reflection(LINK, version=1)):
        reflection.next(UP, 0.0)
        reflection.reopen()
        assert isinstance(reflection.next(UP, 0.0), Wait)
