"""Pods of an overlay of manifests/, as far as an engine's containers can be what a manifest says.

Owns how Kubernetes' words become the engine's: images, variables, volumes, users, capabilities. Not
there: whatever needs a cluster around the pod (probes, Services, limits of requests). Guarantee: a
word that this does not know fails, so that nothing of a manifest is left out unseen.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.manifests.built import containers, named, overlay
from tools.harness.controlplane.access.accounts import Rule
from tools.images.assemble import COMPONENTS

Json = dict[str, Any]

# Where kubelet projects the pod's token, CA and namespace.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# What an engine does anyway, or without.
_LEFT_OUT = {
    *("livenessProbe", "readinessProbe", "startupProbe", "ports", "resources", "restartPolicy"),
    *("name", "image", "env", "volumeMounts", "securityContext"),
}


@dataclass(frozen=True)
class ContainerSpec:
    """`volumes`: of this machine, at a path; `data`: where it has one of its own."""

    name: str
    component: str
    environ: Mapping[str, str]
    volumes: Mapping[str, str]
    data: Sequence[str]
    user: str
    capabilities: list[str]


@dataclass(frozen=True)
class Place:
    """What the cluster knows of a pod: `root` of its node's file system; `account`: a folder as
    kubelet projects it."""

    pod: str
    namespace: str
    node: str
    root: Path
    account: Path | None


class Manifest:
    """One of manifests/overlays."""

    def __init__(self, overlay_name: str) -> None:
        self._objects = overlay(overlay_name)

    def find(self, kind: str, name: str) -> Json:
        return named(self._objects, kind, name)

    def rules(self, kind: str, name: str) -> Sequence[Rule]:
        """Of a Role or ClusterRole."""
        found: Sequence[Rule] = self.find(kind, name)["rules"]
        return found

    def containers(self, kind: str, name: str, place: Place) -> Iterator[ContainerSpec]:
        """Of the workload's pods, in the order in which they start."""
        workload = self.find(kind, name)
        template = workload["spec"]["template"]
        for it in containers(workload):
            assert it.keys() <= _LEFT_OUT, f"{it['name']}: {it.keys() - _LEFT_OUT}"
            volumes, data = _volumes(template["spec"], it, place)
            if template["spec"].get("automountServiceAccountToken", True):
                assert place.account is not None, name
                volumes[str(place.account)] = f"{ACCOUNT}:ro"
            security = it["securityContext"]
            yield ContainerSpec(
                name=it["name"],
                component=_component(it["image"]),
                environ=dict(self._environ(template, it, place)),
                volumes=volumes,
                data=data,
                user=_user(security["runAsUser"]),
                capabilities=security["capabilities"].get("add", []),
            )

    def _environ(self, template: Json, container: Json, place: Place) -> Iterator[tuple[str, str]]:
        fields = {
            "metadata.name": place.pod,
            "metadata.namespace": place.namespace,
            "spec.nodeName": place.node,
        }
        for key, value in template["metadata"].get("annotations", {}).items():
            fields[f"metadata.annotations['{key}']"] = value
        for it in container.get("env", ()):
            match it:
                case {"name": name, "value": value}:
                    yield name, value
                case {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}:
                    yield name, fields[path]
                case {"name": name, "valueFrom": {"configMapKeyRef": source}}:
                    data = self.find("ConfigMap", source["name"])["data"]
                    if source["key"] in data or not source.get("optional"):
                        yield name, data[source["key"]]
                case _:
                    raise LookupError(it)


def _volumes(spec: Json, container: Json, place: Place) -> tuple[dict[str, str], list[str]]:
    there = {it["name"]: it for it in spec.get("volumes", ())}
    found, data = {}, []
    for mount in container.get("volumeMounts", ()):
        match there[mount["name"]]:
            case {"emptyDir": _}:
                data.append(mount["mountPath"])
            case {"secret": _} | {"configMap": _} | {"projected": _}:
                # Credentials of GM's stream, which tests/integration/gm plays.
                continue
            case {"hostPath": {"path": path}}:
                folder = place.root / path.lstrip("/")
                folder.mkdir(parents=True, exist_ok=True)
                found[str(folder)] = mount["mountPath"]
            case other:
                raise LookupError(other)
    return found, data


def _component(image: str) -> str:
    wanted = image.rpartition("/")[2].partition(":")[0]
    (found,) = [name for name, it in COMPONENTS.items() if it.image == wanted]
    return found


def _user(number: int) -> str:
    """The node's root is whoever runs the tests: these make the node's files, and remove them."""
    return f"{number}:{number}" if number else f"{os.getuid()}:{os.getgid()}"
