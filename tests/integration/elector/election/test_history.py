"""The history of a Lease, by real processes against a real kube-apiserver."""

import json
from itertools import pairwise
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from elector_sidecar.core.history import EXPIRED, HISTORY_ANNOTATION, MAX_TERMS
from elector_sidecar.core.lease import pod_name
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader

# Bytes; the whole object, as the API server stores it.
MAX_LEASE = 4096
# A pod's name of usual length, and the longest one of a Deployment's pod.
NAMES = ("shop-5c9b7d4f-x2k9p", "x" * 63)
RESIGNED = "resigned by request"
# Seconds on a busy machine.
SOON = 20.0


def annotation(fleet: Fleet) -> str | None:
    lease = fleet.get_lease()
    assert lease is not None
    found: str | None = (lease["metadata"].get("annotations") or {}).get(HISTORY_ANNOTATION)
    return found


def terms(fleet: Fleet) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(annotation(fleet) or "[]")
    return found


def served(pod: ElectorPod) -> list[dict[str, Any]]:
    answer = pod.ask("/history")
    assert answer is not None
    assert answer.status == 200
    document = json.loads(answer.body)
    assert document["lease"]["name"] == pod.lease
    found: list[dict[str, Any]] = document["terms"]
    return found


def move(leader: ElectorPod, other: ElectorPod) -> None:
    answer = leader.ask("/resign?cooldown=1s", method="POST", timeout=SOON)
    assert answer is not None
    assert answer.status == 200, answer.body
    wait_for_leader([other], timeout=SOON)


def test_the_lease_keeps_its_last_terms_without_a_further_request(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    first = fleet.add("--identity", NAMES[0], timing=STEADY)
    wait_for_leader([first], timeout=SOON)
    second = fleet.add("--identity", NAMES[1], timing=STEADY)
    wait_for(lambda: second.leader()["role"] == "standby", timeout=SOON, what="a standby")
    moves = MAX_TERMS + 2
    for n in range(moves):
        move(*((first, second) if n % 2 == 0 else (second, first)))

    # All writes are of the kinds that there were before: each changes the spec.
    writes = fleet.plane.audit(verb="update", resource="leases", namespace=fleet.namespace)
    applied = [it.response_object for it in writes if it.status == 200]
    specs = [it["spec"] for it in applied if it is not None]
    assert all(before != after for before, after in pairwise(specs))
    takeovers = sum(
        after["holderIdentity"] not in ("", before["holderIdentity"])
        for before, after in zip([{"holderIdentity": ""}, *specs], specs, strict=False)
    )
    assert takeovers == moves + 1
    assert sum(it["holderIdentity"] == "" for it in specs) == moves
    # Within a term every write says the same.
    said = {
        (it["spec"]["acquireTime"], it["metadata"]["annotations"][HISTORY_ANNOTATION])
        for it in applied
        if it is not None
    }
    assert len(said) == takeovers + moves

    found = terms(fleet)
    assert 5 <= len(found) <= MAX_TERMS
    *past, present = found
    assert [pod_name(it["holder"])[:4] for it in found[-3:]] == ["shop", "xxxx", "shop"]
    assert {it["why"] for it in past} == {RESIGNED}
    assert "to" not in present
    for before, after in zip(past, found[1:], strict=True):
        assert before["from"] <= before["to"] <= after["from"]
        assert rfc3339.parse(before["to"]) is not None
    wait_for(lambda: served(second) == found == served(first), timeout=SOON, what="/history")
    assert len(json.dumps(fleet.get_lease(), separators=(",", ":")).encode()) <= MAX_LEASE


def test_a_history_that_was_garbled_or_removed_is_written_again(fleet: Fleet) -> None:
    leader, [standby] = fleet.elect(2)
    token = leader.leader()["fencingToken"]
    wait_for(lambda: len(terms(fleet)) == 1, timeout=SOON, what="a history")
    whole = terms(fleet)
    for garbled in (None, "", "[[[", '[{"holder":7}]', "x" * 100_000):
        fleet.edit(metadata={"annotations": {HISTORY_ANNOTATION: garbled}})
        wait_for(lambda: terms_or_none(fleet) == whole, timeout=SOON, what="the history")
    # All of ours at once: the leader marks what it holds, and goes on.
    lease = fleet.get_lease()
    assert lease is not None
    fleet.edit(metadata={"annotations": dict.fromkeys(lease["metadata"]["annotations"])})
    wait_for(lambda: terms_or_none(fleet) == whole, timeout=SOON, what="the history")
    assert leader.leader()["fencingToken"] == token, "it led on all the time"
    assert not standby.is_leader()
    leader.terminate()
    wait_for_leader([standby], timeout=SOON)
    [before, now] = terms(fleet)
    assert before["holder"] == leader.identity
    assert now["holder"] == standby.identity
    assert before["why"] == EXPIRED, "no main has said that it stopped"


def terms_or_none(fleet: Fleet) -> object:
    try:
        return terms(fleet)
    except ValueError:
        return None
