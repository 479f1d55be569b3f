"""Our CRDs and samples as they lie in manifests/, and an API server that has them.

Guarantees: `install` may be called again, by anybody, on one server; it returns when every kind is
served. A manifest is sent as strictly as `kubectl apply --validate=strict` would.
"""

import time
from pathlib import Path
from typing import Any

import yaml

from sedna_api.core.kinds import KINDS, NODE_REPORT, ResourceKind, kind_named
from tests.controlplane.accounts import expect
from tests.controlplane.admin import AdminClient, Answer
from tests.unit.repository.checkout import ROOT

Json = dict[str, Any]

MANIFESTS = ROOT / "manifests"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Seconds until new CRDs are served.
ESTABLISHED_TIMEOUT = 30.0
POLL_INTERVAL = 0.05


def manifests(path: Path) -> list[Json]:
    """All documents of a file, or of all files of a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    found = [it for file in files for it in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    assert found, path
    return found


def definitions() -> list[Json]:
    return manifests(MANIFESTS / "crds")


def sample(kind: ResourceKind) -> Json:
    (found,) = manifests(MANIFESTS / "samples" / f"{kind.singular}.yaml")
    return found


def kind_of(manifest: Json) -> ResourceKind:
    kind = kind_named(manifest["kind"])
    assert kind is not None, manifest["kind"]
    return kind


def install(admin: AdminClient) -> None:
    """All CRDs, where they are not there yet."""
    for definition in definitions():
        answer = admin.post(f"{CRDS}?fieldValidation=Strict", definition)
        if answer[0] != 409:
            expect(answer)
    deadline = time.monotonic() + ESTABLISHED_TIMEOUT
    for kind in (*KINDS, NODE_REPORT):
        while admin.get(kind.collection())[0] != 200:
            assert time.monotonic() < deadline, kind
            time.sleep(POLL_INTERVAL)


def create(admin: AdminClient, namespace: str, manifest: Json) -> Answer:
    path = kind_of(manifest).collection(namespace)
    return admin.post(f"{path}?fieldValidation=Strict", manifest)
