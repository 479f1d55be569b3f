"""What of an earlier run's journal comes back, and what leaves the disk."""

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.records import (
    ObjectEvicted,
    ObjectSeen,
    Saved,
    SavedStream,
    StreamDeleted,
)
from relay_sidecar.streams.scope_journal import restore
from tests.unit.relay.streams.test_limits import made

LEASES = ResourceName("coordination.k8s.io", "v1", "leases")
REQUESTS = ResourceName("certificates.k8s.io", "v1", "certificatesigningrequests")
BUNDLES = ResourceName("certificates.k8s.io", "v1beta1", "clustertrustbundles")
ITEM = Item(("n", "a"), 3, b'{"metadata":{"name":"a","namespace":"n"}}')


def test_r6_what_is_never_kept_comes_back_from_no_journal_and_leaves_it() -> None:
    """Of releases that kept it."""
    resources = (LEASES, REQUESTS, BUNDLES)
    saved = Saved(
        streams=[
            SavedStream(ListScope(it), "List", it.api_version, 3, [ITEM], 1.0, 1.0)
            for it in resources
        ],
        seen=[ObjectSeen(it, ITEM, 1.0, is_of_node) for it in resources for is_of_node in (True,)],
    )
    streams = made()
    gone = restore(streams, saved, now=0.0, wall=0.0)
    assert {stream.scope.resource for stream in streams} == {BUNDLES}
    assert {it.resource for it in streams.seen} == {BUNDLES}
    for resource in (LEASES, REQUESTS):
        assert streams.newest(resource, ITEM.key) is None
        assert [it.scope for it in gone if isinstance(it, StreamDeleted)].count(
            ListScope(resource)
        ) == 1
        assert [it for it in gone if isinstance(it, ObjectEvicted) and it.resource == resource]
