"""S1-S7 (docs/explanation/shards.md) and bad input: real processes, a real kube-apiserver."""

import time
from functools import partial

import pytest

from edge_sidecars.apimachinery.selection.shard_ranges import shard_of
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, STEADY_DURATION, Fleet
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.harness.pods.observers.polling import Polling
from tools.harness.pods.shards.sharded import (
    SHARD_RULES,
    SHARDS,
    ShardedFleet,
    owned,
    release,
    shards,
)
from tools.harness.pods.wire.http_client import Stream, ports

# For a busy machine; far less than a lease lasts that is not renewed.
SOON = 10.0


def status(pod: ElectorPod, path: str, *, method: str = "GET") -> int:
    answer = pod.ask(path, method=method, timeout=10)
    assert answer is not None, f"{pod.name} does not answer"
    return answer.status


def test_s1_and_s3_each_shard_is_owned_by_exactly_one_member(ring: ShardedFleet) -> None:
    pods = ring.spread(3)
    assert sorted(shard for pod in pods for shard in owned(pod)) == list(range(SHARDS))
    for shard in range(SHARDS):
        answers = [status(pod, f"/owns?shard={shard}") for pod in pods]
        assert sorted(answers) == [200, 503, 503]
    uid = "7c6f1b3e-55cf-4d0a-9f3d-6f1e4ad2b111"
    owner = next(pod for pod in pods if shard_of(uid, SHARDS) in owned(pod))
    assert [status(pod, f"/owns?uid={uid}") for pod in pods] == [
        200 if pod is owner else 503 for pod in pods
    ]
    leaders = [pod for pod in pods if pod.is_leader()]
    assert [0 in owned(pod) for pod in leaders] == [True], "/readyz is of shard 0"
    assert leaders[0].leader()["holder"] == leaders[0].identity


def test_s2_a_member_that_is_terminated_leaves_no_shard_unowned(ring: ShardedFleet) -> None:
    pods = ring.spread(3)
    pods[1].terminate()
    ring.wait_even([pods[0], pods[2]], timeout=SOON)
    assert pods[1].wait() == 0


def test_s2_a_killed_member_is_waited_out_and_fenced(ring: ShardedFleet) -> None:
    pods = ring.spread(2, timing=FAST)
    pods[0].kill()
    ring.wait_even(pods[1:])
    lease = ring.named(f"{ring.lease}-{pods[0].name}")
    assert lease["spec"]["holderIdentity"] == "", "its Lease was emptied first"


def test_s3_and_s4_a_new_member_gets_its_share_and_then_nothing_moves(ring: ShardedFleet) -> None:
    pods = ring.spread(3)
    before = {pod.name: set(owned(pod)) for pod in pods}
    pods.append(ring.join())
    ring.wait_even(pods)
    assert all(set(owned(pod)) <= before[pod.name] for pod in pods[:3]), "no move between others"
    tokens = [shards(pod)["owned"] for pod in pods]
    sequence = ring.table()["sequence"]
    renewed = ring.named(f"{ring.lease}-{pods[0].name}")["metadata"]["resourceVersion"]
    wait_for(
        lambda: (
            ring.named(f"{ring.lease}-{pods[0].name}")["metadata"]["resourceVersion"] != renewed
        ),
        timeout=SOON,
        what="another renewal",
    )
    assert ring.table()["sequence"] == sequence
    assert [[it["fencingToken"] for it in now] for now in tokens] == [
        [it["fencingToken"] for it in shards(pod)["owned"]] for pod in pods
    ]


def test_s6_a_shard_is_handed_over_when_the_main_confirms(ring: ShardedFleet) -> None:
    first = ring.spread(1)[0]
    told = shards(first, promise=True)
    assert len(told["owned"]) == SHARDS
    assert told["validUntil"] is not None
    second = ring.join()
    wait_for(lambda: shards(first)["handingOver"], timeout=SOON, what="a hand-over")
    given = shards(first)["handingOver"]
    assert owned(second) == [], "nothing is free before the main's word"
    assert all(status(first, f"/owns?shard={it['shard']}") == 503 for it in given)
    kept = shards(first)["owned"][0]
    assert release(first, kept["shard"], kept["fencingToken"]) == 409
    assert release(first, SHARDS, 1) == 404
    for it in given:
        assert release(first, it["shard"], it["fencingToken"]) == 200
    ring.wait_even([first, second], timeout=SOON)
    assert release(first, given[0]["shard"], given[0]["fencingToken"]) == 200, "over already"


def test_s6_what_the_main_was_told_passes_before_a_shard_is_free(ring: ShardedFleet) -> None:
    first = ring.spread(1, timing=FAST)[0]
    shards(first, promise=True)
    second = ring.join(timing=FAST)
    ring.wait_even([first, second])
    waited = first.ask("/metrics")
    assert waited is not None
    assert 'elector_shards_waited_for_validity_total{name="ring"} 8' in waited.body.decode()


def test_s6_a_stranger_on_the_probe_listener_delays_no_hand_over(ring: ShardedFleet) -> None:
    """The main asks a bare /owns, which promises nothing beyond its instant."""
    first = ring.spread(1, "--probe-listen", "127.0.0.1:0")[0]
    probes = ports(first)[-1]
    paths = ("/shards", "/owns?shard=15&min_remaining=9s", "/leader", "/readyz")
    with Polling([(path, partial(ask, probes, path)) for path in paths], interval=0.05):
        assert status(first, "/owns?shard=15") == 200
        second = ring.join()
        wait_for(lambda: bool(owned(second)), timeout=SOON, what="its share")
        at = time.monotonic()
        ring.wait_even([first, second], timeout=SOON)
        assert time.monotonic() - at < SOON / 2
    waited = first.ask("/metrics")
    assert waited is not None
    assert 'elector_shards_waited_for_validity_total{name="ring"} 0' in waited.body.decode()


def test_s6_a_terminated_member_hands_over_when_its_main_confirms(ring: ShardedFleet) -> None:
    pods = ring.spread(2)
    entries = shards(pods[0], promise=True)["owned"]
    pods[0].terminate()
    wait_for(lambda: shards(pods[0])["handingOver"], timeout=SOON, what="its hand-over")
    assert shards(pods[0])["owned"] == []
    assert len(owned(pods[1])) == SHARDS - len(entries)
    for it in entries:
        assert release(pods[0], it["shard"], it["fencingToken"]) == 200
    ring.wait_even(pods[1:], timeout=SOON)
    assert pods[0].wait() == 0


def test_a_table_that_was_edited_or_deleted_is_written_back(ring: ShardedFleet) -> None:
    pods = ring.spread(2)
    before = [owned(pod) for pod in pods]
    ring.edit(metadata={"annotations": {"edge-sidecars.io/shards": "nonsense"}})
    wait_for(lambda: ring.is_whole(), timeout=SOON, what="the table")
    lease = ring.get_lease()
    assert lease is not None
    assert "nonsense" in lease["metadata"]["annotations"]["edge-sidecars.io/shards-set-aside"]
    ring.delete_lease()
    wait_for(lambda: ring.is_whole(), timeout=SOON, what="the table")
    assert [owned(pod) for pod in pods] == before


def test_a_single_leader_goes_on_until_it_leaves_and_never_comes_back(
    ring: ShardedFleet, control_plane: ControlPlane
) -> None:
    with Fleet(control_plane, ring.namespace, lease=ring.lease) as singles:
        single = singles.add("--release-on-term")
        wait_for(single.is_leader, timeout=SOON, what="the single leader")
        member = ring.join()
        wait_for(
            lambda: "a single leader" in shards(member)["reason"], timeout=SOON, what="the reason"
        )
        assert owned(member) == []
        assert member.leader()["role"] == "pending"
        single.terminate()
        assert single.wait() == 0
        ring.wait_even([member], timeout=SOON)
        again = singles.add(start=False)
        with Observer([again]) as observer:
            again.start()
            wait_for(lambda: again.leader()["holder"] == "shards", timeout=SOON, what="a stand-by")
            time.sleep(2 * FAST_DURATION)
        assert observer.answers() == []


@pytest.mark.parametrize("path", ["/shards?watch=true", "/leader?watch=true"])
def test_p6_beside_a_main_a_member_that_ends_alone_releases_nothing(
    ring: ShardedFleet, path: str
) -> None:
    """Kubelet restarts the sidecar alone: --release-on-term does not mean its main then."""
    pod, other = ring.spread(2, "--release-on-term")
    with Stream(pod, path=path):
        pod.terminate()
        assert pod.wait() == 0
    assert "the Lease is left to expire" in pod.log_text()
    with Stream(other, path=f"{path}&promise=false"):
        other.terminate()
        assert other.wait() == 0
    assert "the Lease is released" in other.log_text()


def test_another_number_of_shards_waits_until_the_members_with_the_old_one_left(
    ring: ShardedFleet,
) -> None:
    old = ring.spread(1)[0]
    new = ring.join("--shards", "8")
    wait_for(
        lambda: "the table has 16 shards" in shards(new)["reason"], timeout=SOON, what="the reason"
    )
    assert owned(new) == []
    old.terminate()
    wait_for(lambda: owned(new) == list(range(8)), timeout=SOON, what="the new ring")


def test_a_lease_of_somebody_else_is_never_written(ring: ShardedFleet) -> None:
    ring.create(f"{ring.lease}-pod-0")
    version = ring.named(f"{ring.lease}-pod-0")["metadata"]["resourceVersion"]
    pod = ring.join()
    wait_for(
        lambda: "belongs to somebody else" in shards(pod)["reason"], timeout=SOON, what="the reason"
    )
    time.sleep(FAST_DURATION)
    assert ring.named(f"{ring.lease}-pod-0")["metadata"]["resourceVersion"] == version


def test_the_answers_refuse_bad_input_with_the_remedy(ring: ShardedFleet) -> None:
    pod = ring.spread(1)[0]
    for path, word in {
        "/owns": "either uid=U or shard=N",
        "/owns?uid=a&shard=1": "either uid=U or shard=N",
        "/owns?uid=": "uid is empty",
        f"/owns?shard={SHARDS}": "from 0 to 15",
        "/owns?shard=x": "shard",
        "/owns?shard=1&wait=9h": "at most",
        "/shards?watch=perhaps": "watch=true",
        "/shards?limit=1": "unknown parameter",
    }.items():
        answer = pod.ask(path)
        assert answer is not None
        assert (answer.status, word in answer.body.decode()) == (400, True), path
    assert status(pod, "/shards/1/released", method="POST") == 400
    assert status(pod, "/shards/1/released?token=1") == 405
    assert status(pod, "/shards/x/released?token=1", method="POST") == 404


def test_the_stream_tells_each_change_and_a_dashboard_promises_nothing(ring: ShardedFleet) -> None:
    first = ring.spread(1)[0]
    with Stream(first, path="/shards?watch=true&promise=false") as stream:
        wait_for(lambda: bool(stream.lines), timeout=SOON, what="a document")
        assert len(stream.documents()[0]["owned"]) == SHARDS
        second = ring.join()
        ring.wait_even([first, second], timeout=SOON)
        wait_for(
            lambda: len(stream.documents()[-1]["owned"]) == SHARDS // 2,
            timeout=SOON,
            what="the change",
        )
    assert STEADY_DURATION > SOON, "no validity had to pass"


def test_a_member_that_may_not_list_says_so_in_its_reason(ring: ShardedFleet) -> None:
    """It does not know the others, and what it shows of them is no proof that they are gone."""
    ring.spread(2)
    verbs = [it for it in SHARD_RULES[0]["verbs"] if it != "list"]
    account = ring.plane.service_account_dir(
        ring.namespace, "blind", [{**SHARD_RULES[0], "verbs": verbs}]
    )
    settings = ("--shards", str(SHARDS), "--shard-settle", "1s")
    blind = ring.add(*settings, timing=FAST, credentials=account)
    said = "the API server forbids list (403): needs Role in namespace"
    wait_for(lambda: said in shards(blind)["reason"], timeout=SOON, what="the reason")
    # Also between two attempts, which are up to half a minute apart.
    for _ in range(40):
        assert said in shards(blind)["reason"]
        assert not owned(blind)
        time.sleep(0.1)
