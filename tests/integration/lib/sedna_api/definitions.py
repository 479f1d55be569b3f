"""Our CRDs and samples as they lie in manifests/.

Guarantees: a manifest is sent as strictly as `kubectl apply --validate=strict` would.
"""

from pathlib import Path
from typing import Any

from edge_sidecars.sedna_api.core.kinds import ResourceKind, kind_named
from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.clients.admin import AdminClient, Told
from tools.harness.controlplane.schemas.sedna_kinds import read

Json = dict[str, Any]

MANIFESTS = ROOT / "manifests"


def manifests(path: Path) -> list[Json]:
    """All documents of a file, or of all files of a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    found = [it for file in files for it in read(file)]
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


def create(admin: AdminClient, namespace: str, manifest: Json) -> Told:
    path = kind_of(manifest).collection(namespace)
    return admin.post(f"{path}?fieldValidation=Strict", manifest)
