"""What the real API server does to its clients: goes away, forbids, forgets tokens and CAs.

Answers that it cannot be made to give are in test_answers.
"""

import time

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import FAST_DURATION, STEADY, Fleet
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import answered

RENEW_INTERVAL = 1.0
VALIDITY = FAST_DURATION * 0.95 - 0.25
# Seconds for what needs some round trips and a busy machine.
SOON = 15.0
# Outlasts an outage of two renewals also where this machine stands still for seconds.
PATIENT = ("--lease-duration", "10s", "--renew-interval", "1s", "--request-timeout", "2s")
# No watch is too silent, nor a renewal missing, because this machine stood still for seconds.
QUIET = ("--lease-duration", "30s", "--renew-interval", "2s", "--request-timeout", "8s")
QUIET_INTERVAL = 2.0
# Revoked tokens are refused after the API server's cache of tokens, 10 s.
TOKEN_CACHE = 10.0


def test_an_api_server_that_is_gone_for_two_renewals_changes_nothing(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    leader, _ = fleet.add(timing=PATIENT), fleet.add(start=False, timing=PATIENT)
    wait_for(leader.is_leader, timeout=SOON, what="the lead")
    fleet.pods[-1].start()
    token = leader.leader()["fencingToken"]
    with Observer(fleet.pods) as observer, Timeline(leader) as timeline:
        for pod in fleet.pods:
            fleet.link(pod).refuse()
        before = fleet.spec()
        # The outage: two renewals fail in it.
        time.sleep(2 * RENEW_INTERVAL)
        for pod in fleet.pods:
            fleet.link(pod).heal()
        wait_for(
            lambda: fleet.spec()["renewTime"] != before["renewTime"], timeout=SOON, what="a renewal"
        )
        assert set(timeline.statuses()) == {200}
    assert leader.leader()["fencingToken"] == token
    assert fleet.spec()["leaseTransitions"] == before["leaseTransitions"]
    observer.assert_exclusive()


@pytest.mark.slow
def test_an_api_server_that_is_frozen_is_ridden_out_or_outlived(
    control_plane: ControlPlane, fleet: Fleet
) -> None:
    """Two Leases at once: one that is longer than it is frozen, and one that is shorter."""
    with Fleet(control_plane, fleet.namespace, lease="long") as long:
        long.create_empty_lease()
        patient = long.add(timing=STEADY)
        wait_for(patient.is_leader, timeout=SOON, what="the lead of the longer Lease")
        kept = patient.leader()["fencingToken"]
        leader, _ = fleet.elect(2)
        token = leader.leader()["fencingToken"]
        with Observer(fleet.pods) as observer, Timeline(patient) as timeline:
            control_plane.freeze()
            frozen_at = boottime()
            try:
                end = frozen_at + FAST_DURATION + 1.0
                time.sleep(end - boottime())
            finally:
                control_plane.thaw()
            wait_for(
                lambda: max(observer.tokens(), default=0) > token,
                timeout=FAST_DURATION + SOON,
                what="another term",
            )
            renewed = long.spec()["renewTime"]
            wait_for(lambda: long.spec()["renewTime"] != renewed, timeout=SOON, what="a renewal")
        assert set(timeline.statuses()) == {200}
        assert patient.leader()["fencingToken"] == kept
    observer.assert_exclusive()
    answers = observer.answers()
    assert not [ready for ready in answers if frozen_at + VALIDITY < ready.sent < end]


@pytest.mark.parametrize("verb", ["get", "watch", "create", "update"])
def test_a_missing_rule_is_named_and_once_it_is_granted_works_without_a_restart(
    control_plane: ControlPlane, namespace: str, verb: str
) -> None:
    verbs = [each for each in ELECTOR_RULES[0]["verbs"] if each != verb]
    rules = [{**ELECTOR_RULES[0], "verbs": verbs}]
    account = control_plane.service_account_dir(namespace, "elector", rules)
    with Fleet(control_plane, namespace) as fleet:
        if verb != "create":
            fleet.create_empty_lease()
        pod = fleet.add("--on-missing", "take", credentials=account)

        def told() -> list[str]:
            lines = [line for line in pod.log_lines() if line["level"] == "warning"]
            return [line["missing_rule"] for line in lines if "missing_rule" in line]

        wait_for(lambda: bool(told()), timeout=SOON, what="the missing rule in the log")
        assert f'"{verb}"' in told()[0]
        assert f"Role in namespace {namespace}" in told()[0]
        if verb == "watch":
            # Without one it leads all the same, by its own writes.
            wait_for(pod.is_leader, timeout=SOON, what="the lead")
        else:
            assert not pod.is_leader()
        refusal = f"the API server forbids {verb} (403): needs Role in namespace {namespace}"
        wait_for(lambda: refusal in pod.leader()["reason"], timeout=SOON, what="the reason")
        if verb != "watch":
            assert refusal.encode() in answered(pod, "/readyz").body
        control_plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
        wait_for(pod.is_leader, timeout=2 * SOON, what="the lead")
        wait_for(lambda: "403" not in pod.leader()["reason"], timeout=SOON, what="no more of it")
        if verb == "watch":
            wait_for(
                lambda: any(
                    call.status == 200
                    for call in control_plane.audit(
                        stage="ResponseStarted", verb="watch", namespace=namespace
                    )
                ),
                timeout=2 * SOON,
                what="a watch",
            )


@pytest.mark.long
@pytest.mark.slow
def test_a_revoked_token_that_is_replaced_costs_no_restart(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = control_plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
    with Fleet(control_plane, namespace) as fleet:
        fleet.create_empty_lease()
        pod = fleet.add(credentials=account)
        wait_for(pod.is_leader, timeout=SOON, what="the lead")
        pid = pod.pid
        with Observer([pod]) as observer:
            control_plane.revoke_tokens(namespace, "elector")
            wait_for(
                lambda: any("401" in str(line.get("error")) for line in pod.log_lines()),
                timeout=TOKEN_CACHE + FAST_DURATION,
                what="a 401 in the log",
            )
            account.replace(token=control_plane.new_token(namespace, "elector"))
            wait_for(pod.is_leader, timeout=FAST_DURATION + SOON, what="the lead again")
            renewed = fleet.spec()["renewTime"]
            wait_for(lambda: fleet.spec()["renewTime"] != renewed, timeout=SOON, what="a renewal")
        assert pod.pid == pid
        # No token in the log, ever: each begins with the encoded `{"`.
        assert '"ey' not in pod.log_text()
        assert "Bearer" not in pod.log_text()
    observer.assert_exclusive()


@pytest.mark.long
@pytest.mark.slow
def test_a_rotated_ca_that_is_replaced_costs_no_restart(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = control_plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
    with Fleet(control_plane, namespace) as fleet:
        fleet.create_empty_lease()
        pods = [fleet.add(credentials=account) for _ in range(2)]
        wait_for_leader(pods, timeout=SOON)
        token = max(pod.leader()["fencingToken"] or 0 for pod in pods)
        with Observer(pods) as observer:
            bundle = control_plane.rotate_serving_certificate()
            wait_for(
                lambda: all(pod.readyz() == 503 for pod in pods),
                timeout=VALIDITY + SOON,
                what="nobody to trust the new certificate",
            )
            account.replace(ca=bundle.read_bytes())
            leader = wait_for_leader(pods, timeout=FAST_DURATION + SOON)
            assert leader.leader()["fencingToken"] > token
        observer.assert_exclusive()
        assert all(pod.is_running for pod in pods)


@pytest.mark.slow
def test_p8_a_standby_is_quiet_and_a_leader_writes_once_per_interval(
    control_plane: ControlPlane, fleet: Fleet
) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add(timing=QUIET) for _ in range(2)]
    leader = wait_for_leader(pods, timeout=SOON)
    (standby,) = (pod for pod in pods if pod is not leader)
    wait_for(lambda: standby.leader()["holder"] == leader.identity, timeout=SOON, what="a standby")

    def watchers() -> int:
        watches = control_plane.audit(
            stage="ResponseStarted", verb="watch", namespace=fleet.namespace
        )
        return sum(any(pod.name in each.user_agent for each in watches) for pod in pods)

    wait_for(lambda: watchers() == 2, timeout=SOON, what="their first watches")
    time.sleep(1.0)
    since = time.time()
    # Long enough to count how often each of them writes.
    time.sleep(12.0)
    until = time.time()
    events = control_plane.audit(stage=None, namespace=fleet.namespace, since=since, until=until)
    asked = {(event.audit_id, event.verb) for event in events if leader.name in event.user_agent}
    by_standby = {event.audit_id for event in events if standby.name in event.user_agent}
    assert not by_standby
    assert {verb for _, verb in asked} == {"update"}
    # One may have been under way for longer than the next.
    expected = (until - since) / QUIET_INTERVAL
    assert expected / 2 <= len(asked) <= expected + 2
