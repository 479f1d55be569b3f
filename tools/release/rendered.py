"""Every folder of manifests/ that is applied by itself, rendered by kustomize into one file each.

Guarantees: a file is what `kubectl kustomize` prints, with nothing changed but the registry of our
own images; files of an earlier run are replaced whole.
"""

import re
from collections.abc import Iterator
from pathlib import Path

# Applied once for a cluster, beside the overlays.
CLUSTER_WIDE = ("election-policy", "flow-control", "injection", "monitoring")
# What stands before the name of each of our images in manifests/.
OWN_IMAGES = "edge-sidecars"
_OWN_IMAGE = re.compile(rf"(?<=[\s\"']){OWN_IMAGES}/(?=[a-z-]+:[\w.-]+)")


def folders(manifests: Path) -> Iterator[tuple[str, Path]]:
    """Each with the name of its file, without suffix."""
    for folder in sorted((manifests / "overlays").iterdir()):
        if (folder / "kustomization.yaml").exists():
            yield folder.name, folder
    for name in CLUSTER_WIDE:
        yield name, manifests / name


def with_registry(text: str, registry: str) -> str:
    """`registry`: a host and a path, like registry.example.com/edge; our images are pulled from
    there."""
    return _OWN_IMAGE.sub(f"{registry.rstrip('/')}/", text)
