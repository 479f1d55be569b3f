"""What is passed on is reduced to the shard: lists, Tables and watches."""

import json
from collections.abc import Callable, Iterable

import pytest

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from relay_sidecar.core.sharding import WatchInShard, list_in_shard, upstream_target
from relay_sidecar.streams.fanout import StreamView
from relay_sidecar.streams.list_encoder import ListBody
from tests.unit.relay.streams.samples import encoded, item, line, metadata, pod

TEXT = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
LOWER = ShardSelector.parse(TEXT)
OF_NAMESPACE = ShardSelector.parse(TEXT.replace("uid", "namespace"))
# By their hashes: 0x7aa5… and 0x7718… are in the lower half, 0xaf63… and 0x8594… are not.
MINE = ("347408aa-c195-4107-bf93-70c843861538", "ffffffff-ffff-ffff-ffff-ffffffffffff")
OTHERS = ("a", "foobar")
PODS = ListScope(ResourceName("", "v1", "pods"))
SIZES = [1, 7, 100, 10**6]


def pieces(whole: bytes, size: int) -> Iterable[bytes]:
    return (whole[at : at + size] for at in range(0, len(whole), size))


def test_a_list_keeps_the_bytes_of_its_own_and_says_whose_they_are() -> None:
    held = [pod(f"p{number}", 5, uid=uid) for number, uid in enumerate((*MINE, *OTHERS))]
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"x"'
    body = head + b',"remainingItemCount":3},"items":[%s]}\n' % b",".join(held)
    assert list_in_shard(body, LOWER) == (
        head
        + b',"remainingItemCount":3,"shardInfo":{"selector":"%s"}},"items":[%s]}\n'
        % (TEXT.encode(), b",".join(held[:2]))
    )


def test_what_upstream_reduced_is_told_once() -> None:
    body = b'{"kind":"L","apiVersion":"v1","metadata":{"shardInfo":{"selector":"x"}},"items":null}'
    reduced = json.loads(list_in_shard(body, LOWER))
    assert reduced["metadata"] == {"shardInfo": {"selector": TEXT}}
    assert reduced["items"] == []


def row(name: str, uid: str) -> dict[str, object]:
    return {"cells": [name], "object": {"metadata": metadata(name, 5, uid=uid)}}


@pytest.mark.parametrize("hides", [False, True])
def test_a_table_keeps_its_rows(hides: bool) -> None:
    rows = [row("p0", MINE[0]), row("p1", OTHERS[0])]
    body = encoded({"kind": "Table", "metadata": {"resourceVersion": "9"}, "rows": rows})
    reduced = json.loads(list_in_shard(body, LOWER, hides_objects=hides))
    assert reduced["rows"] == [{"cells": ["p0"], "object": None if hides else rows[0]["object"]}]
    assert reduced["metadata"]["shardInfo"] == {"selector": TEXT}


def test_what_is_no_list_is_left_alone() -> None:
    status = encoded({"kind": "Status", "metadata": {}})
    assert list_in_shard(status, LOWER) == status


@pytest.mark.parametrize("size", SIZES)
def test_a_watch_keeps_its_own_in_whichever_pieces_it_comes(size: int) -> None:
    mine = [line(kind, pod("p", 5, uid=MINE[0])) for kind in ("ADDED", "MODIFIED", "DELETED")]
    others = [line(kind, pod("q", 5, uid=OTHERS[0])) for kind in ("ADDED", "MODIFIED", "DELETED")]
    mark = line("BOOKMARK", pod("", 7, uid=OTHERS[0]))
    error = line("ERROR", encoded({"kind": "Status", "code": 410}))
    watch = WatchInShard(LOWER)
    whole = b"".join([*others, *mine, mark, *others, error])
    kept = b"".join(watch.more(piece) for piece in pieces(whole, size))
    assert kept == b"".join([*mine, mark, error])


@pytest.mark.parametrize("hides", [False, True])
def test_a_watch_of_a_table_tells_its_columns_with_the_first_event_that_is_kept(
    hides: bool,
) -> None:
    def told(uid: str, columns: object) -> bytes:
        table = {"kind": "Table", "metadata": {}, "columnDefinitions": columns}
        return line("ADDED", encoded({**table, "rows": [row("p", uid)]}))

    columns = [{"name": "Name"}]
    watch = WatchInShard(LOWER, hides_objects=hides)
    assert watch.more(told(OTHERS[0], columns) + told(OTHERS[1], None)) == b""
    tables = [json.loads(watch.more(told(uid, None)))["object"] for uid in MINE]
    assert [it["columnDefinitions"] for it in tables] == [columns, None]
    assert [it["rows"][0]["object"] is None for it in tables] == [hides, hides]


@pytest.mark.parametrize(
    ("reduce", "body"),
    [
        (list_in_shard, b"[1]"),
        (list_in_shard, b'{"metadata":{},"items":[{"kind":"Pod"}]}'),
        (list_in_shard, b'{"metadata":{},"rows":[{"object":null}]}'),
    ],
)
def test_what_cannot_be_read_is_not_handed_on(
    reduce: Callable[[bytes, ShardSelector], bytes], body: bytes
) -> None:
    with pytest.raises(Malformed):
        reduce(body, LOWER)
    watch = WatchInShard(LOWER)
    with pytest.raises(Malformed):
        watch.more(b'{"type":"ADDED","object":%s}\n' % (body))


def test_the_namespace_counts_where_it_is_the_key() -> None:
    # team-00 is in the lower half, default is not.
    held = [pod("p", 5, namespace=name, uid=MINE[0]) for name in ("team-00", "default")]
    body = b'{"kind":"PodList","metadata":{},"items":[%s]}' % b",".join(held)
    reduced = json.loads(list_in_shard(body, OF_NAMESPACE))
    assert [it["metadata"]["namespace"] for it in reduced["items"]] == ["team-00"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/api/v1/pods?shardSelector=a%27b", "/api/v1/pods"),
        ("/p?limit=5&shard%53elector=x&labelSelector=a%3Db", "/p?limit=5&labelSelector=a%3Db"),
        ("/p?shardSelector=x&watch", "/p?watch"),
        ("/p?includeObject=None&shardSelector=x", "/p?includeObject=Metadata"),
        ("/p?includeObject=Object", "/p?includeObject=Object"),
    ],
)
def test_upstream_is_asked_for_the_rest(target: str, expected: str) -> None:
    assert upstream_target(target) == expected


def test_what_is_cached_is_selected_by_shard_and_label() -> None:
    scope = ListScope(PODS.resource, labels=LabelSelector.parse("a=1"))
    view = StreamView(PODS.residual(scope, shards=LOWER))
    held = [
        item("p0", 1, labels={"a": "1"}, uid=MINE[0]),
        item("p1", 2, labels={"a": "2"}, uid=MINE[1]),
        item("p2", 3, labels={"a": "1"}, uid=OTHERS[0]),
    ]
    listed = ListBody(held, view, kind="PodList", api_version="v1", version=9)
    body = json.loads(b"".join(listed.parts()))
    assert [it["metadata"]["name"] for it in body["items"]] == ["p0"]
    assert body["metadata"] == {"resourceVersion": "9", "shardInfo": {"selector": TEXT}}
    assert len(b"".join(listed.parts())) == listed.length
    again = ListBody(held, view, kind="PodList", api_version="v1", version=9)
    assert b"".join(again.parts()) == b"".join(listed.parts()), "with the hashes that were kept"


def test_without_shards_all_is_seen_and_nothing_is_told() -> None:
    assert PODS.residual(PODS, shards=ShardSelector()) is None
    body = ListBody([], StreamView(), kind="PodList", api_version="v1", version=9)
    assert b"shardInfo" not in b"".join(body.parts())
