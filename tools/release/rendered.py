"""Every folder of manifests/ that is applied by itself, as one file of YAML each, and as charts.

Guarantees: a file is what `kubectl kustomize` prints, or the files of a folder without a
kustomization one after the other, with nothing changed but the registry of our own images.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.harness.controlplane.clients.kustomization import kustomize_text
from tools.images import OWN_IMAGES
from tools.release.chart import Json, Rights, Source, has_values

# Applied once for a cluster, or for a namespace, beside the overlays.
BESIDE = (
    "crds",
    "election-policy",
    "flow-control",
    "injection",
    "injection/v1beta1",
    "keep-while-cut-policy",
    "monitoring",
    "nodereport-policy",
    "rbac/gm-namespace",
)
_OWN_IMAGE = re.compile(rf"(?<=[\s\"']){re.escape(OWN_IMAGES)}/(?=[a-z-]+:[\w.-]+)")
# Where GM's namespaces are in the values of a chart that has GM.
_GM_NAMESPACES = ("gm", "gm", "env", "GM_NAMESPACE")
# Charts that cannot be installed into another namespace than the manifests'.
_FIXED = {"pool": "its policies name the service accounts there"}


def folders(manifests: Path) -> Iterator[tuple[str, Path]]:
    """Each with the name of its file, without suffix."""
    for folder in sorted((manifests / "overlays").iterdir()):
        if (folder / "kustomization.yaml").exists():
            yield folder.name, folder
    for path in BESIDE:
        yield path.removeprefix("rbac/").replace("/", "-"), manifests / path


def rendered(folder: Path, *, kubectl: str) -> str:
    """Its objects. Raises `NotBuilt`."""
    if (folder / "kustomization.yaml").exists():
        return kustomize_text(folder, kubectl=kubectl)
    return "---\n".join(it.read_text(encoding="utf-8") for it in sorted(folder.glob("*.yaml")))


def with_registry(text: str, registry: str) -> str:
    """`registry`: a host and a path, like registry.example.com/edge; our images are pulled from
    there."""
    return _OWN_IMAGE.sub(f"{registry.rstrip('/')}/", text)


def chart_source(
    name: str, folder: Path, text: str, *, registry: str, kubectl: str
) -> Source | None:
    """What the chart of a folder is made of, `text` being what it renders to; None where a chart
    would have no values. Raises `NotBuilt`."""
    objects = _objects(text)
    if not has_values(objects):
        return None
    namespaces = [it["metadata"]["name"] for it in objects if it["kind"] == "Namespace"]
    has_gm = any(_name(it) == ("Deployment", "gm") for it in objects)
    return Source(
        name,
        description(folder),
        objects,
        registry=registry,
        namespace=namespaces[0] if namespaces else "",
        fixed_because=_FIXED.get(name, ""),
        rights=_gm_rights(folder.parents[1], kubectl=kubectl) if has_gm else None,
    )


def description(folder: Path) -> str:
    """The first sentence of the comment above a kustomization."""
    lines = (folder / "kustomization.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    return re.split(r"(?<=\.)\s", comment)[0]


def _gm_rights(manifests: Path, *, kubectl: str) -> Rights:
    one, every = (
        _objects(kustomize_text(manifests / "rbac" / it, kubectl=kubectl))
        for it in ("gm-namespace", "gm-all-namespaces")
    )
    return Rights(_GM_NAMESPACES, one, every)


def _objects(text: str) -> list[Json]:
    # libyaml's parser: CRDs are long.
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def _name(it: Json) -> tuple[str, str]:
    return it["kind"], it["metadata"]["name"]
