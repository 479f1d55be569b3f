"""Objects that the tests make in the cloud, and what stands there now.

Guarantees: every write succeeded when a method returns, and went past every relay; hashes are
made as the informer program (tools/harness/peers/informer/web.go) makes them.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Any

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import POLL_INTERVAL

Json = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Seconds until a new CRD is served.
ESTABLISHED_TIMEOUT = 20.0


def collection(resource: str, namespace: str = "") -> str:
    """The path of a collection; `resource` is PLURAL[.VERSION[.GROUP]]."""
    plural, _, rest = resource.partition(".")
    version, _, group = rest.partition(".")
    base = f"/apis/{group}/{version}" if group else f"/api/{version or 'v1'}"
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


class Contents:
    """Objects of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._admin = plane.admin
        self.namespace = namespace

    def path(self, resource: str, name: str = "") -> str:
        """Of the collection in this namespace, or of one object of it."""
        base = collection(resource, self.namespace)
        return f"{base}/{name}" if name else base

    # ── writes ──

    def create(
        self,
        resource: str,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Json:
        """Creates an object of these top-level fields; returns it."""
        metadata = {"name": name, "labels": dict(labels or {})}
        return expect(self._admin.post(self.path(resource), {"metadata": metadata, **fields}))

    def configmap(self, name: str, *, labels: Mapping[str, str] | None = None, **data: str) -> Json:
        return self.create("configmaps", name, labels=labels, data=data)

    def configmaps(self, count: int, *, prefix: str = "cm", size: int = 0) -> list[str]:
        """`count` ConfigMaps with `size` bytes each; their names."""
        names = [f"{prefix}-{number:04}" for number in range(count)]
        for name in names:
            self.configmap(name, filler="x" * size)
        return names

    def pod(self, name: str, *, node: str = "", labels: Mapping[str, str] | None = None) -> Json:
        """A pod, bound to the node if one is given; nobody runs it."""
        spec: Json = {"containers": [{"name": "main", "image": "example.com/main:1"}]}
        if node:
            spec["nodeName"] = node
        return self.create("pods", name, labels=labels, spec=spec)

    def set_phase(self, pod: str, phase: str) -> Json:
        path = f"{self.path('pods', pod)}/status"
        return expect(self._admin.patch(path, {"status": {"phase": phase}}))

    def edit(self, resource: str, name: str, change: Json) -> Json:
        """Applies a JSON merge patch."""
        return expect(self._admin.patch(self.path(resource, name), change))

    def label(self, resource: str, name: str, **labels: str | None) -> Json:
        return self.edit(resource, name, {"metadata": {"labels": labels}})

    def delete(self, resource: str, name: str) -> Json:
        """Deletes it at once."""
        body = {"gracePeriodSeconds": 0}
        return expect(self._admin.delete(self.path(resource, name), body))

    # ── what stands there ──

    def get(self, resource: str, name: str) -> Json:
        return expect(self._admin.get(self.path(resource, name)))

    def list(self, resource: str) -> Json:
        """A consistent list."""
        deadline = time.monotonic() + ESTABLISHED_TIMEOUT
        # 429: a resource whose cache the API server is filling, "storage is (re)initializing".
        while (answer := self._admin.get(self.path(resource)))[0] == 429:
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_INTERVAL)
        return expect(answer)

    def version(self, resource: str = "configmaps") -> int:
        """The resourceVersion of a consistent list now."""
        return int(self.list(resource)["metadata"]["resourceVersion"])

    def hash(self, resource: str) -> str:
        return hash_of(self.list(resource)["items"])


def hash_of(items: list[Json]) -> str:
    """Equal iff the same objects stand at the same versions."""
    lines = sorted(
        (f"{each['metadata'].get('namespace', '')}/{each['metadata']['name']}", each)
        for each in items
    )
    digest = hashlib.sha256()
    for key, each in lines:
        digest.update(f"{key}/{each['metadata']['resourceVersion']}\n".encode())
    return digest.hexdigest()


class Widgets:
    """A CRD of its own, namespaced, with `spec.site` as a selectable field; served when made."""

    def __init__(
        self, plane: ControlPlane, *, selectable: tuple[str, ...] = (".spec.site",)
    ) -> None:
        self._plane = plane
        self.group = f"g{secrets.token_hex(4)}.example.com"
        self.plural = "widgets"
        self.resource = f"{self.plural}.v1.{self.group}"
        self.name = f"{self.plural}.{self.group}"
        self.api_version = f"{self.group}/v1"
        self._selectable = selectable
        self.define()

    def define(self) -> None:
        """Makes it, the first time or after `delete`."""
        expect(self._plane.admin.post(CRDS, self._definition()))
        self.wait_served()

    def create(self, contents: Contents, name: str, **spec: Any) -> Json:
        return contents.create(
            self.resource, name, apiVersion=self.api_version, kind="Widget", spec=spec
        )

    def change_schema(self, properties: Json) -> None:
        """Puts other properties of `spec` in place."""
        path = f"{CRDS}/{self.name}"
        definition = expect(self._plane.admin.get(path))
        [version] = definition["spec"]["versions"]
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = properties
        expect(self._plane.admin.put(path, definition))

    def select(self, selectable: tuple[str, ...]) -> None:
        """Makes other fields selectable."""
        self._selectable = selectable
        path = f"{CRDS}/{self.name}"
        definition = expect(self._plane.admin.get(path))
        [version] = definition["spec"]["versions"]
        version["selectableFields"] = [{"jsonPath": each} for each in selectable]
        expect(self._plane.admin.put(path, definition))

    def delete(self) -> None:
        """Returns when neither it nor any object of it is there."""
        path = f"{CRDS}/{self.name}"
        expect(self._plane.admin.delete(path))
        deadline = time.monotonic() + ESTABLISHED_TIMEOUT
        while (answer := self._plane.admin.get(path))[0] != 404:
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_INTERVAL)

    def _definition(self) -> Json:
        properties = {"site": {"type": "string"}, "size": {"type": "integer"}}
        version: Json = {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": path} for path in self._selectable],
            "additionalPrinterColumns": [
                {"name": "Site", "type": "string", "jsonPath": ".spec.site"}
            ],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": properties},
                        "status": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        },
                    },
                }
            },
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": self.plural, "singular": "widget", "kind": "Widget"},
                "versions": [version],
            },
        }

    def wait_served(self) -> None:
        deadline = time.monotonic() + ESTABLISHED_TIMEOUT
        path = collection(self.resource)
        while (answer := self._plane.admin.get(path))[0] != 200:
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_INTERVAL)

    def wait_published(self) -> None:
        """Until discovery and OpenAPI tell of it too: the API server puts it there bit by bit."""
        deadline = time.monotonic() + ESTABLISHED_TIMEOUT
        admin, path = self._plane.admin, f"apis/{self.group}/v1"
        while not (
            path in expect(admin.get("/openapi/v3"))["paths"]
            and self.group in {each["name"] for each in expect(admin.get("/apis"))["groups"]}
        ):
            assert time.monotonic() < deadline, f"{path} is not published"
            time.sleep(POLL_INTERVAL)
