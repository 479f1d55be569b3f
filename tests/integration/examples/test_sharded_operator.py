"""The example's operators, in Python and in Go: two replicas share objects, and pass them on.

Before a kube-apiserver that knows `shardSelector` and one that ignores it; what is whose is said by
electors that the test commands.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.shard_ring import ShardRing
from tools.harness.controlplane.clients.admin import Json
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.peers.build import EXAMPLE_SOURCE, sharded_operator_binary
from tools.harness.pods.observers.observer import wait_for

NAME = "example.com/checksum"
GATE = "ShardedListAndWatch"
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "patch"]}]
COUNT = 24
# Seconds, on a busy machine; the Python one lists each second.
PATIENCE = 60.0


@pytest.fixture(
    scope="module",
    params=[pytest.param("without the gate", marks=pytest.mark.long), "with the gate"],
)
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    features = [GATE] if request.param == "with the gate" else []
    with ControlPlane(features=features) as it:
        yield it


@pytest.fixture
def ring() -> Iterator[ShardRing]:
    with ShardRing(shards=16, validity=15.0) as it:
        it.join("a", "b")
        yield it
        assert it.unexpected == []


def command(language: str) -> list[str]:
    if language == "go":
        return [str(sharded_operator_binary())]
    return [sys.executable, "-I", str(EXAMPLE_SOURCE / "sharded_operator.py")]


class Replicas:
    """`a` and `b`, each with a service account of its own, so that the audit log tells them
    apart."""

    def __init__(self, plane: ControlPlane, ring: ShardRing, language: str) -> None:
        self.plane = plane
        self.ring = ring
        self.language = language
        self.namespace = plane.create_namespace()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        account = f"operator-{name}"
        environ = {"ELECTOR": self.ring.url(name), "API": self.plane.server}
        if self.language == "go":
            kubeconfig = self.plane.kubeconfig_for(self.namespace, account, [], cluster_rules=RULES)
            environ["KUBECONFIG"] = str(kubeconfig)
        else:
            folder = self.plane.service_account_dir(
                self.namespace, account, [], cluster_rules=RULES
            )
            environ["ACCOUNT"] = str(folder.path)
        process = subprocess.Popen(command(self.language), env=environ)
        self.processes[name] = process
        self.plane.guardian.watch(process.pid)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def put(self, name: str, text: str, *, labels: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        body: Json = {"metadata": {"name": name, "labels": labels}, "data": {"text": text}}
        status, _ = self.plane.admin.post(path, body)
        if status == 409:
            status, _ = self.plane.admin.patch(f"{path}/{name}", {"data": {"text": text}})
        assert status in (200, 201)

    def put_all(self, text: str) -> None:
        for index in range(COUNT):
            self.put(f"c{index:02}", text, labels={NAME: "wanted"})

    def objects(self) -> list[dict[str, Any]]:
        _, told = self.plane.admin.get(f"/api/v1/namespaces/{self.namespace}/configmaps")
        items: list[dict[str, Any]] = told["items"]
        return [it for it in items if it["metadata"]["name"] != "kube-root-ca.crt"]

    def checksums(self) -> dict[str, str]:
        """By name, of those that have one."""
        found = {it["metadata"]["name"]: it["metadata"].get("annotations") for it in self.objects()}
        return {name: it[NAME] for name, it in found.items() if it and NAME in it}

    def wait_written(self, before: set[str]) -> set[str]:
        """Until all have one checksum, which was none of `before`; the checksums by then."""

        def is_so() -> bool:
            sums = self.checksums()
            told = {*sums.values()}
            return len(sums) == COUNT and len(told) == 1 and not before & told

        wait_for(is_so, timeout=PATIENCE, what=f"checksums are written: {self.checksums()}")
        return before | {*self.checksums().values()}

    def writers(self) -> dict[str, list[str]]:
        """By object, who wrote it, in order."""
        found: dict[str, list[str]] = {}
        for event in self.plane.audit(verb="patch", namespace=self.namespace):
            if event.user.startswith("system:serviceaccount:") and event.status == 200:
                found.setdefault(event.name, []).append(event.user.rpartition("-")[2])
        return found


@contextmanager
def replicas(plane: ControlPlane, ring: ShardRing, language: str) -> Iterator[Replicas]:
    it = Replicas(plane, ring, language)
    try:
        it.start("a")
        it.start("b")
        yield it
    finally:
        it.stop()


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", pytest.param("go", marks=pytest.mark.long)])
def test_each_object_is_written_once_by_its_owner_whoever_that_is(
    plane: ControlPlane, ring: ShardRing, language: str
) -> None:
    with replicas(plane, ring, language) as them:
        ring.balance()
        them.put("unwanted", "x", labels={})
        them.put_all("one")
        sums = them.wait_written(set())
        owners = {
            it["metadata"]["name"]: ring.owner_of(it["metadata"]["uid"]) for it in them.objects()
        }
        del owners["unwanted"]
        assert {*owners.values()} == {"a", "b"}
        assert them.writers() == {name: [owner] for name, owner in owners.items()}
        shares = {
            name: sorted(number for number, owner in ring.owners().items() if owner == name)
            for name in ("a", "b")
        }
        # All of them to one, each by a hand-over that the other confirms.
        ring.give("b", range(16))
        wait_for(lambda: not ring.handing_over(), timeout=5.0, what="all is handed over")
        assert sorted(number for _, number, _ in ring.released) == shares["a"]
        them.put_all("two")
        sums = them.wait_written(sums)
        assert them.writers() == {name: [owner, "b"] for name, owner in owners.items()}
        # One is gone: the other goes on when what was told to the first has passed.
        them.processes["b"].kill()
        ring.kill("b")
        ring.balance()
        them.put_all("three")
        them.wait_written(sums)
        assert them.writers() == {name: [owner, "b", "a"] for name, owner in owners.items()}


def test_the_python_one_is_sixty_lines_of_code() -> None:
    text = (EXAMPLE_SOURCE / "sharded_operator.py").read_text(encoding="utf-8")
    code = text.partition('"""')[2].partition('"""')[2]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 60
