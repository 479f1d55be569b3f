"""The fields by which built-in resources can be selected are those of the API server, of each
resource that it serves: one that the relay does not know would be refused while cut.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from edge_sidecars.apimachinery.resources import ResourceName, known_fields
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]

UNKNOWN = "not a known field selector"

# Beside those that the relay knows: what kubelet asks by, what no resource has.
MORE = frozenset({"spec.signerName", "spec.podName", "spec.pool.name", "status.hostIP", "foo"})


def served(plane: ControlPlane) -> Iterator[tuple[ResourceName, str]]:
    """Each resource that can be listed, in each version, with its path."""
    groups = expect(plane.admin.get("/apis"))["groups"]
    places = [("", "v1", "/api/v1")]
    places += [
        (group["name"], it["version"], f"/apis/{it['groupVersion']}")
        for group in groups
        for it in group["versions"]
    ]
    for group, version, path in places:
        for it in expect(plane.admin.get(path))["resources"]:
            if "list" in it["verbs"] and "/" not in it["name"]:
                yield ResourceName(group, version, it["name"]), f"{path}/{it['name']}"


@pytest.mark.long
@pytest.mark.slow
def test_r1_fields_of_built_in_resources_are_those_of_the_api_server(
    control_plane: ControlPlane,
) -> None:
    resources = [it for it in served(control_plane) if known_fields(it[0]) is not None]
    names = {name for resource, _ in resources for name in known_fields(resource) or ()}
    names |= MORE
    wrong = []
    for resource, path in resources:
        for name in sorted(names - {"metadata.namespace"}):
            status, answer = control_plane.admin.get(f"{path}?limit=1&fieldSelector={name}%3Dx")
            # One that is known may still have no such value.
            message = answer.get("message") or ""
            is_known = status == 200 or ("field label" not in message and UNKNOWN not in message)
            if is_known is not (name in (known_fields(resource) or ())):
                wrong.append((str(resource), name, status, message))
    assert wrong == []
