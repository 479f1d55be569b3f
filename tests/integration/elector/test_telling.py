"""What is told to others: notifications, the leader label, Events, OpenTelemetry."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.runtime.version import VERSION
from tests.integration.collector import Collector
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, LEASE, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import wait_for, wait_for_leader

LABEL = "example.com/role=leader"
KEY, VALUE = LABEL.split("=")
LABEL_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]}]
EVENT_RULES = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]


def told(main: MainServer) -> list[dict[str, Any]]:
    return [json.loads(body) for _, _, path, body in main.requests if path == "/notify"]


def test_the_latest_state_is_notified_at_each_change(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    with MainServer() as main:
        pod = fleet.add("--notify-url", f"{main.url}/notify", "--release-on-term")
        wait_for(
            lambda: any(it["isLeader"] for it in told(main)), timeout=20, what="a notification"
        )
        assert told(main)[-1]["fencingToken"] == pod.leader()["fencingToken"]
        pod.terminate()
        assert pod.wait() == 0
        assert told(main)[-1]["isLeader"] is False


@pytest.mark.slow
def test_a_state_that_could_not_be_notified_is_notified_later(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    with MainServer() as main:
        main.close()
        pod = fleet.add("--notify-url", f"{main.url}/notify")
        wait_for_leader([pod], timeout=20)
        main.open()
        wait_for(lambda: bool(told(main)), timeout=15, what="the notification after the outage")
        assert told(main)[-1]["isLeader"] is True
        assert pod.is_leader()


def create_pod(fleet: Fleet, name: str, *, lease: str | None, labels: dict[str, str]) -> None:
    annotations = {"edge-sidecars.io/lease": lease} if lease else {}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
    }
    status, answer = fleet.plane.admin.post(f"/api/v1/namespaces/{fleet.namespace}/pods", body)
    assert status == 201, answer


def bearers(fleet: Fleet) -> set[str]:
    path = f"/api/v1/namespaces/{fleet.namespace}/pods?labelSelector={KEY}%3D{VALUE}"
    status, answer = fleet.plane.admin.get(path)
    assert status == 200, answer
    return {pod["metadata"]["name"] for pod in answer["items"]}


def patches(fleet: Fleet) -> int:
    return fleet.plane.count_requests(verb="patch", resource="pods", namespace=fleet.namespace)


def labelling(fleet: Fleet, account: ServiceAccountDirectory) -> ElectorPod:
    name = f"pod-{len(fleet.pods)}"
    environ = {"POD_NAME": name, "POD_NAMESPACE": fleet.namespace}
    flags = ("--leader-label", LABEL, "--release-on-term")
    return fleet.add(*flags, credentials=account, environ=environ)


def account(fleet: Fleet, rules: list[dict[str, list[str]]]) -> ServiceAccountDirectory:
    return fleet.plane.service_account_dir(fleet.namespace, "labeller", [*ELECTOR_RULES, *rules])


@pytest.mark.slow
def test_the_winner_bears_the_label_and_takes_it_off_the_others(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    # pod-1 bears the label from before, though it does not lead; so does a pod of another Lease.
    create_pod(fleet, "pod-0", lease=LEASE, labels={})
    create_pod(fleet, "pod-1", lease=LEASE, labels={KEY: VALUE})
    create_pod(fleet, "stranger", lease="another", labels={KEY: VALUE})
    credentials = account(fleet, LABEL_RULES)
    first = labelling(fleet, credentials)
    wait_for(
        lambda: bearers(fleet) == {"pod-0", "stranger"}, timeout=20, what="the label on pod-0 alone"
    )
    second = labelling(fleet, credentials)
    settled = patches(fleet)
    wait_for(lambda: second.leader()["role"] == "standby", timeout=20, what="a standby")
    assert patches(fleet) == settled, "patched without a change"

    first.kill()  # it cannot take its label off any more
    wait_for(
        lambda: bearers(fleet) == {"pod-1", "stranger"},
        timeout=FAST_DURATION + 15,
        what="the label moved to pod-1",
    )
    fleet.plane.admin.patch(
        f"/api/v1/namespaces/{fleet.namespace}/pods/pod-1", {"metadata": {"labels": {KEY: None}}}
    )
    wait_for(lambda: "pod-1" in bearers(fleet), timeout=20, what="the label put back")
    second.terminate()
    assert second.wait() == 0
    assert bearers(fleet) == {"stranger"}


def test_a_label_that_rbac_forbids_is_said_with_the_missing_rule(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    create_pod(fleet, "pod-0", lease=LEASE, labels={})
    pod = labelling(fleet, account(fleet, []))
    wait_for_leader([pod], timeout=20)

    def complained() -> bool:
        return any('resources: ["pods"]' in str(it.get("missing_rule")) for it in pod.log_lines())

    wait_for(complained, timeout=20, what="the missing rule in the log")
    assert pod.is_leader()


def test_events_on_the_lease_have_client_gos_reason_and_texts(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add("--release-on-term", credentials=account(fleet, EVENT_RULES))
    wait_for_leader([pod], timeout=20)
    path = f"/api/v1/namespaces/{fleet.namespace}/events"

    def messages() -> list[str]:
        _, answer = fleet.plane.admin.get(path)
        return [
            event["message"]
            for event in answer["items"]
            if event["reason"] == "LeaderElection"
            and event["involvedObject"]["kind"] == "Lease"
            and event["involvedObject"]["name"] == LEASE
        ]

    wait_for(lambda: messages() == [f"{pod.identity} became leader"], timeout=20, what="an event")
    pod.terminate()
    assert pod.wait() == 0
    assert sorted(messages()) == [
        f"{pod.identity} became leader",
        f"{pod.identity} stopped leading",
    ]


def test_metrics_and_a_span_for_each_term_are_exported_when_an_endpoint_is_set(
    fleet: Fleet,
) -> None:
    fleet.create_empty_lease()
    with Collector() as collector:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }
        pod = fleet.add("--release-on-term", environ=environ)
        wait_for(
            lambda: collector.metric("leader_election_master_status") == 1.0,
            timeout=15,
            what="the exported metric",
        )
        pod.terminate()
        assert pod.wait() == 0
        assert collector.spans() == ["leadership term"]
        assert collector.metric("leader_election_master_status") == 0.0
        # With a point for each result, of which "ok" is the first.
        assert collector.metric("elector_renewal_duration_seconds_count") is not None
        assert collector.resource()["service.version"] == VERSION


def test_without_the_packages_for_a_collector_that_is_told_and_all_else_works(
    fleet: Fleet, tmp_path: Path
) -> None:
    """As in an image, in a pod whose variable is meant for another container."""
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('hidden')\n")
    fleet.create_empty_lease()
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(tmp_path)}
    pod = fleet.add("--release-on-term", environ=environ)
    wait_for_leader([pod], timeout=15)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is not served" in pod.log_text()
    pod.terminate()
    assert pod.wait() == 0
