"""`/readyz` and its conditions: validity left, age and token of the term, long polls."""

import threading
import time

import pytest

from tests.integration.elector.pair import Pair
from tools.harness.controlplane.clients.answer import Answer, boottime
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for_leader
from tools.harness.pods.wire.http_client import answered

# STEADY's validity, as that of the pair: 20 s x 0.95 - 0.25 s.
VALIDITY = 18.75


def test_a_200_names_how_long_it_holds_and_its_term(pair: Pair) -> None:
    answer = answered(pair.leader, "/readyz")
    assert answer.sent < float(answer.headers["X-Leader-Valid-Until"]) < answer.received + VALIDITY
    token = pair.leader.leader()["fencingToken"]
    assert int(answer.headers["X-Leader-Fencing-Token"]) == token
    refusal = answered(pair.standby, "/readyz")
    assert "X-Leader-Valid-Until" not in refusal.headers
    assert refusal.body.decode() == f"not leader: held by {pair.leader.identity}\n"


@pytest.mark.parametrize(
    ("query", "lack"),
    [
        ("min_remaining=0s", None),
        ("min_remaining=500ms", None),
        ("min_remaining=30s", "of validity left, 30s asked for"),
        ("min_age=0", None),
        ("min_age=1h", "old, 3600s asked for"),
        ("min_remaining=1s&min_age=1ms", None),
        ("min_remaining=30s&min_age=1ms", "of validity left"),
        ("token=1", "another term"),
        ("token=18446744073709551615", "another term"),
    ],
)
def test_a_leader_meets_the_conditions_or_says_what_is_lacking(
    pair: Pair, query: str, lack: str | None
) -> None:
    answer = answered(pair.leader, f"/readyz?{query}")
    assert answer.status == (200 if lack is None else 503)
    assert (lack or "ok") in answer.body.decode()
    assert answered(pair.standby, f"/readyz?{query}").status == 503


def test_a_token_means_this_very_term(pair: Pair) -> None:
    token = pair.leader.leader()["fencingToken"]
    assert answered(pair.leader, f"/readyz?token={token}").status == 200
    assert answered(pair.leader, f"/readyz?token={token + 1}").status == 503


def test_a_long_poll_of_a_standby_ends_in_time_with_503(pair: Pair) -> None:
    answer = answered(pair.standby, "/readyz?wait=1s", timeout=10)
    assert answer.status == 503
    assert 0.9 < answer.received - answer.sent < 9


def test_a_long_poll_waits_for_a_renewal_that_brings_the_validity(pair: Pair) -> None:
    """Just before a renewal there is less than this left, just after it more."""
    deadline = time.monotonic() + 20
    while answered(pair.leader, f"/readyz?min_remaining={VALIDITY - 0.5}s").status == 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    answer = answered(pair.leader, f"/readyz?min_remaining={VALIDITY - 0.5}s&wait=15s", timeout=20)
    assert answer.status == 200
    assert answer.received - answer.sent < 10


def test_a_long_poll_wakes_when_it_leads_and_waits_out_the_age(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add(timing=STEADY), fleet.add(timing=STEADY)]
    leader = wait_for_leader(pods, timeout=20)
    [standby] = [pod for pod in pods if pod is not leader]
    answers: dict[str, Answer] = {}

    def poll(query: str) -> None:
        answers[query] = answered(standby, f"/readyz?{query}", timeout=20)

    threads = [
        threading.Thread(target=poll, args=(query,))
        for query in ("wait=15s", "wait=15s&min_age=1500ms", "wait=1s&min_age=1h")
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    resigned_at = boottime()
    assert answered(leader, "/resign?cooldown=30s", method="POST").status == 200
    for thread in threads:
        thread.join()
    at_once, aged = answers["wait=15s"], answers["wait=15s&min_age=1500ms"]
    refused = answers["wait=1s&min_age=1h"]
    assert (at_once.status, aged.status, refused.status) == (200, 200, 503)
    # Neither waits for its end, nor for that of the lease.
    assert at_once.received - resigned_at < 8
    assert 1.5 < aged.received - resigned_at < 10, "the old 503 is seen before the new 200"
