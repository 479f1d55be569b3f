"""client-go's informers and candidates against the local API server: the API server may be it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.relay.watched import Watched
from tests.integration.tools.local_apiserver.in_process import Json
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.peers.informers import InformerProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.relay_objects import collection, hash_of

GADGETS = "gadgets.v1.example.com"
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.site"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"site": {"type": "string"}}}
                        },
                    }
                },
            }
        ],
    },
}
WATCHED = [
    Watched("typed", "configmaps", "default"),
    Watched("typed", "configmaps", "default", label_selector="x=1"),
    Watched("typed", "pods", "default", field_selector="spec.nodeName=n1"),
    Watched("typed", "secrets"),
    Watched("dynamic", GADGETS, "default"),
    Watched("dynamic", GADGETS, "default", field_selector="spec.site=north"),
    Watched("metadata", "pods", "default"),
]
PATIENCE = 60.0


@pytest.fixture
def server() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess() as process:
        yield process


@pytest.fixture
def kubeconfig(server: LocalApiServerProcess, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "server", "cluster": {"server": server.server}}],
        "users": [{"name": "anyone", "user": {}}],
        "contexts": [{"name": "server", "context": {"cluster": "server", "user": "anyone"}}],
        "current-context": "server",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


class Writing:
    """Objects of several resources that come, change, move over selectors and go."""

    def __init__(self, server: LocalApiServerProcess) -> None:
        self.caller = Caller(server.server)
        self._round = 0

    def make(self, resource: str, name: str, body: Json, *, x: str = "") -> None:
        meta = {"name": name, "labels": {"x": x} if x else {}}
        self.caller.post(collection(resource, "default"), {**body, "metadata": meta}).expect(201)

    def edit(self, resource: str, name: str, patch: Json) -> None:
        path = f"{collection(resource, 'default')}/{name}"
        self.caller.patch(path, patch).expect()

    def delete(self, resource: str, name: str) -> None:
        self.caller.delete(f"{collection(resource, 'default')}/{name}").expect()

    def write(self) -> None:
        self._round += 1
        number = self._round
        head = {"apiVersion": "example.com/v1", "kind": "Gadget"}
        for which in range(3):
            self.make("configmaps", f"c-{number}-{which}", {}, x=str(which))
            node = {"nodeName": f"n{which}", "containers": [{"name": "c", "image": "i"}]}
            self.make("pods", f"p-{number}-{which}", {"spec": node})
        self.edit("configmaps", f"c-{number}-0", {"metadata": {"labels": {"x": "1"}}})
        self.edit("configmaps", f"c-{number}-1", {"metadata": {"labels": {"x": "2"}}})
        self.edit("pods", f"p-{number}-1/status", {"status": {"phase": "Running"}})
        self.make("secrets", f"s-{number}", {"stringData": {"a": "b"}})
        for site in ("north", "south"):
            self.make(GADGETS, f"g-{number}-{site}", {**head, "spec": {"site": site}})
        self.edit(GADGETS, f"g-{number}-north", {"spec": {"site": "south"}})
        self.edit(GADGETS, f"g-{number}-south", {"spec": {"site": "north"}})
        if number > 1:
            self.delete("configmaps", f"c-{number - 1}-0")
            self.delete("pods", f"p-{number - 1}-1?gracePeriodSeconds=0")
            self.delete(GADGETS, f"g-{number - 1}-south")

    def settle(self, informers: InformerProcess) -> None:
        """Returns when every informer holds what is listed."""
        truth = {}
        for each in WATCHED:
            query = {"labelSelector": each.label_selector, "fieldSelector": each.field_selector}
            listed = self.caller.get(collection(each.resource, each.namespace), query)
            truth[each.spec] = hash_of(listed.expect()["items"])
        deadline = time.monotonic() + PATIENCE
        while differing := [
            one
            for one in informers.states()
            if not one.is_synced or one.hash != truth[one.informer]
        ]:
            assert time.monotonic() < deadline, (differing[:2], informers.log_text()[-2000:])
            time.sleep(0.05)
        informers.check()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
def test_informers_hold_what_is_there_also_after_kill_9(
    server: LocalApiServerProcess, kubeconfig: Path, watch_list: bool
) -> None:
    writing = Writing(server)
    definitions = collection("customresourcedefinitions.v1.apiextensions.k8s.io")
    writing.caller.post(definitions, DEFINITION).expect(201)
    writing.write()
    specs = [each.spec for each in WATCHED]
    with InformerProcess(kubeconfig, specs, watch_list=watch_list) as informers:
        writing.settle(informers)
        writing.write()
        writing.settle(informers)
        server.stop_apiserver()
        server.start_apiserver()
        writing.write()
        writing.settle(informers)
        assert informers.total("deleted") > 0


@pytest.mark.long
def test_client_gos_candidates_elect_a_leader(
    server: LocalApiServerProcess, kubeconfig: Path
) -> None:
    # Typed clients of later releases write in protobuf, which is not read here.
    def candidate(name: str) -> ClientGoCandidate:
        return ClientGoCandidate(
            name, version="0.30", kubeconfig=kubeconfig, namespace="default", lease="l"
        )

    with candidate("one") as one:
        one.start()
        wait_leading(one)
        with candidate("two") as two:
            two.start()
            one.kill()
            wait_leading(two)


def wait_leading(candidate: ClientGoCandidate) -> None:
    deadline = time.monotonic() + PATIENCE
    while not candidate.is_leader():
        assert time.monotonic() < deadline, candidate.log_text()
        time.sleep(0.05)
