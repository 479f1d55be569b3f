"""The HTTP interface of real electors: each row of the table (contract, section 3)."""

import contextlib
import http.client
import math
import re

import pytest

from tests.integration.elector.pair import Pair
from tools.harness.controlplane.clients.answer import ask, boottime
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import answered, ports

GET_PATHS = ["/", "/leader", "/readyz", "/eligible", "/livez", "/healthz", "/metrics"]
PROBE_PATHS = ["/readyz", "/eligible", "/livez", "/leader", "/metrics"]
# STEADY's validity, as that of the pair: 20 s x 0.95 - 0.25 s.
VALIDITY = 18.75


# ── the table ──


@pytest.mark.parametrize(
    ("path", "leader", "standby", "content_type"),
    [
        ("/", 200, 200, "application/json"),
        ("/leader", 200, 200, "application/json"),
        ("/readyz", 200, 503, "text/plain"),
        ("/eligible", 200, 200, "text/plain"),
        ("/livez", 200, 200, "text/plain"),
        ("/healthz", 200, 200, "text/plain"),
        ("/metrics", 200, 200, "text/plain"),
    ],
)
def test_each_path_answers_as_the_table_says(
    pair: Pair, path: str, leader: int, standby: int, content_type: str
) -> None:
    for pod, status in ((pair.leader, leader), (pair.standby, standby)):
        answer = answered(pod, path)
        assert answer.status == status
        assert answer.headers["Content-Type"].startswith(content_type)
        assert answer.body


OPTIONS_PATHS = [
    *GET_PATHS,
    "/leader?watch=true",
    "/readyz?min_remaining=1h",
    "/readyz?wait=1ms&min_age=1h",
    "/readyz?misspelt=1",
]


@pytest.mark.parametrize("path", OPTIONS_PATHS)
def test_options_says_what_get_says_without_its_body(pair: Pair, path: str) -> None:
    """HAProxy's `option httpchk` asks by OPTIONS: a standby must not look healthy to it."""
    for pod in (pair.leader, pair.standby):
        probe = ports(pod)[1:] if path.partition("?")[0] in PROBE_PATHS else []
        for port in (pod.port, *probe):
            options = ask(port, path, method="OPTIONS")
            get = ask(port, path.removesuffix("?watch=true"))
            assert options is not None
            assert get is not None
            assert (options.status, options.body) == (get.status, b"")
            assert options.headers["Allow"] == "GET, HEAD, OPTIONS"
            assert options.headers["Content-Length"] == "0"
            for name in ("Content-Type", "X-Leader-Fencing-Token"):
                assert options.headers.get(name) == get.headers.get(name)
    assert answered(pair.leader, "/readyz", method="OPTIONS").status == 200
    assert answered(pair.standby, "/readyz", method="OPTIONS").status == 503


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"])
@pytest.mark.parametrize("path", GET_PATHS)
def test_a_wrong_method_is_405_and_names_the_right_ones(pair: Pair, path: str, method: str) -> None:
    answer = answered(pair.leader, path, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_resign_takes_post_only(pair: Pair, method: str) -> None:
    answer = answered(pair.leader, "/resign", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST, OPTIONS"
    assert answered(pair.leader, "/resign", method="OPTIONS").status == 204
    assert pair.leader.is_leader()


@pytest.mark.parametrize(
    "path", ["/x", "/readyz/", "//readyz", "/READYZ", "/leader/x", "/%2e%2e/readyz", "/%00"]
)
def test_an_unknown_path_is_404(pair: Pair, path: str) -> None:
    assert answered(pair.leader, path).status == 404


def test_the_root_names_the_holders_pod_without_a_newline(pair: Pair) -> None:
    for pod in (pair.leader, pair.standby):
        assert answered(pod, "/").body == b'{"name":"pod-0"}'


def test_a_keep_alive_connection_serves_many_requests(pair: Pair) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", pair.leader.port, timeout=5)
    with contextlib.closing(connection):
        for path in GET_PATHS * 3:
            connection.request("GET", path)
            with connection.getresponse() as response:
                response.read()
            assert response.status == 200
            assert connection.sock is not None


# ── the /leader document ──

FIELDS = {
    "isLeader",
    "role",
    "identity",
    "holder",
    "holderPod",
    "lease",
    "validUntil",
    "remainingSeconds",
    "termSeconds",
    "acquireTime",
    "renewTime",
    "leaseTransitions",
    "fencingToken",
    "lastContactSeconds",
    "reason",
}
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def test_the_leaders_document_has_every_field(pair: Pair) -> None:
    before, document, after = boottime(), pair.leader.leader(), boottime()
    assert document.keys() == FIELDS
    assert document["isLeader"] is True
    assert document["role"] == "leader"
    assert document["identity"] == document["holder"] == pair.leader.identity
    assert re.fullmatch(r"pod-0_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", document["identity"])
    assert document["holderPod"] == "pod-0"
    assert document["lease"].keys() == {"namespace", "name"}
    assert document["lease"]["name"] == "controller"
    assert before < document["validUntil"] < after + VALIDITY
    remaining = document["remainingSeconds"]
    assert document["validUntil"] - after - 0.001 <= remaining
    assert remaining <= document["validUntil"] - before + 0.001
    assert document["termSeconds"] > 0
    assert MICRO_TIME.fullmatch(document["acquireTime"])
    assert MICRO_TIME.fullmatch(document["renewTime"])
    assert type(document["leaseTransitions"]) is int
    assert type(document["fencingToken"]) is int
    assert document["fencingToken"] > 0
    assert 0 <= document["lastContactSeconds"] < VALIDITY
    assert document["reason"] == "holds the Lease"


def test_the_standbys_document_has_every_field(pair: Pair) -> None:
    document = pair.standby.leader()
    assert document.keys() == FIELDS
    assert document["isLeader"] is False
    assert document["role"] == "standby"
    assert document["identity"] == pair.standby.identity
    assert document["holder"] == pair.leader.identity
    assert document["holderPod"] == "pod-0"
    assert document["validUntil"] is None
    assert document["remainingSeconds"] == 0
    assert document["termSeconds"] is None
    assert MICRO_TIME.fullmatch(document["acquireTime"])
    assert MICRO_TIME.fullmatch(document["renewTime"])
    assert document["fencingToken"] is None
    assert document["lastContactSeconds"] >= 0
    assert pair.leader.identity in document["reason"]


def test_pending_says_why(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    with MainServer(health=500) as main:
        pod = fleet.add("--health-url", f"{main.url}/healthz")
        wait_for(lambda: "failing" in pod.leader()["reason"], timeout=10, what="a health check")
        document = pod.leader()
        assert (document["role"], document["isLeader"]) == ("pending", False)
        assert document["reason"] == "the main is not healthy: failing"
        assert answered(pod, "/eligible").status == 503
        assert b"the main is not healthy" in answered(pod, "/readyz").body
        main.health = 200
        wait_for_leader([pod], timeout=10)
        assert answered(pod, "/eligible").status == 200


# ── metrics ──

SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(\{(?P<labels>([a-zA-Z_]\w*="(\\[\\n"]|[^"\\\n])*"(,|(?=\})))*)\})? (?P<value>\S+)'
)


def test_metrics_are_prometheus_text(pair: Pair) -> None:
    for pod, leads in ((pair.leader, 1.0), (pair.standby, 0.0)):
        answer = answered(pod, "/metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.body.decode()
        assert text.endswith("\n")
        kinds: dict[str, str] = {}
        values: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in kinds, f"{name} is described twice"
                kinds[name] = kind
            elif not line.startswith("# HELP "):
                sample = SAMPLE.fullmatch(line)
                assert sample, line
                assert line.rpartition(" ")[0] not in values, f"{line} stands there twice"
                values[line.rpartition(" ")[0]] = float(sample["value"])
                described = re.sub("_(bucket|sum|count)$", "", sample["name"])
                assert {sample["name"], described} & kinds.keys(), f"{line} before its TYPE"
        assert set(kinds.values()) == {"counter", "gauge", "histogram"}
        assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")
        assert all(math.isfinite(value) for value in values.values())
        labels = 'name="controller",component="edge-sidecars-elector"'
        assert values[f"leader_election_master_status{{{labels}}}"] == leads
        assert values[f"leader_election_slowpath_total{{{labels}}}"] >= 1


def test_renewals_of_the_leader_are_timed(pair: Pair) -> None:
    def renewals(pod: ElectorPod) -> int:
        name = 'elector_renewal_duration_seconds_count{name="controller",result="ok"} '
        lines = answered(pod, "/metrics").body.decode().splitlines()
        return int(next(it for it in lines if it.startswith(name)).removeprefix(name))

    wait_for(lambda: renewals(pair.leader) > 0, timeout=15, what="a renewal")
    assert renewals(pair.standby) == 0


# ── resign ──


def test_a_standby_has_nothing_to_resign_from(pair: Pair) -> None:
    answer = answered(pair.standby, "/resign", method="POST")
    assert answer.status == 409
    assert pair.leader.identity in answer.body.decode()
