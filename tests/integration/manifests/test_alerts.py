"""What each alert fires at, and what it does not: as Prometheus itself reckons, by promtool."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml

from elector_sidecar.metrics import COMPONENT
from tests.unit.manifests.built import MANIFESTS, Json
from tools.harness.peers.promtool import require_promtool

RULES = MANIFESTS / "monitoring" / "rules.yaml"
# Seconds on a busy machine; a quiet one needs a tenth of one.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Case:
    """`series` in promtool's words, a value each minute: `5x3` is 5 and three more, `0+2x3` is
    0 2 4 6, `_x3` three without one, `stale` the end of a series whose target is gone. The alert
    fires with `labels` at `at`, or with none does not."""

    alert: str
    what: str
    series: dict[str, str]
    at: str
    labels: dict[str, str] = field(default_factory=dict)


def _pools(metric: str, *values: str) -> dict[str, str]:
    labels = 'namespace="edge-pool",pool="factory"'
    return {
        f'pool_controller_{metric}{{{labels},pod="controller-{n}"}}': value
        for n, value in enumerate(values)
    }


def _controllers(*values: str) -> dict[str, str]:
    labels = 'namespace="edge-pool"'
    return {
        f'pool_controller_ready{{{labels},pod="controller-{n}"}}': value
        for n, value in enumerate(values)
    }


def _electors(metric: str, *values: str) -> dict[str, str]:
    labels = 'namespace="shop",name="till"'
    if metric in SHARED:
        labels += f',component="{COMPONENT}"'
    return {f'{metric}{{{labels},pod="till-{n}"}}': value for n, value in enumerate(values)}


def _renewals(buckets: dict[str, str]) -> dict[str, str]:
    """By upper bound."""
    labels = 'namespace="shop",name="till",pod="till-0",result="ok"'
    name = "elector_renewal_duration_seconds_bucket"
    return {f'{name}{{{labels},le="{bound}"}}': values for bound, values in buckets.items()}


def _delays(buckets: dict[str, str]) -> dict[str, str]:
    """Of a relay's events, by upper bound."""
    labels = 'namespace="shop",pod="till-0"'
    name = "relay_event_delay_seconds_bucket"
    return {f'{name}{{{labels},le="{bound}"}}': values for bound, values in buckets.items()}


def _client_go(value: str, name: str) -> dict[str, str]:
    """A controller in the same namespace that elects with client-go."""
    labels = f'namespace="shop",name="{name}",pod="controller-0"'
    return {f"leader_election_master_status{{{labels}}}": value}


def _relay(**values: str) -> dict[str, str]:
    return {f'relay_{name}{{namespace="shop",pod="till-0"}}': v for name, v in values.items()}


def _listener(**values: str) -> dict[str, str]:
    labels = 'namespace="shop",pod="till-0",listen="0.0.0.0:4041"'
    return {f"edge_sidecars_{name}{{{labels}}}": v for name, v in values.items()}


def _streams(metric: str, **values: str) -> dict[str, str]:
    labels = 'namespace="shop",pod="till-0"'
    return {f'relay_{metric}{{{labels},resource="{it}"}}': v for it, v in values.items()}


def _scraped(values: str, **labels: str) -> dict[str, str]:
    told = ",".join(f'{key}="{value}"' for key, value in {**SCRAPED, **labels}.items())
    return {f"up{{{told}}}": values}


def _refusals(code: str, values: str) -> dict[str, str]:
    labels = f'namespace="shop",pod="till-0",resource="pods.v1.",code="{code}"'
    return {f"relay_stream_refusals_total{{{labels}}}": values}


def _states(**values: str) -> dict[str, str]:
    labels = 'namespace="shop",pod="till-0"'
    return {
        f'relay_streams{{{labels},state="{state.replace("_", " ")}"}}': it
        for state, it in values.items()
    }


def _gms(metric: str, *values: str, **labels: str) -> dict[str, str]:
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return {
        f'gm_{metric}{{namespace="sedna",pod="gm-{n}"{more}}}': value
        for n, value in enumerate(values)
    }


# Metrics of the elector whose names are client-go's.
SHARED = ("leader_election_master_status", "leader_election_slowpath_total")
LEASE = {"namespace": "shop", "name": "till"}
POD = {"namespace": "shop", "pod": "till-0"}
POOL = {"namespace": "edge-pool", "pool": "factory"}
GM = {"namespace": "sedna", "pod": "gm-0"}
SCRAPED = {**POD, "job": "edge-sidecars", "container": "relay"}
REFUSED = {**POD, "resource": "pods.v1.", "code": "403"}
CASES = (
    Case(
        "NobodyLeads",
        "nobody of two leads",
        _electors("leader_election_master_status", "0x9", "0x9"),
        "2m",
        LEASE,
    ),
    Case(
        "NobodyLeads",
        "one is followed by another",
        _electors("leader_election_master_status", "1 1 0 0 0 0", "0 0 0 1 1 1"),
        "5m",
    ),
    Case(
        "NobodyLeads",
        "all of them are gone",
        _electors("leader_election_master_status", "1x20 stale", "0x20 stale"),
        "23m",
        LEASE,
    ),
    Case(
        "NobodyLeads",
        "all of them were removed an hour ago",
        _electors("leader_election_master_status", "1x20 stale", "0x20 stale"),
        "90m",
    ),
    Case(
        "NobodyLeads",
        "the leader is gone and another leads",
        _electors("leader_election_master_status", "1x20 stale", "0x20 1x20"),
        "23m",
    ),
    Case("NobodyLeads", "a standby of client-go's", _client_go("0x9", "controller"), "5m"),
    Case(
        "NobodyLeads",
        "a leader of client-go's is gone",
        _client_go("1x5 stale", "controller"),
        "20m",
    ),
    Case(
        "NobodyLeads",
        "nobody of two leads, and client-go's leader by another Lease does not hide it",
        _electors("leader_election_master_status", "0x9", "0x9") | _client_go("1x9", "controller"),
        "2m",
        LEASE,
    ),
    Case(
        "NobodyLeads",
        "a candidate of client-go's leads by the same Lease",
        _electors("leader_election_master_status", "0x9", "0x9") | _client_go("1x9", "till"),
        "5m",
    ),
    Case(
        "LeaderChangesOften",
        "each of two becomes it every ten minutes",
        _electors("elector_terms_total", "0+0.1x120", "0+0.1x120"),
        "90m",
        LEASE,
    ),
    Case(
        "LeaderChangesOften",
        "one has become it three times in an hour",
        _electors("elector_terms_total", "0+0.05x120", "1x120"),
        "90m",
    ),
    Case(
        "ElectorOutOfContact",
        "one that heard of nobody for two minutes",
        _electors("elector_last_contact_seconds", "2 60 120 180 240"),
        "4m",
        {**LEASE, "pod": "till-0"},
    ),
    Case(
        "ElectorOutOfContact",
        "one that has not been answered yet, and one that is answered late",
        _electors("elector_last_contact_seconds", "-1x9", "30x9"),
        "9m",
    ),
    Case(
        "ElectorRenewsSlowly",
        "all renewals take between one second and two",
        _renewals({"1": "0x40", "2": "0+20x40", "+Inf": "0+20x40"}),
        "25m",
        LEASE,
    ),
    Case(
        "ElectorRenewsSlowly",
        "one in twenty takes so long",
        _renewals({"1": "0+19x40", "2": "0+20x40", "+Inf": "0+20x40"}),
        "25m",
    ),
    Case(
        "CannotBecomeLeader",
        "one whose main is not healthy",
        _electors("elector_eligible", "0x20", "1x20"),
        "16m",
        {**LEASE, "pod": "till-0"},
    ),
    Case(
        "CannotBecomeLeader",
        "one whose main took its time",
        _electors("elector_eligible", "0x12 1x8"),
        "16m",
    ),
    Case(
        "ShardsWithoutOwner",
        "some that no member knows an owner of",
        _electors("elector_shards_unowned", "0x2 3x9", "0x2 4x9"),
        "6m",
        LEASE,
    ),
    Case(
        "ShardsWithoutOwner",
        "those of a member that is cut off, while others own them",
        _electors("elector_shards_unowned", "3x9", "0x9"),
        "9m",
    ),
    Case(
        "ShardsWithoutOwner",
        "those of a member that died a minute ago",
        _electors("elector_shards_unowned", "0x2 3 0x9", "0x2 3 0x9"),
        "4m",
    ),
    Case("RelayCutOff", "for more than an hour", _relay(link_down_seconds="0+60x70"), "62m", POD),
    Case("RelayCutOff", "for less than an hour", _relay(link_down_seconds="0+60x70"), "50m"),
    Case(
        "RelayCutOff",
        "one that restarts each quarter of an hour",
        _relay(link_up="1x9 0x120", link_down_seconds="0x9 " + "0+60x14 " * 8),
        "75m",
        POD,
    ),
    Case(
        "RelayCutOff",
        "one that restarted, and is not cut off any more",
        _relay(link_up="1x9 0x50 1 0x50", link_down_seconds="0x9 0+60x50 0 0+60x50"),
        "75m",
    ),
    Case(
        "RelayCutOff",
        "Prometheus is on the far side of the cut",
        _relay(link_down_seconds="0x20 stale", link_up="1x20 stale") | _scraped("1x20 0x90"),
        "82m",
        SCRAPED,
    ),
    Case(
        "RelayCutOff",
        "not scraped for less than an hour",
        _relay(link_down_seconds="0x20 stale", link_up="1x20 stale") | _scraped("1x20 0x90"),
        "78m",
    ),
    Case("RelayCutOff", "a pod that is new and not scraped yet", _scraped("_x60 0x9"), "65m"),
    Case("RelayCutOff", "a pod that was removed", _scraped("1x20 0x20 stale"), "90m"),
    Case(
        "RelayCutOff",
        "it is the elector that is not scraped",
        _scraped("1x20 0x90", container="elector"),
        "90m",
    ),
    Case("RelayJournalFails", "a full disk", _relay(journal_failed="1x9"), "6m", POD),
    Case("RelayJournalFails", "one that was full", _relay(journal_failed="1x3 0x9"), "6m"),
    Case(
        "RelayStreamIsStale",
        "one of two, while the link is up",
        _relay(link_up="1x20") | _streams("stream_age_seconds", pods="0+60x20", nodes="9x20"),
        "12m",
        {**POD, "resource": "pods"},
    ),
    Case(
        "RelayStreamIsStale",
        "the link is down",
        _relay(link_up="0x20") | _streams("stream_age_seconds", pods="0+60x20"),
        "12m",
    ),
    Case(
        "RelayEventsAreLate",
        "all events take between half a second and a second",
        _delays({"0.5": "0x40", "1": "0+20x40", "+Inf": "0+20x40"}),
        "25m",
        POD,
    ),
    Case(
        "RelayEventsAreLate",
        "one in twenty takes so long",
        _delays({"0.5": "0+19x40", "1": "0+20x40", "+Inf": "0+20x40"}),
        "25m",
    ),
    Case(
        "RelayStreamNeverComesUp",
        "it was never listed",
        _relay(link_up="1x20") | _states(catching_up="1x20", live="3x20"),
        "12m",
        POD,
    ),
    Case(
        "RelayStreamNeverComesUp",
        "it took its time",
        _relay(link_up="1x20") | _states(catching_up="1x8 stale", live="3x8 4x12"),
        "12m",
    ),
    Case(
        "RelayStreamNeverComesUp",
        "the link is down",
        _relay(link_up="0x20") | _states(catching_up="1x20"),
        "12m",
    ),
    Case(
        "RelayStreamNeverComesUp",
        "it is one of which RelayStreamIsStale tells",
        _relay(link_up="1x40")
        | _states(catching_up="1x40")
        | _streams("stream_age_seconds", pods="400+60x40"),
        "30m",
    ),
    Case(
        "RelayIsRefused",
        "for the first time",
        _refusals("403", "_x20 1x20"),
        "21m",
        REFUSED,
    ),
    Case(
        "RelayIsRefused",
        "before the first scrape, and once a minute since",
        _refusals("403", "1+1x120"),
        "90m",
        REFUSED,
    ),
    Case(
        "RelayIsRefused",
        "again after hours",
        _refusals("403", "1x180 2x20"),
        "185m",
        REFUSED,
    ),
    Case("RelayIsRefused", "once, and not again", _refusals("403", "_x20 1x60"), "40m"),
    Case(
        "RelayIsRefused",
        "before it could not be scraped for hours",
        _refusals("403", "1x20 stale _x180 1x20"),
        "203m",
    ),
    Case(
        "RelayIsRefused",
        "what is no matter of rights",
        _refusals("429", "1+1x60") | _refusals("406", "1+1x60"),
        "30m",
    ),
    Case(
        "RelayIsFull",
        "the stream that there was no room for is given up",
        _relay(objects_limit="1000x40")
        | _streams("stream_objects", nodes="600x40")
        | _refusals("429", "_x5 1x40"),
        "21m",
        POD,
    ),
    Case(
        "RelayIsFull",
        "there is no room each time that somebody comes",
        _relay(objects_limit="1000x120") | _refusals("429", "1x19 2x19 3x19 4x19 5x19"),
        "90m",
        POD,
    ),
    Case(
        "RelayIsFull",
        "there was no room long ago",
        _relay(objects_limit="1000x120") | _refusals("429", "1+1x19 20x99"),
        "90m",
    ),
    Case(
        "RelayIsFull",
        "streams are refused for other reasons",
        _relay(objects_limit="1000x40") | _refusals("403", "1+1x40"),
        "30m",
    ),
    Case(
        "RelayIsFull",
        "two kinds together",
        _relay(objects_limit="1000x20") | _streams("stream_objects", pods="500x20", nodes="450x20"),
        "16m",
        POD,
    ),
    Case(
        "RelayIsFull",
        "each kind keeps half",
        _relay(objects_limit="1000x20") | _streams("stream_objects", pods="500x20", nodes="350x20"),
        "16m",
    ),
    Case(
        "ListenerIsNearItsLimit",
        "its connections are taken",
        _listener(connections_used="470x20", connections_limit="512x20"),
        "6m",
        {**POD, "listen": "0.0.0.0:4041"},
    ),
    Case(
        "ListenerIsNearItsLimit",
        "requests that are not whole",
        _listener(unfinished_used_bytes="8000000x20", unfinished_limit_bytes="8388608x20"),
        "6m",
        {**POD, "listen": "0.0.0.0:4041"},
    ),
    Case(
        "ListenerIsNearItsLimit",
        "some are taken",
        _listener(connections_used="400x20", connections_limit="512x20"),
        "6m",
    ),
    Case(
        "NoGlobalManagerLeads",
        "none of two",
        _gms("leader", "0x9", "0x9"),
        "3m",
        {"namespace": "sedna"},
    ),
    Case("NoGlobalManagerLeads", "one of two", _gms("leader", "0x9", "1x9"), "3m"),
    Case(
        "NoGlobalManagerLeads",
        "all of them are gone",
        _gms("leader", "1x20 stale", "0x20 stale"),
        "24m",
        {"namespace": "sedna"},
    ),
    Case(
        "NoGlobalManagerLeads",
        "all of them were removed an hour ago",
        _gms("leader", "1x20 stale", "0x20 stale"),
        "90m",
    ),
    Case(
        "GlobalManagerFallsBehind",
        "more each minute",
        _gms("backlog", "900+100x40", of="reports"),
        "35m",
        {**GM, "of": "reports"},
    ),
    Case(
        "GlobalManagerFallsBehind",
        "much, and less each minute",
        _gms("backlog", "9000-100x40", of="reports"),
        "35m",
    ),
    Case(
        "GlobalManagerFallsBehind",
        "it filled up within minutes, and stays full",
        _gms("backlog", "0x5 5000 10000x120", of="reports"),
        "60m",
        {**GM, "of": "reports"},
    ),
    Case(
        "GlobalManagerFallsBehind",
        "it is full but for what is worked off and comes again",
        _gms("backlog", "0x5" + " 10000 9700 9900" * 20, of="reports"),
        "60m",
        {**GM, "of": "reports"},
    ),
    Case(
        "GlobalManagerFallsBehind",
        "it was full for a moment, and is worked off",
        _gms("backlog", "10000x5 10000-100x90", of="reports"),
        "40m",
    ),
    Case(
        "GlobalManagerFallsBehind",
        "a tenth of it waits, no more and no less",
        _gms("backlog", "1000x90", of="reports"),
        "60m",
    ),
    Case(
        "DecisionsFail",
        "one did, the first since it runs",
        _gms("decisions_total", "0x5 1x5", outcome="undecidable"),
        "8m",
        {**GM, "outcome": "undecidable"},
    ),
    Case(
        "DecisionsFail",
        "one did long ago",
        _gms("decisions_total", "1x30", outcome="undecidable")
        | _gms("decisions_total", "0+9x30", outcome="written"),
        "20m",
    ),
    Case(
        "DecisionsFail",
        "the API server did not answer one write",
        _gms("decisions_total", "0x5 1x30", outcome="failed"),
        "8m",
    ),
    Case(
        "DecisionsAreNotWritten",
        "one object, every other minute",
        _gms("decisions_total", "0x5 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10", outcome="failed"),
        "23m",
        {**GM, "outcome": "failed"},
    ),
    *(
        Case(
            "DecisionsAreNotWritten",
            f"the API server was away for five minutes, {minute} min ago",
            _gms("decisions_total", "0x5 9 19 29 39 49x60", outcome="failed"),
            f"{10 + minute}m",
        )
        for minute in (1, 5, 9, 15)
    ),
    Case(
        "LocalControllersAreGone",
        "six of ten",
        _gms("nodes", "5x30 2x30", "5x30 2x30"),
        "50m",
        {"namespace": "sedna"},
    ),
    Case(
        "LocalControllersAreGone",
        "and all GMs with them",
        _gms("nodes", "10x20 stale", "0x20 stale"),
        "33m",
        {"namespace": "sedna"},
    ),
    Case(
        "LocalControllersAreGone",
        "all GMs are gone, and there never were LCs",
        _gms("nodes", "0x20 stale", "0x20 stale"),
        "33m",
    ),
    Case(
        "LocalControllersAreGone",
        "all GMs were removed an hour ago",
        _gms("nodes", "10x20 stale"),
        "95m",
    ),
    Case(
        "LocalControllersAreGone",
        "they went over to another GM",
        _gms("nodes", "10x30 0x30", "0x30 10x30"),
        "50m",
    ),
    Case(
        "PoolNodeCannotBeJudged",
        "for twenty minutes",
        _pools("cannot_tell", "2x30", "2x30"),
        "20m",
        POOL,
    ),
    Case("PoolNodeCannotBeJudged", "for a moment", _pools("cannot_tell", "2x3 stale"), "20m"),
    Case(
        "PoolNodeNotReachable", "for twenty minutes", _pools("not_reachable", "1x30"), "20m", POOL
    ),
    Case("PoolNodeNotReachable", "while it joins", _pools("not_reachable", "1x2 stale"), "20m"),
    Case(
        "PoolControllerDoesNothing",
        "without its policies",
        _controllers("0x30", "0x30"),
        "10m",
        {"namespace": "edge-pool"},
    ),
    Case("PoolControllerDoesNothing", "one of two starts", _controllers("1x30", "0x30"), "10m"),
)


@cache
def _rules() -> dict[str, Json]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def _expected(case: Case) -> list[Json]:
    if not case.labels:
        return []
    rule = _rules()[case.alert]
    told = {
        key: re.sub(r"{{ \$labels\.(\w+) }}", lambda it: case.labels[it[1]], text)
        for key, text in rule["annotations"].items()
    }
    return [{"exp_labels": {**case.labels, **rule["labels"]}, "exp_annotations": told}]


def _promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [require_promtool(), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_prometheus_takes_the_rules() -> None:
    done = _promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    for fires in (True, False):
        assert {it.alert for it in CASES if bool(it.labels) is fires} == set(_rules())


@pytest.fixture(scope="module")
def all_hold(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether every case does, in one process."""
    return _play(CASES, tmp_path_factory.mktemp("alerts")).returncode == 0


@pytest.mark.parametrize("case", CASES, ids=lambda it: f"{it.alert}: {it.what}")
def test_an_alert_fires_when_it_is_meant_to(case: Case, all_hold: bool, tmp_path: Path) -> None:
    if not all_hold:
        done = _play([case], tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def _play(cases: Sequence[Case], folder: Path) -> "subprocess.CompletedProcess[str]":
    tests = []
    for case in cases:
        series = [{"series": name, "values": values} for name, values in case.series.items()]
        rule_test = {"eval_time": case.at, "alertname": case.alert, "exp_alerts": _expected(case)}
        tests.append({"interval": "1m", "input_series": series, "alert_rule_test": [rule_test]})
    file = folder / "test.yaml"
    body = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    return _promtool("test", "rules", str(file))
