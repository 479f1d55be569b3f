"""What an administrator's hand does to the table and to the Leases of members.

Each is a merge patch of exactly the version that was read, else nothing is done (NotApplicable).
"""

import json
from collections.abc import Callable
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.pods.observers.history import ANNOTATION
from tools.nemesis.elector.faults import Draw, NotApplicable
from tools.nemesis.elector.testbed import BOGUS
from tools.nemesis.shards.testbed import ShardTestbed

TABLE = "edge-sidecars.io/shards"
MEMBER = "edge-sidecars.io/member"
LABEL = "edge-sidecars.io/election"

Json = dict[str, Any]
# An edit gets the Lease and older copies of it, and returns the patch; None deletes it.
Edit = Callable[[Draw, Json, list[Json]], Json | None]


class Administrator:
    """Keeps copies of all Leases, of which some are put back later."""

    def __init__(self, testbed: ShardTestbed) -> None:
        self._testbed = testbed
        self._copies: dict[str, list[Json]] = {}

    def take_copies(self) -> None:
        for lease in self._testbed.leases():
            self._copies.setdefault(lease["metadata"]["name"], []).append(lease)

    def edit(self, draw: Draw) -> None:
        what, _, how = draw.kind.partition(" ")
        name = self._testbed.fleet.lease if what == "table" else draw.target
        found = [it for it in self._testbed.leases() if it["metadata"]["name"] == name]
        if not found:
            raise NotApplicable
        patch = EDITS[how](draw, found[0], self._copies.get(name, []))
        path = f"{self._testbed.collection}/{name}"
        admin = self._testbed.plane.admin
        if patch is None:
            status, answer = admin.delete(path)
        else:
            version = found[0]["metadata"]["resourceVersion"]
            metadata = {**patch.pop("metadata", {}), "resourceVersion": version}
            status, answer = admin.patch(path, {**patch, "metadata": metadata})
        if status in (404, 409):
            raise NotApplicable
        assert status == 200, answer


def _annotated(**annotations: object) -> Json:
    return {"metadata": {"annotations": annotations}}


def _nonsense(draw: Draw, lease: Json, copies: list[Json]) -> Json:
    """Of the table a text that is none, or a wrong digest; of a member another term."""
    annotations = lease["metadata"].get("annotations") or {}
    key = MEMBER if MEMBER in annotations else TABLE
    if draw.luck < 0.5 or key not in annotations:
        return _annotated(**{key: ("", "{}", "[1]", "null")[int(draw.luck * 8) % 4]})
    content = json.loads(annotations[key] or "{}")
    content["sequence" if key == TABLE else "term"] = 10**6
    return _annotated(**{key: json.dumps(content)})


def _restored(draw: Draw, lease: Json, copies: list[Json]) -> Json:
    """As it was once: annotations, holder, times."""
    held = [it for it in copies if it["spec"].get("holderIdentity")]
    if not held:
        raise NotApplicable
    old = held[int(draw.luck * len(held))]
    now = lease["metadata"].get("annotations") or {}
    annotations = dict.fromkeys(now) | (old["metadata"].get("annotations") or {})
    spec = dict.fromkeys(lease["spec"]) | old["spec"]
    return {"metadata": {"annotations": annotations}, "spec": spec}


def _blanked(draw: Draw, lease: Json, copies: list[Json]) -> Json:
    return {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}


def _stolen(draw: Draw, lease: Json, copies: list[Json]) -> Json:
    """By one that seems to be ours, or by a stranger; it never comes back."""
    stamp = rfc3339.stamp_now("microseconds")
    thief = f"{BOGUS}-{draw.luck:.6f}"
    spec = {
        "holderIdentity": thief,
        "leaseDurationSeconds": 1 + round(draw.luck),
        "acquireTime": stamp,
        "renewTime": stamp,
    }
    marked = _annotated(**{ANNOTATION: thief}) if draw.luck < 0.5 else {}
    return {"spec": spec, **marked}


EDITS: dict[str, Edit] = {
    "nonsense": _nonsense,
    "restored": _restored,
    "blanked": _blanked,
    "stolen": _stolen,
    "unlabelled": lambda draw, lease, copies: {"metadata": {"labels": {LABEL: None}}},
    "deleted": lambda draw, lease, copies: None,
}
