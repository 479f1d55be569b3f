"""Leases for tests, as the API server would send them."""

from typing import Any

from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, micro_time, parse_lease

WALL = 1_700_000_000.0


def record(
    version: int,
    holder: str = "",
    *,
    marked: str | None = None,
    duration: float | None = 15,
    renewed: float = 0.0,
    transitions: int = 0,
    uid: str = "uid-1",
    **spec: Any,
) -> Lease:
    """`marked`: the annotation; `renewed`: seconds after `WALL` at which renewTime stands."""
    annotations = {} if marked is None else {HOLDER_ANNOTATION: marked}
    return parse_lease(
        {
            "metadata": {
                "name": "controller",
                "namespace": "default",
                "uid": uid,
                "resourceVersion": str(version),
                "annotations": annotations,
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration,
                "acquireTime": micro_time(WALL),
                "renewTime": micro_time(WALL + renewed),
                "leaseTransitions": transitions,
                **spec,
            },
        }
    )


def ours(version: int, holder: str, **fields: Any) -> Lease:
    """Held by one of ours, which marks what it writes."""
    return record(version, holder, marked=holder, **fields)
