"""Rule 9.1: what the first `kubectl get` asked for is kept, in whichever form: while the link is
cut the same command is answered, also after a restart."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.relay.place import PROBE_INTERVAL
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.kubectl import Kubectl
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
# Seconds.
SOON = 10.0


@dataclass
class Fresh:
    """A relay that nobody has asked yet, before an API server with one ConfigMap and one Secret of
    that name in `namespace`."""

    relay: RelayProcess
    link: FaultProxy
    cloud: Caller
    namespace: str

    def path(self, *parts: str) -> str:
        return "/".join((f"/api/v1/namespaces/{self.namespace}", *parts))

    def kubeconfig(self) -> Path:
        path = self.relay.data_dir.parent / "kubeconfig"
        path.write_text(self.relay.command("kubeconfig"), encoding="utf-8")
        return path

    def cut(self) -> None:
        self.link.refuse()
        self.relay.wait_link(up=False)

    def objects(self) -> int:
        """Of all streams."""
        return sum(int(it["objects"]) for it in self.relay.status()["streams"])

    def kept(self) -> int:
        """Objects of streams, and bytes of others."""
        return self.objects() + int(self.relay.status()["memory"]["seenBytes"])


@pytest.fixture
def fresh(control_plane: ControlPlane, namespace: str) -> Iterator[Fresh]:
    cloud = Caller(control_plane.server, context=control_plane.tls())
    with FaultProxy(control_plane.port) as link:
        upstream = f"--kubeconfig={control_plane.admin_kubeconfig(server=link.url)}"
        with RelayProcess([upstream, f"--probe-interval={PROBE_INTERVAL}"]) as relay:
            it = Fresh(relay, link, cloud, namespace)
            for resource in ("configmaps", "secrets"):
                cloud.post(it.path(resource), named("a")).expect(201)
            relay.wait_link(up=True)
            yield it


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


COMMANDS = {
    "list": ("get", "configmaps"),
    "one": ("get", "configmap", "a"),
    "one as JSON": ("get", "configmap", "a", "-o", "json"),
    "some": ("get", "configmaps", "-l", "!nothing"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_r4_what_the_first_kubectl_get_asked_for_is_answered_while_cut(
    fresh: Fresh, what: str
) -> None:
    with Kubectl(fresh.kubeconfig(), fresh.namespace) as kubectl:
        said = kubectl.run(*COMMANDS[what]).expect()
        assert "a" in said
        wait_for(lambda: fresh.kept() > 0, timeout=SOON, what="something that is kept")
        if what in ("list", "some"):
            wait_for(lambda: bool(fresh.objects()), timeout=SOON, what="a stream")
        fresh.cut()
        for _ in range(2):
            again = kubectl.run(*COMMANDS[what]).expect()
            assert "a" in again.split() or '"name": "a"' in again
            fresh.relay.kill()
            fresh.relay.start()


@pytest.mark.parametrize("accept", [PROTOBUF, METADATA.format("List"), "application/yaml"])
def test_r4_a_list_in_any_form_opens_the_stream_of_its_scope(fresh: Fresh, accept: str) -> None:
    caller = Caller(fresh.relay.url, headers={"Accept": accept})
    if caller.get(fresh.path("configmaps")).status == 406:
        pytest.skip("the local API server has it in JSON only")
    wait_for(lambda: bool(fresh.relay.status()["streams"]), timeout=SOON, what="a stream")
    wait_for(
        lambda: fresh.relay.status()["streams"][0]["objects"] > 0, timeout=SOON, what="objects"
    )
    fresh.cut()
    listed = Caller(fresh.relay.url).get(fresh.path("configmaps")).expect()
    assert "a" in [item["metadata"]["name"] for item in listed["items"]]


def test_r4_an_object_of_which_the_metadata_was_read_is_kept(fresh: Fresh) -> None:
    caller = Caller(fresh.relay.url, headers={"Accept": METADATA.format("")})
    first = caller.get(fresh.path("configmaps", "a")).expect()
    wait_for(lambda: fresh.kept() > 0, timeout=SOON, what="something that is kept")
    fresh.cut()
    assert caller.get(fresh.path("configmaps", "a")).expect()["metadata"] == first["metadata"]


def test_a_secret_of_which_a_table_was_read_is_not_asked_for(fresh: Fresh) -> None:
    caller = Caller(fresh.relay.url, headers={"Accept": TABLE})
    caller.get(fresh.path("secrets", "a")).expect()
    caller.get(fresh.path("configmaps", "a")).expect()
    wait_for(lambda: fresh.kept() > 0, timeout=SOON, what="the ConfigMap")
    fresh.cut()
    Caller(fresh.relay.url).get(fresh.path("configmaps", "a")).expect()
    Caller(fresh.relay.url).get(fresh.path("secrets", "a")).expect(503)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_reading_tables_costs_one_request_more_for_each_object(
    fresh: Fresh, control_plane: ControlPlane
) -> None:
    caller = Caller(fresh.relay.url, headers={"Accept": TABLE})
    names = [f"b{number}" for number in range(5)]
    for name in names:
        fresh.cloud.post(fresh.path("configmaps"), named(name)).expect(201)
    for _ in range(3):
        for name in names:
            caller.get(fresh.path("configmaps", name)).expect()
        wait_for(
            lambda: len(gets(control_plane, fresh.namespace)) >= 2 * len(names),
            timeout=SOON,
            what="all GETs",
        )
    # Whoever waited in the first round is known in those after it.
    assert len(gets(control_plane, fresh.namespace)) == 4 * len(names)


def gets(plane: ControlPlane, namespace: str) -> list[str]:
    events = plane.audit(stage="ResponseComplete", namespace=namespace, resource="configmaps")
    return [json.dumps(event.request_uri) for event in events if event.verb == "get"]
