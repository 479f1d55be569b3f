"""What is told about a relay: the /status document, its table, and the Prometheus text."""

import json
import re
from dataclasses import replace

import pytest

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.runtime.metrics import Kind, render
from relay_sidecar.commands.status import table
from relay_sidecar.streams.streams import Limits, NoRoom, Streams
from relay_sidecar.telemetry.metrics import MAX_REFUSALS, RelayCounters, measure
from relay_sidecar.telemetry.status import (
    JournalStatus,
    Outage,
    RelayStatus,
    StreamStatus,
    UpstreamLinkStatus,
)
from tests.unit.relay.streams.movers import still_streams
from tests.unit.relay.streams.samples import item

SCOPE = ListScope(ResourceName("", "v1", "pods"))
PODS = StreamStatus(
    resource="pods.v1.",
    namespace="ns",
    label_selector='app in (a,"b")',
    field_selector="spec.nodeName=n1",
    state="live",
    refusal="",
    objects=3,
    size_bytes=4096,
    resource_version=2**60,
    age=12.3456,
    watchers=2,
)
NEVER_LISTED = replace(
    PODS,
    resource="widgets.v1.example.com",
    namespace="",
    label_selector="",
    field_selector="",
    state="catching up",
    refusal="403 Forbidden: widgets is forbidden",
    objects=0,
    resource_version=None,
    age=None,
    watchers=0,
)
STATUS = RelayStatus(
    version="1.2.3",
    uptime=3723.0,
    lack="",
    access="own",
    link=UpstreamLinkStatus(
        server="https://10.0.0.1:443",
        state="up",
        down_for=None,
        outages=(Outage(began=1795309323.5, seconds=61.2349, why="refused"),),
    ),
    journal=JournalStatus(directory="/data", failure=None, note=None),
    streams=(PODS, NEVER_LISTED),
    watchers=2,
    max_watchers=1000,
    max_objects=100,
)


def samples(text: str) -> dict[str, float]:
    """By name and labels, as they stand in the text."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def unread_streams(*, max_objects: int = 10) -> Streams:
    """None of them listed yet."""
    limits = Limits(
        max_objects=max_objects,
        max_watchers=1,
        window_bytes=1 << 20,
        window_events=10,
        idle_timeout=60.0,
        retain=60.0,
        open_timeout=1.0,
    )
    return still_streams(limits, is_up=False)


def test_the_document_is_plain_json_with_versions_as_text() -> None:
    told = json.loads(STATUS.json())
    assert told["isReady"] is True
    assert told["link"] == {
        "server": "https://10.0.0.1:443",
        "isUp": True,
        "state": "up",
        "via": None,
        "ownIsUp": True,
        "downSeconds": None,
        "wasUp": True,
        "cause": None,
        "proxy": None,
        "outages": [{"began": "2026-11-22T01:02:03.500Z", "seconds": 61.235, "why": "refused"}],
    }
    assert told["objects"] == 3
    assert told["streams"][0]["resourceVersion"] == str(2**60)
    assert told["streams"][0]["ageSeconds"] == 12.346
    assert told["streams"][1]["resourceVersion"] is None
    assert told["streams"][1]["ageSeconds"] is None


def test_every_metric_is_described_once_and_named_as_prometheus_wants_it() -> None:
    metrics = measure(STATUS, RelayCounters())
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))
    for metric in metrics:
        assert re.fullmatch(r"relay_[a-z_]+", metric.name)
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
        assert metric.text.endswith(".")


def test_what_streams_hold_is_told_of_each() -> None:
    told = samples(render(measure(STATUS, RelayCounters())))
    labels = (
        'resource="pods.v1.",namespace="ns",label_selector="app in (a,\\"b\\")",'
        'field_selector="spec.nodeName=n1"'
    )
    assert told[f"relay_stream_objects{{{labels}}}"] == 3
    assert told[f"relay_stream_age_seconds{{{labels}}}"] == 12.3456
    assert told['relay_streams{state="live"}'] == 1
    assert told['relay_streams{state="catching up"}'] == 1
    ages = [name for name in told if name.startswith("relay_stream_age_seconds")]
    assert len(ages) == 1, "what was never listed has no age"


def test_a_stream_that_nobody_reads_has_no_age_to_be_alarmed_at() -> None:
    idle = replace(PODS, state="idle", age=3600.0)
    told = samples(render(measure(replace(STATUS, streams=(idle,)), RelayCounters())))
    assert told['relay_streams{state="idle"}'] == 1
    assert not [name for name in told if name.startswith("relay_stream_age_seconds")]


def test_requests_are_counted_by_method_code_and_source() -> None:
    counters = RelayCounters()
    for _ in range(3):
        counters.answered("GET", 200, "cache")
    counters.answered("GET", 503, "upstream")
    for method in ("FOO", "BAR"):
        counters.answered(method, 405, "upstream")
    told = samples(render(measure(STATUS, counters)))
    assert told['relay_requests_total{method="GET",code="200",source="cache"}'] == 3
    assert told['relay_requests_total{method="GET",code="503",source="upstream"}'] == 1
    assert told['relay_requests_total{method="other",code="405",source="upstream"}'] == 2


def test_answers_are_timed_by_verb_and_source() -> None:
    counters = RelayCounters()
    for seconds in (0.0005, 0.7):
        counters.took("list", "cache", seconds)
    counters.took("create", "upstream", 0.02)
    told = samples(render(measure(STATUS, counters)))
    name, of_lists = "relay_request_duration_seconds", 'verb="list",source="cache"'
    assert told[f'{name}_bucket{{{of_lists},le="0.001"}}'] == 1
    assert told[f'{name}_bucket{{{of_lists},le="+Inf"}}'] == 2
    assert told[f'{name}_count{{verb="create",source="upstream"}}'] == 1


def test_refused_streams_are_counted_by_resource_and_code() -> None:
    counters = RelayCounters()
    for _ in range(2):
        counters.refused("pods.v1.", 403)
    counters.refused("pods.v1.", 429)
    told = samples(render(measure(STATUS, counters)))
    assert told['relay_stream_refusals_total{resource="pods.v1.",code="403"}'] == 2
    assert told['relay_stream_refusals_total{resource="pods.v1.",code="429"}'] == 1


def test_requests_for_what_does_not_exist_do_not_grow_the_metrics() -> None:
    counters = RelayCounters()
    for number in range(2 * MAX_REFUSALS):
        counters.request_refused("list", f"things-{number}", "Forbidden")
    assert len(counters.refused_requests) == MAX_REFUSALS + 1
    assert counters.refused_requests["list", "other", "Forbidden"] == MAX_REFUSALS


@pytest.mark.parametrize("code", [401, 403, 404, 405, 429])
def test_each_stream_that_is_refused_is_counted_whether_or_not_it_is_dropped(code: int) -> None:
    streams = unread_streams()
    stream = streams.open(SCOPE, now=0.0)
    streams.refused(stream, Failure(code, "", "why"))
    assert streams.counters.refusals == {("pods.v1.", code): 1}


def test_a_list_for_which_there_is_no_room_is_counted_as_refused() -> None:
    streams = unread_streams(max_objects=2)
    page = Page("PodList", "v1", 10, "", [item(name, 5) for name in "abc"])
    with pytest.raises(NoRoom):
        streams.seed(SCOPE, page, known_at=0.0, at=0.0, now=0.0)
    assert streams.counters.refusals == {("pods.v1.", 429): 1}


def test_whoever_makes_up_resources_does_not_grow_the_process() -> None:
    counters = RelayCounters()
    for number in range(MAX_REFUSALS + 9):
        counters.refused(f"made-up-{number}.v1.", 404)
    counters.refused("made-up-0.v1.", 404)
    assert len(counters.refusals) == MAX_REFUSALS + 1
    assert counters.refusals["other", 404] == 9
    assert counters.refusals["made-up-0.v1.", 404] == 2


def test_an_outage_and_a_full_disk_are_to_be_seen() -> None:
    status = replace(
        STATUS,
        link=replace(STATUS.link, state="relayed", down_for=7.5),
        journal=replace(STATUS.journal, failure="disk full"),
    )
    told = samples(render(measure(status, RelayCounters())))
    assert told["relay_link_up"] == 0
    states = {key: value for key, value in told.items() if key.startswith("relay_link_state")}
    assert [key for key, value in states.items() if value] == ['relay_link_state{state="relayed"}']
    assert len(states) == 4
    assert told["relay_link_down_seconds"] == 7.5
    assert told["relay_journal_failed"] == 1
    healthy = samples(render(measure(STATUS, RelayCounters())))
    assert (healthy["relay_link_up"], healthy["relay_journal_failed"]) == (1, 0)


def test_no_selector_breaks_out_of_its_label() -> None:
    hostile = replace(PODS, label_selector='a="b"} 1\nrelay_link_up 0\\')
    text = render(measure(replace(STATUS, streams=(hostile,)), RelayCounters()))
    assert [line for line in text.splitlines() if line.startswith("relay_link_up")] == [
        "relay_link_up 1"
    ]


def test_the_table_tells_link_and_streams() -> None:
    lines = table(STATUS.document()).splitlines()
    assert lines[0].split() == ["RELAY", "1.2.3,", "up", "for", "1h2m"]
    assert "LINK      up, to https://10.0.0.1:443" in lines
    assert any(re.match(r"pods.v1 +ns +app in .* live +3 +4096 +12s +2$", line) for line in lines)
    assert any(re.match(r"widgets.* \* +- +catching up: 403 .* -  ", line) for line in lines)


@pytest.mark.parametrize(
    ("link", "told"),
    [
        (
            UpstreamLinkStatus(server="https://h", state="down", down_for=None),
            "not known yet, to https://h",
        ),
        (
            UpstreamLinkStatus(server="https://h", state="down", down_for=1.0, was_up=False),
            "not up since this relay started 1h2m ago, to https://h",
        ),
        (
            UpstreamLinkStatus(server="https://h", state="down", down_for=90061.0),
            "down for 1d1h, to",
        ),
        (
            UpstreamLinkStatus(server="https://h", state="relayed", down_for=9.0),
            "https://h, a relay that",
        ),
        (
            UpstreamLinkStatus(server="https://h", state="unauthorized", down_for=None),
            "refused (401)",
        ),
        (
            UpstreamLinkStatus(
                server="https://h", state="up", down_for=None, via="n3", is_own_up=False
            ),
            "up via n3, to https://h",
        ),
    ],
)
def test_the_table_tells_each_state_of_the_link(link: UpstreamLinkStatus, told: str) -> None:
    assert told in table(replace(STATUS, link=link, streams=()).document())


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0s"), (59, "59s"), (60, "1m0s"), (3600, "1h"), (3723, "1h2m"), (86400 * 8, "8d")],
)
def test_ages_are_told_in_two_units(seconds: float, told: str) -> None:
    first = table(replace(STATUS, uptime=seconds).document()).splitlines()[0]
    assert first.endswith(f"up for {told}")


def test_over_a_neighbour_upstream_is_reached_and_the_own_link_is_down() -> None:
    link = UpstreamLinkStatus(
        server="https://h", state="up", down_for=None, via="n3", is_own_up=False
    )
    lent = replace(STATUS, link=link)
    told = lent.document()["link"]
    assert (told["isUp"], told["ownIsUp"], told["via"]) == (True, False, "n3")
    found = samples(render(measure(lent, RelayCounters())))
    assert (found["relay_link_up"], found['relay_link_via{node="n3"}']) == (1, 1)
    own = samples(render(measure(STATUS, RelayCounters())))
    assert not any(it.startswith("relay_link_via") for it in own)
