"""What is in manifests/ and what kustomize makes of it.

Owns where overlays and components lie, and how a test's own kustomization refers to them.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.clients.kustomize import kustomize

Json = dict[str, Any]

MANIFESTS = ROOT / "manifests"
# Of GM and LC: those with a mode.
OVERLAYS = tuple(sorted(it.parent.name for it in (MANIFESTS / "overlays").glob("*/ha-mode.yaml")))
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")


@functools.cache
def overlay(name: str) -> tuple[Json, ...]:
    return tuple(kustomize(MANIFESTS / "overlays" / name))


@functools.cache
def gm_rules() -> tuple[Json, ...]:
    """GM's in one namespace whose jobs it looks after."""
    return tuple(named(kustomize(MANIFESTS / "rbac/gm-namespace"), "Role", "sedna-gm")["rules"])


def of_kind(objects: Sequence[Json], *kinds: str) -> list[Json]:
    return [it for it in objects if it["kind"] in kinds]


def named(objects: Sequence[Json], kind: str, name: str) -> Json:
    (found,) = [it for it in of_kind(objects, kind) if it["metadata"]["name"] == name]
    return found


def containers(workload: Json) -> Iterator[Json]:
    """Sidecars first, as in the manifest."""
    spec = workload["spec"]["template"]["spec"]
    yield from spec.get("initContainers", ())
    yield from spec["containers"]


def workload(kind: str = "Deployment", **pod: object) -> Json:
    """One that knows nothing of sidecars, as users have it."""
    labels = {"app": "shop"}
    spec: Json = {"containers": [{"name": "main", "image": "example.com/shop:1"}], **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "shop"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **({"serviceName": "shop"} if kind == "StatefulSet" else {}),
        },
    }


def write_kustomization(
    folder: Path, objects: Sequence[Json], *, components: Sequence[str] = (), **more: object
) -> Path:
    """A folder as a user would have it beside manifests/."""
    folder.mkdir(exist_ok=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    # kustomize takes no absolute paths.
    base = os.path.relpath(MANIFESTS / "components", folder.resolve())
    body = {
        "resources": ["objects.yaml"],
        "components": [f"{base}/{name}" for name in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return folder
