"""3.9, L5: Leases, and what else is never kept, are passed on in each form and by each verb, leave
nothing in memory or on disk, and are 503 while the link is cut, also after a restart."""

import pytest

from tests.integration.relay.place import Kind, Place, played
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
LISTS: list[Parameters] = [
    {},
    {"resourceVersion": "0"},
    {"limit": 1},
    {"labelSelector": "x!=1"},
    {"fieldSelector": "metadata.name=marker"},
]
WATCHES: list[Parameters] = [
    {"resourceVersion": "0"},
    {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    },
]
ANY_VERSION: list[Parameters] = [{}, {"resourceVersion": "0"}]
JSON = "application/json"
META = "g=meta.k8s.io;v=v1,application/json"
FORMS = {
    "get": (JSON, f"{JSON};as=PartialObjectMetadata;{META}", f"{JSON};as=Table;{META}"),
    "list": (JSON, f"{JSON};as=PartialObjectMetadataList;{META}", f"{JSON};as=Table;{META}"),
}
BOTH = "application/vnd.kubernetes.protobuf,application/json"


@pytest.mark.parametrize("kind", played(Kind.RELAY, Kind.BEHIND_RELAY))
def test_r6_a_lease_is_never_kept_in_whichever_way_it_was_read_or_written(
    kind: Kind, control_plane: ControlPlane, contents: Contents
) -> None:
    holder = f"holder-of-{contents.namespace}"
    leases = LEASES.format(contents.namespace)
    one = f"{leases}/marker"
    with Place(kind, control_plane) as place:
        caller = place.caller()
        lease = {"metadata": {"name": "marker"}, "spec": {"holderIdentity": holder}}
        caller.post(leases, lease).expect(201)
        for accept in (*FORMS["get"], BOTH):
            for query in ANY_VERSION:
                assert caller.get(one, query, accept=accept).status == 200
        for accept in (*FORMS["list"], BOTH):
            for query in LISTS:
                assert caller.get(leases, query, accept=accept).status == 200
                assert caller.get(leases, query, accept=accept).status == 200
        for query in WATCHES:
            with caller.watch(leases, {**query, "timeoutSeconds": 60}) as watching:
                watching.wait_for(
                    lambda it: "marker" in {each.name for each in it.events()}, what="the Lease"
                )
        changed = caller.patch(one, {"spec": {"leaseDurationSeconds": 7}}).expect()
        caller.put(one, changed).expect()
        contents.configmap("kept")
        assert caller.get(contents.path("configmaps")).names == ["kept"]

        for _ in range(2):
            check(place, holder)
            place.cut()
            assert caller.get(contents.path("configmaps")).names == ["kept"]
            for path, accepts in ((one, FORMS["get"]), (leases, FORMS["list"])):
                for accept in accepts:
                    for query in ANY_VERSION:
                        answer = caller.get(path, query, accept=accept)
                        assert answer.status == 503, answer.body
                        assert holder not in answer.body.decode(errors="replace")
            assert caller.get(leases, {"watch": "true", "resourceVersion": "0"}).status == 503
            assert caller.put(one, changed).status == 503
            for relay in place.relays:
                relay.kill()
            for relay in place.relays:
                relay.start()


def check(place: Place, holder: str) -> None:
    """Nothing of it is in memory or on disk."""
    for relay in place.relays:
        assert "leases" not in str(relay.status()["streams"])
        for file in relay.data_dir.iterdir():
            assert holder.encode() not in file.read_bytes(), file
