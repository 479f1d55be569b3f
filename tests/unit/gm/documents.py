"""Documents and manifests for tests of GM, as small as they can be."""

import json
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document

NAMESPACE = "shop"


def document(
    kind: str,
    name: str,
    *,
    version: int = 1,
    uid: str = "",
    namespace: str = NAMESPACE,
    generation: int = 1,
    **fields: Any,
) -> Document:
    """`fields` stand beside the metadata; `metadata` among them is merged into it."""
    metadata = {
        "name": name,
        "uid": uid or f"uid-{kind}-{name}",
        "resourceVersion": str(version),
        "generation": generation,
        **({"namespace": namespace} if namespace else {}),
        **fields.pop("metadata", {}),
    }
    return Document.parse(json.dumps({"metadata": metadata, **fields}).encode(), kind)
