"""Objects of every kind that kube-apiserver selects by more than its name, and of some others.

Guarantees: two namespaces hold them, with labels of a small vocabulary and with fields both set
and left to their defaults; custom resources have selectable fields of each type that there is, in
one version more than in the other. Nothing of it changes; `remove` takes away what is in no
namespace.
"""

from __future__ import annotations

import itertools
import json
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from edge_sidecars.apimachinery.objects import Item, read_page
from edge_sidecars.apimachinery.openapi import read_schemas
from edge_sidecars.apimachinery.resources import known_fields
from edge_sidecars.apimachinery.scope import ResourceName
from tests.integration.relay.reads.asking import KeptCaller
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import POLL_INTERVAL, Json
from tools.harness.relay_objects import CRDS, ESTABLISHED_TIMEOUT, collection

# The names of the grammar are names of labels too.
LABELS = ("a", "b", "example.com/x", "in", "notin")
LABEL_VALUES = ("", "1", "5", "10", "007", "x", "in", "v.1", "Y_y")
GROUP = "assorted.example.com"
CONTAINERS = [{"name": "main", "image": "example.com/main:1"}]
TEMPLATE = {"metadata": {"labels": {"z": "z"}}, "spec": {"containers": CONTAINERS}}
AWKWARD = r"a,b=c\d"


@dataclass(frozen=True, eq=False)
class Kind:
    """`published`: what OpenAPI tells of a custom resource; `fields`: all that selects."""

    resource: ResourceName
    is_namespaced: bool
    published: frozenset[str]
    fields: tuple[str, ...]
    items: Sequence[Item]


class Assortment:
    """Makes the objects as an administrator; `kind` tells of one kind all there are."""

    def __init__(self, plane: ControlPlane, caller: KeptCaller) -> None:
        self._admin = plane.admin
        self._caller = caller
        self._in_no_namespace: list[str] = []
        self._kinds: dict[ResourceName, Kind] = {}
        self._chance = random.Random(7)
        self._tag = secrets.token_hex(3)
        self.namespaces = [plane.create_namespace("assorted") for _ in range(2)]
        self._define()
        for namespace in self.namespaces:
            self._fill(namespace)
        self._fill_cluster()

    def remove(self) -> None:
        for path in reversed(self._in_no_namespace):
            expect(self._admin.delete(path))

    def kind(self, resource: ResourceName) -> Kind:
        """Listed at the first call."""
        if resource not in self._kinds:
            self._kinds[resource] = self._listed(resource)
        return self._kinds[resource]

    def _listed(self, resource: ResourceName) -> Kind:
        listed = self._caller.get(f"{resource.api_path}/{resource.plural}")
        assert listed.status == 200, listed
        discovered = self._caller.get(resource.api_path)
        resources = {it["name"]: it for it in json.loads(discovered.body)["resources"]}
        published: frozenset[str] = frozenset()
        known = known_fields(resource)
        if known is None:
            document = self._caller.get(f"/openapi/v3{resource.api_path}").body
            published = read_schemas(document)[resource.plural].fields
            known = published | {"metadata.name", "metadata.namespace"}
        items = read_page(listed.body).items
        is_namespaced = resources[resource.plural]["namespaced"]
        return Kind(resource, is_namespaced, published, tuple(sorted(known)), items)

    def _create(self, path: str, name: str, status: Json | None = None, **content: Any) -> None:
        metadata = {"name": name, "labels": self._labels()}
        expect(self._admin.post(path, {"metadata": metadata, **content}))
        if status:
            expect(self._admin.patch(f"{path}/{name}/status", {"status": status}))
        if "/namespaces/" not in path:
            self._in_no_namespace.append(f"{path}/{name}")

    def _labels(self) -> Mapping[str, str]:
        chance = self._chance
        return {key: chance.choice(LABEL_VALUES) for key in LABELS if chance.random() < 0.5}

    def _define(self) -> None:
        spec = {
            "color": {"type": "string"},
            "size": {"type": "integer"},
            "on": {"type": "boolean"},
            "deep": {"type": "object", "properties": {"x": {"type": "string"}}},
        }
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": spec}},
        }
        paths = (".spec.color", ".spec.size", ".spec.on", ".spec.deep.x")
        versions = [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                # Versions of one schema may have no selectable fields of their own.
                "schema": {"openAPIV3Schema": {**schema, "description": name}},
                "selectableFields": [{"jsonPath": path} for path in selectable],
            }
            for name, selectable in (("v1", paths), ("v1beta1", paths[:1]))
        ]
        for plural, kind, scope in (
            ("widgets", "Widget", "Namespaced"),
            ("gadgets", "Gadget", "Cluster"),
        ):
            definition = {
                "metadata": {"name": f"{plural}.{GROUP}"},
                "spec": {
                    "group": GROUP,
                    "scope": scope,
                    "names": {"plural": plural, "kind": kind},
                    "versions": versions,
                },
            }
            expect(self._admin.post(CRDS, definition))
            self._in_no_namespace.append(f"{CRDS}/{plural}.{GROUP}")
            for version in ("v1", "v1beta1"):
                self._wait_served(collection(f"{plural}.{version}.{GROUP}"))

    def _wait_served(self, path: str) -> None:
        deadline = time.monotonic() + ESTABLISHED_TIMEOUT
        while (answer := self._admin.get(path))[0] != HTTPStatus.OK:
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_INTERVAL)

    def _fill(self, namespace: str) -> None:
        core = f"/api/v1/namespaces/{namespace}"
        for number in range(10):
            self._pod(f"{core}/pods", number)
        services: list[Json] = [
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80}], "clusterIP": "None"},
            {"ports": [{"port": 80}], "type": "NodePort"},
            {"type": "ExternalName", "externalName": "example.com"},
        ]
        for number, spec in enumerate(services):
            self._create(f"{core}/services", f"s{number}", spec=spec)
        for number, type in enumerate(("Opaque", "example.com/a", "bootstrap")):
            self._create(f"{core}/secrets", f"s{number}", type=type)
        for number in range(3):
            self._create(f"{core}/configmaps", f"c{number}")
            self._counted(namespace, number)
        self._events(namespace)
        for number, spec in enumerate(self._specs()):
            widgets = f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets"
            self._custom(widgets, "Widget", f"w{number}", spec)

    def _pod(self, path: str, number: int) -> None:
        spec: Json = {"containers": CONTAINERS, "hostNetwork": number % 3 == 0}
        if number % 2:
            spec["nodeName"] = f"n{number % 3}"
        if number % 4 == 0:
            spec |= {"restartPolicy": "Never", "schedulerName": "other"}
        address = f"10.0.0.{number}"
        status: Json = {
            "phase": ("Pending", "Running", "Failed")[number % 3],
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": f"fd00::{number}"}],
        }
        if number == 8:
            status["nominatedNodeName"] = "n1"
        self._create(path, f"p{number}", status if number % 3 else None, spec=spec)

    def _counted(self, namespace: str, number: int) -> None:
        core = f"/api/v1/namespaces/{namespace}"
        controller = {"replicas": 3, "selector": {"z": "z"}, "template": TEMPLATE}
        replicas = {"replicas": number}
        self._create(f"{core}/replicationcontrollers", f"r{number}", replicas, spec=controller)
        apps = f"/apis/apps/v1/namespaces/{namespace}"
        replica_set = {**controller, "selector": {"matchLabels": {"z": "z"}}}
        self._create(f"{apps}/replicasets", f"r{number}", replicas, spec=replica_set)
        batch = f"/apis/batch/v1/namespaces/{namespace}"
        template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
        succeeded = {"succeeded": number} if number else None
        job = {"completions": 5, "template": template}
        self._create(f"{batch}/jobs", f"j{number}", succeeded, spec=job)

    def _events(self, namespace: str) -> None:
        for number in range(4):
            reference = {
                "kind": ("Pod", "Node")[number % 2],
                "namespace": namespace,
                "name": f"p{number}",
                "uid": f"u{number}",
                "apiVersion": "v1",
                "resourceVersion": "7",
                "fieldPath": "spec.containers{main}",
            }
            self._create(
                f"/api/v1/namespaces/{namespace}/events",
                f"e{number}",
                involvedObject=reference,
                reason=("A", "B")[number % 2],
                type=("Normal", "Warning")[number // 2],
                source={"component": "kubelet"} if number % 2 else {},
                reportingComponent=("", "example.com/c")[number // 2],
            )
            self._create(
                f"/apis/events.k8s.io/v1/namespaces/{namespace}/events",
                f"n{number}",
                regarding=reference,
                reason="A",
                type="Normal",
                action="act",
                eventTime="2026-01-01T00:00:00.000000Z",
                reportingController="example.com/c",
                reportingInstance="x",
            )

    def _fill_cluster(self) -> None:
        for number in range(4):
            name = f"n{number}-{self._tag}"
            spec = ({}, {"unschedulable": True}, {"unschedulable": False}, {})[number]
            self._create("/api/v1/nodes", name, spec=spec)
            volume = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/tmp/x"},
            }
            self._create("/api/v1/persistentvolumes", name, spec=volume)
            where: Json = {"nodeName": f"n{number}"} if number % 2 else {"allNodes": True}
            pool = {"name": "p", "resourceSliceCount": 1, "generation": 1}
            piece = {"driver": f"d{number // 2}.example.com", "pool": pool, "devices": [], **where}
            self._create("/apis/resource.k8s.io/v1/resourceslices", name, spec=piece)
        for number, spec in enumerate(self._specs()):
            self._custom(f"/apis/{GROUP}/v1/gadgets", "Gadget", f"g{number}", spec)

    def _custom(self, path: str, kind: str, name: str, spec: Json) -> None:
        self._create(path, name, apiVersion=f"{GROUP}/v1", kind=kind, spec=spec)

    def _specs(self) -> list[Json]:
        """Integers beyond what a float holds, and such as are written with a fraction."""
        colors: list[Json] = [{}, {"color": "red"}, {"color": ""}, {"color": AWKWARD}]
        sizes: list[Json] = [{}, *({"size": n} for n in (0, -5, 10**6, 2**53 + 1, 2.0, 1e6))]
        switches: list[Json] = [{}, {"on": True}, {"on": False}]
        depths: list[Json] = [{"deep": {"x": "1"}}, {"deep": {}}, {}]
        kinds = map(itertools.cycle, (colors, switches, depths))
        return [
            {**size, **color, **switch, **deep}
            for size, color, switch, deep in zip(sizes, *kinds, strict=False)
        ]
