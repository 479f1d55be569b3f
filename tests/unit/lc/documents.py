"""Objects as the API has them, for tests of LC."""

import json
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document


def document(
    kind: str,
    name: str,
    *,
    uid: str = "",
    version: int = 1,
    namespace: str = "shop",
    spec: dict[str, Any] | None = None,
) -> Document:
    """Of a kind, singular; its uid is made of its name where none is said."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
    }
    return Document.parse(json.dumps({"metadata": metadata, "spec": spec or {}}).encode(), kind)


def dataset(name: str, url: str = "/srv/d.txt", *, form: str = "txt", **told: Any) -> Document:
    return document("dataset", name, spec={"url": url, "format": form}, **told)
