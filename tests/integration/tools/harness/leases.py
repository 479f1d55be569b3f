"""A Lease as the tests of the control plane write it, and the rule that allows it."""

from __future__ import annotations

from typing import Any


def leases_path(namespace: str) -> str:
    """The collection."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(
    name: str, *, holder_identity: str, resource_version: str | None = None
) -> dict[str, Any]:
    """A Lease; with the resource version that the API server demands for an update."""
    metadata = {"name": name}
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"holderIdentity": holder_identity, "leaseDurationSeconds": 15},
    }
