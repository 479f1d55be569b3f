"""What a terminal shows of each state of each component, from the documents of their pages."""

import copy
import io
from typing import Any

import pytest
from rich.console import Console

from edge_sidecars.top.component_panels import drawn
from edge_sidecars.top.panels import Span, clean, strip
from tests.integration.lib.runtime.page_documents import MARKUP, NOW, STATES

# Per component and state, what a person reads.
SHOWS = {
    ("elector", "leader"): ("web-0 leads", "proven for", "released at shutdown", "this pod, leads"),
    ("elector", "switchover"): (
        f"A switchover to {MARKUP} is asked for",
        "named by the switchover",
    ),
    ("elector", "switchover that is not done"): (
        f"Not done: the switchover came too late {MARKUP}",
    ),
    ("elector", "hold"): ("a hold keeps every elector out", "for another 1h56m"),
    ("elector", "priority"): ("asks for the lead in 24s: its priority is 5, the leader's 2",),
    ("elector", "standby"): (f"{MARKUP} leads", "free in 13.9s"),
    ("elector", "without contact"): ("Who leads is not known", "none yet"),
    ("elector", "nobody"): ("No pod leads",),
    ("elector", "shards"): ("6 of 16 shards are this pod's", "2 shards have no owner", MARKUP),
    ("relay", "up"): ("The link is up", "2 outages in the last 24 hours, 2h1m in all", MARKUP),
    ("relay", "down"): ("The link is down", "no route to host", "still", "no: the journal"),
    ("relay", "refused"): ("credentials are refused", "no outage in the last 24 hours"),
    ("relay", "behind a relay that is cut off"): ("The upstream relay is cut off itself",),
    ("relay", "started offline"): ("not known yet",),
    ("pool", "lends"): ("by its own link", "edge-a lends its link to edge-b", "118 MiB", MARKUP),
    ("pool", "borrows"): ("through edge-b", "edge-b lends its link to edge-a"),
    ("pool", "cut off"): ("Is cut off from the cloud", "no peer"),
    ("pool", "controller"): ("This controller leads", "edge-c: too few witnesses", MARKUP),
    ("gm", "leads"): ("This GM leads", "Train Waiting", "reports 1, the last: too old", MARKUP),
    ("gm", "standby"): (f"{MARKUP} leads", "no: Dataset is not listed yet"),
    ("gm", "shards"): ("This GM owns 30 of 64 shards", "4 shards have no owner"),
    ("lc", "up"): ("The link to GM is up", "2 dataset, 1 federatedlearningjob", "12.0 MiB"),
    ("lc", "offline"): (
        "The link to the relay is down",
        "12 waiting, the oldest for 1h5m",
        "too old",
    ),
    ("lc", "disk full"): (f"disk full {MARKUP}", "lc.db.broken"),
}
INSTEAD: tuple[object, ...] = (None, 7, "text", [])
ALL = [(name, state) for name, states in STATES.items() for state in states]


def shown(component: str, status: dict[str, Any], *, width: int = 200, lag: float = 0.0) -> str:
    console = Console(width=width, record=True, force_terminal=True, file=io.StringIO())
    console.print(*drawn(component, status, wall=NOW, lag=lag), sep="\n")
    return console.export_text()


def test_every_recorded_state_is_drawn_here_too() -> None:
    assert SHOWS.keys() == {(name, state.name) for name, state in ALL}


@pytest.mark.parametrize(("component", "state"), ALL, ids=lambda it: getattr(it, "name", it))
def test_each_state_says_what_its_page_says(component: str, state: Any) -> None:
    """Also in a narrow terminal, where lines are longer than it is wide."""
    text = shown(component, state.status)
    for expected in SHOWS[component, state.name]:
        assert expected in text
    for line in shown(component, state.status, width=40).splitlines():
        assert len(line) <= 40


@pytest.mark.parametrize("component", STATES)
def test_a_document_of_another_release_is_called_one(component: str) -> None:
    """Whichever field it lacks, and whatever it has instead."""
    whole = STATES[component][0].status
    lacking = 0
    for name in whole:
        for instead in INSTEAD:
            status = copy.deepcopy(whole)
            status[name] = instead
            shown(component, status)
        status = copy.deepcopy(whole)
        del status[name]
        lacking += "of another release" in shown(component, status)
    assert lacking > 2


def test_the_time_that_a_lead_is_proven_runs_down_since_the_document() -> None:
    status = STATES["elector"][0].status
    assert "12.5 s" in shown("elector", status)
    assert "8.5 s" in shown("elector", status, lag=4.0)
    assert "no longer" in shown("elector", status, lag=13.0)


def test_a_name_moves_no_cursor_and_hides_nothing() -> None:
    status = copy.deepcopy(STATES["elector"][1].status)
    status["leader"]["holderPod"] = "a\x1b[2J\x07\r\n\u202eb\x9b[red]c[/red]"
    console_text = shown("elector", status)
    assert "\ufffd[2J" in console_text
    assert "[red]c[/red] leads" in console_text
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b"} & set(console_text)


def test_clean_text_is_one_line_of_what_is_shown() -> None:
    assert clean("ä 世 x") == "ä 世 x"
    assert clean("a\nb\tc") == "a\ufffdb\ufffdc"
    assert [clean(it) for it in (True, False, None, 3)] == ["yes", "no", "-", "3"]


def test_an_outage_is_on_the_strip_however_short_and_wherever_it_is() -> None:
    up = Span(0, 100, ("u", ""))
    for begin, end in ((0, 0.01), (99.99, 100), (-50, 1), (50, 400)):
        found = strip(0, 100, [up, Span(begin, end, ("d", ""))]).plain
        assert len(found) == 60
        assert "d" in found
    assert strip(0, 0, []).plain == "·" * 60
