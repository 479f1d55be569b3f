"""A GM and an LC of one mode, each with the rights that its overlay gives it, and all they can do.

Owns a namespace of a control plane without controllers: what GM makes stays until GM removes it.
Guarantees: whoever works here has no other rights; `work` returns when everything has been done.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEDERATED_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
    KINDS,
    MODEL,
    NODE_REPORT,
    ResourceKind,
)
from tests.integration.lib.sedna_api.definitions import sample
from tests.integration.manifests.confined import AccountOf
from tests.unit.manifests.built import gm_rules, named, overlay
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.edge_node import RELAY, EdgeNode
from tools.harness.pods.gm import LEASE_FLAGS, SHARD_FLAGS, GmPod

Json = dict[str, Any]

# Seconds in which something that is waited for must be so, on a busy machine.
PATIENCE = 60.0
POLL_INTERVAL = 0.1
EDGE, OTHER, CLOUD = "edge-a", "edge-b", "cloud-1"
# What the samples refer to.
DATASETS = ("defects-a", "defects-b", "comfort")
MODELS = (
    *("features", "defects", "crossings-first", "crossings-deployed"),
    *("helmets-small", "helmets-big"),
)
SPEC_HASH = "sedna.io/spec-hash"


def rules(overlay_name: str, kind: str, role: str) -> list[Json]:
    found: list[Json] = named(overlay(overlay_name), kind, role)["rules"]
    return found


def until(is_so: Callable[[], Any], *, what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < deadline, what
        time.sleep(POLL_INTERVAL)
    return found


class Site:
    """`has_shards`: GM decides by shards, as the overlay has it."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        mode: str,
        overlay_name: str,
        has_shards: bool = False,
    ) -> None:
        self.namespace = plane.create_namespace("rights")
        self._admin = plane.admin
        gm = AccountOf(
            plane,
            namespace=self.namespace,
            account="gm",
            rules=[*rules(overlay_name, "Role", "gm-elector"), *gm_rules()],
            cluster_rules=rules(overlay_name, "ClusterRole", "sedna-gm-nodes"),
        )
        lc = AccountOf(
            plane,
            namespace=self.namespace,
            account="lc",
            cluster_rules=rules(overlay_name, "ClusterRole", "sedna-lc") if mode == RELAY else (),
        )
        self.gm_user, self.lc_user = gm.user, lc.user
        self.gm = GmPod(
            gm,
            self.namespace,
            mode=mode,
            flags=("--leadership=shards",) if has_shards else (),
            lease_flags=SHARD_FLAGS if has_shards else LEASE_FLAGS,
        )
        self.edge = EdgeNode(
            EDGE,
            lc,
            [self.gm],
            mode=mode,
            namespace=self.namespace,
            root=folder / overlay_name,
            # What is reported here comes from no pod that GM made.
            flags=("--dataset-interval=1s", "--redial-cap=1s", "--trust-any-worker"),
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._stop)
            self.gm.start()
            self.edge.start()
            self.edge.lc.wait_ready()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self.edge.stop()
        self.gm.stop()
        self._admin.delete(f"/api/v1/namespaces/{self.namespace}")

    def work(self) -> None:
        """Every kind of object and child, from the first to the last that is done with it."""
        self._apply_samples()
        self._count("crossings")
        self._train()
        self._edit()
        self._meet_leftovers()
        self._lose_a_dataset()
        self._name_what_never_comes()

    # ── steps ──

    def _apply_samples(self) -> None:
        for name in DATASETS:
            node = OTHER if name == "defects-b" else EDGE
            spec = {"url": f"/srv/data/{name}.txt", "format": "txt", "nodeName": node}
            self._create(DATASET, name, spec)
        for name in MODELS:
            self._create(MODEL, name, {"url": f"/srv/models/{name}", "format": "pb"})
        for kind in KINDS:
            body = sample(kind)
            if kind == JOINT_INFERENCE_SERVICE:
                body["spec"]["cloudWorker"]["hpa"] = {"maxReplicas": 3}
            expect(self._admin.post(kind.collection(self.namespace), body))
        for kind in KINDS:
            name = sample(kind)["metadata"]["name"]
            # A Model has a status only when somebody has trained it.
            if kind not in (MODEL, DATASET):
                self._wait(kind.path(self.namespace, name), lambda it: it.get("status"))

    def _count(self, dataset: str) -> None:
        """A report's way, from a file to the status."""
        self.edge.lc.write(f"/srv/data/{dataset}.txt", "1\n2\n3\n")
        path = DATASET.path(self.namespace, dataset)
        self._wait(path, lambda it: it.get("status", {}).get("numberOfSamples") == 3)

    def _train(self) -> None:
        """What a worker says of a model."""
        owner = {"ownerName": "defects", "ownerKind": "federatedlearningjob", "kind": "train"}
        results = [{"url": "/m/1", "metrics": {"acc": 0.5}}]
        told = {**owner, "namespace": self.namespace, "status": "running", "results": results}
        info = {"currentRound": 1, "sampleCount": 3, "updateTime": "2026-01-02 03:04:05"}

        def says() -> bool:
            answer = self.edge.lc.report("defects-train-0", {**told, "ownerInfo": info})
            return answer is not None and answer.status == HTTPStatus.OK

        until(says, what="LC knows the job")
        path = MODEL.path(self.namespace, "defects")
        self._wait(path, lambda it: it.get("status", {}).get("metrics"))

    def _edit(self) -> None:
        """Children follow their object, also when somebody has tampered with them."""
        path = JOINT_INFERENCE_SERVICE.path(self.namespace, "helmets")
        scalers = self._collection("/apis/autoscaling/v2", "horizontalpodautoscalers")
        deployments = self._collection("/apis/apps/v1", "deployments")
        self._wait(scalers, lambda it: len(it["items"]) == 1)
        self._patch(path, {"spec": {"cloudWorker": {"hpa": {"maxReplicas": 5}}}})
        self._wait(scalers, lambda it: [s["spec"]["maxReplicas"] for s in it["items"]] == [5])
        service = self._wait(self._collection("/api/v1", "services"), lambda it: it["items"])
        name = service["items"][0]["metadata"]["name"]
        tampered = f"{self._collection('/api/v1', 'services')}/{name}"
        self._patch(tampered, {"metadata": {"annotations": {SPEC_HASH: "another"}}})
        self._wait(tampered, lambda it: it["metadata"]["annotations"][SPEC_HASH] != "another")
        template = {"template": {"metadata": {"labels": {"edited": "yes"}}}}
        self._patch(path, {"spec": {"edgeWorker": template}})
        self._wait(
            deployments,
            lambda it: any(
                "edited" in each["spec"]["template"]["metadata"]["labels"] for each in it["items"]
            ),
        )

    def _meet_leftovers(self) -> None:
        """Nobody collects garbage here: who makes an object anew finds its old children."""
        self._make_anew(JOINT_INFERENCE_SERVICE, "helmets")
        uid = self.get(JOINT_INFERENCE_SERVICE.path(self.namespace, "helmets"))["metadata"]["uid"]
        for root, plural in (
            ("/apis/apps/v1", "deployments"),
            ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
            ("/api/v1", "services"),
        ):
            self._wait(
                self._collection(root, plural),
                lambda it: any(uid in _owners(each) for each in it["items"]),
            )
        self._make_anew(FEDERATED_LEARNING_JOB, "defects")
        # Without a kubelet a pod that is bound to a node stays, on its way out.
        self._wait(
            self._collection("/api/v1", "pods"),
            lambda it: any("deletionTimestamp" in each["metadata"] for each in it["items"]),
        )

    def _make_anew(self, kind: ResourceKind, name: str) -> None:
        path = kind.path(self.namespace, name)
        spec = self.get(path)["spec"]
        expect(self._admin.delete(path))
        until(lambda: not self.get(path), what=f"{name} is gone")
        self._create(kind, name, spec)

    def _lose_a_dataset(self) -> None:
        """That it is gone is believed after a look at the API itself: by GM where it takes reports,
        in mode relay by LC, when it next writes what it has to say of others."""
        self.edge.cut()
        self.edge.lc.write("/srv/data/crossings.txt", "1\n2\n3\n4\n")
        self.edge.lc.until(lambda it: it["reports"]["waiting"] > 0)
        uid = self.get(DATASET.path(self.namespace, "crossings"))["metadata"]["uid"]
        expect(self._admin.delete(DATASET.path(self.namespace, "crossings")))
        self.edge.heal()
        if self.edge.relay is None:
            self.edge.lc.until(lambda it: it["reports"]["refused"] > 0)
            return
        self.edge.lc.until(lambda it: it["reports"]["waiting"] == 0)
        self._count("defects-a")
        self._wait(
            NODE_REPORT.path(self.namespace, EDGE),
            lambda it: uid not in [entry["uid"] for entry in it["entries"]],
        )

    def _name_what_never_comes(self) -> None:
        """That there is none is believed after a look at the API itself."""
        spec = {"url": "/srv/data/nowhere.txt", "format": "txt", "nodeName": "never-joins"}
        self._create(DATASET, "nowhere", spec)
        path = DATASET.path(self.namespace, "nowhere")
        self._wait(path, lambda it: it.get("status", {}).get("conditions"))

    # ── the API, as an administrator ──

    def get(self, path: str) -> Json:
        """Nothing where there is none."""
        status, answer = self._admin.get(path)
        return answer if status == HTTPStatus.OK else {}

    def _create(self, kind: ResourceKind, name: str, spec: Json) -> None:
        body = {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        expect(self._admin.post(kind.collection(self.namespace), body))

    def _collection(self, root: str, plural: str) -> str:
        return f"{root}/namespaces/{self.namespace}/{plural}"

    def _patch(self, path: str, patch: Json) -> None:
        expect(self._admin.patch(path, patch))

    def _wait(self, path: str, is_so: Callable[[Json], object]) -> Json:
        def look() -> Json | None:
            found = self.get(path)
            return found if found and is_so(found) else None

        try:
            found: Json = until(look, what=path)
        except AssertionError as error:
            told = self.gm.gm.log_text()[-1500:]
            raise AssertionError(f"{error}\n{str(self.get(path))[-1500:]}\n{told}") from None
        return found


def _owners(child: Json) -> list[str]:
    return [it["uid"] for it in child["metadata"].get("ownerReferences", ())]
