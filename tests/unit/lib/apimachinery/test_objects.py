"""Objects, events and pages: what is read out of their bytes, and that the bytes stay."""

import gc
import json
import tracemalloc

import pytest

from edge_sidecars.apimachinery.objects import (
    Malformed,
    read_event,
    read_item,
    read_page,
    read_table_versions,
    read_version,
)
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from tests.unit.relay.streams.samples import NESTED, encoded, line, metadata, pod

# ── items ──


def test_an_item_has_the_key_and_version_of_its_own_metadata_not_of_what_it_contains() -> None:
    item = read_item(NESTED)

    assert item.key == ("default", "outer")
    assert item.version == 42
    assert item.raw == NESTED


def test_a_cluster_scoped_object_has_the_namespace_of_nothing() -> None:
    assert read_item(pod("node-1", 7, namespace="")).key == ("", "node-1")


def test_keys_and_versions_may_be_spelled_with_escapes() -> None:
    raw = (
        rb'{"kind":"Pod","apiVersion":"v1","meta\u0064ata":'
        rb'{"name":"\u0061\u00e4","resource\u0056ersion":"\u0031\u0032"}}'
    )
    item = read_item(raw)

    assert (item.key, item.version, item.raw) == (("", "aä"), 12, raw)


def test_of_duplicate_keys_the_last_one_counts() -> None:
    raw = (
        b'{"kind":"Old","kind":"Pod","apiVersion":"v1",'
        b'"metadata":{"name":"a","resourceVersion":"1"},'
        b'"metadata":{"name":"b","resourceVersion":"2","resourceVersion":"3"}}'
    )
    item = read_item(raw)

    assert (item.key, item.version, item.raw) == (("", "b"), 3, raw)


def test_a_pretty_printed_object_fits_into_a_line_of_a_watch() -> None:
    value = json.loads(NESTED)
    pretty = json.dumps(value, indent=2).replace("\n", "\r\n").encode()
    item = read_item(pretty)

    assert b"\n" not in item.raw
    assert b"\r" not in item.raw
    assert json.loads(item.raw) == value


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b"\x1f\x8b\x08\x00",
        b"k8s\x00\x0a\x0c",
        b"<html>502 Bad Gateway</html>",
        b'{"kind":"Pod","apiVersion":"v1","metadata":null}',
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}',
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"}}',
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":1}}',
        b'{"apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"}}',
        b'{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1"}}',
        b'{"kind":"Pod","apiVersion":null,"metadata":{"name":"a","resourceVersion":"1"}}',
        b'{"kind":"","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"}}',
        pod("a", 1) + b"{}",
        pod("a", 1)[:-1] + b',"x":"\xff"}',
        pod("a", 1)[:-1] + b',"x":"a\nb"}',
        pod("a", 1)[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        pod("a", 1)[:-1] + b',"x":' + b'{"metadata":' * 100_000 + b"1" + b"}" * 100_001,
    ],
)
def test_what_no_api_server_sends_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_item(raw)


@pytest.mark.parametrize("text", ["0", "1", "10", "9223372036854775807"])
def test_a_version_is_an_integer(text: str) -> None:
    assert read_version(text) == int(text)


@pytest.mark.parametrize(
    "text",
    [
        # The last two: beyond etcd's int64, and beyond the digits that Python reads.
        *("", "-1", "+1", "01", "00", " 1", "1 ", "1_0", "1.0", "1e3", "0x1", "abc", "٣", "²"),
        *("9223372036854775808", "9" * 10_000),
    ],
)
def test_a_version_that_cannot_be_compared_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        read_version(text)


# ── events ──


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_carries_the_bytes_of_its_object(kind: str) -> None:
    event = read_event(line(kind, NESTED).rstrip())

    assert event.type is EventType(kind)
    assert event.version == 42
    assert event.item is not None
    assert event.item.raw == NESTED
    assert event.status is None


def test_the_object_of_an_event_may_come_before_its_type_and_with_spaces() -> None:
    raw = pod("a", 3)
    event = read_event(b' { "object" :  %s , "type": "ADDED" } \r\n' % raw)

    assert event.item is not None
    assert event.item.raw == raw


def test_of_members_behind_the_object_of_an_event_the_last_one_counts() -> None:
    first, last = pod("first", 3), pod("last", 4)

    event = read_event(
        b'{"type":"ADDED","object":%s,"type":"MODIFIED","object":%s}' % (first, last)
    )

    assert event.type is EventType.MODIFIED
    assert event.item is not None
    assert event.item.raw == last


def test_an_event_may_have_members_that_nobody_knows() -> None:
    event = read_event(b'{"type":"ADDED","object":%s,"more":{}}' % NESTED)

    assert event.item is not None
    assert event.item.raw == NESTED


@pytest.mark.parametrize("beyond", [b"}", b"{}", b",{}", b',"a":{}}', b"]"])
def test_an_event_with_something_behind_its_object_that_is_no_member_is_malformed(
    beyond: bytes,
) -> None:
    with pytest.raises(Malformed):
        read_event(b'{"type":"MODIFIED","object":%s%s}' % (NESTED, beyond))


def test_a_bookmark_has_a_version_and_no_object() -> None:
    event = read_event(
        line("BOOKMARK", b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"99"}}')
    )
    assert (event.type, event.version, event.item) == (EventType.BOOKMARK, 99, None)
    assert not event.is_initial_end


@pytest.mark.parametrize(("text", "is_end"), [("true", True), ("false", False), ("", False)])
def test_a_bookmark_may_end_the_initial_events(text: str, is_end: bool) -> None:
    meta = {"resourceVersion": "99", "annotations": {"k8s.io/initial-events-end": text}}
    event = read_event(line("BOOKMARK", encoded({"kind": "Pod", "metadata": meta})))

    assert event.is_initial_end is is_end


def test_an_error_carries_its_status() -> None:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (5)",
        "reason": "Expired",
        "code": 410,
    }
    event = read_event(line("ERROR", encoded(status)))

    assert event.type is EventType.ERROR
    assert event.item is None
    assert event.status == Failure(410, "Expired", "too old resource version: 1 (5)")


@pytest.mark.parametrize("kind", ["ADDED", "BOOKMARK", "ERROR"])
def test_a_line_that_is_cut_off_anywhere_is_malformed(kind: str) -> None:
    whole = line(kind, NESTED).rstrip()
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            read_event(whole[:length])


def test_an_event_of_unknown_type_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_event(line("RENAMED", pod("a", 1)))


# ── pages ──


def page(items: bytes, *, kind: str = "PodList", meta: bytes = b'"resourceVersion":"77"') -> bytes:
    return b'{"kind":"%s","apiVersion":"v1","metadata":{%s},"items":%s}' % (
        kind.encode(),
        meta,
        items,
    )


def test_a_page_tells_version_kind_and_how_to_go_on() -> None:
    read = read_page(page(b"[]", meta=b'"resourceVersion":"77","continue":"next"'))

    assert (read.kind, read.api_version, read.version) == ("PodList", "v1", 77)
    assert (read.continue_token, read.items) == ("next", [])


def test_list_items_get_the_kind_that_the_list_left_out_and_keep_every_other_byte() -> None:
    bare = b'{ "metadata" : {"name":"a","resourceVersion":"5"},"x":[1, 2.50,"\\u00e4"]}'
    [item] = read_page(page(b"[%s]" % bare)).items

    assert item.raw == b'{"kind":"Pod","apiVersion":"v1",' + bare[1:]
    assert (item.key, item.version) == (("", "a"), 5)


def test_list_items_that_have_a_kind_keep_it() -> None:
    own = b'{"apiVersion":"a/v2","kind":"Own","metadata":{"name":"a","resourceVersion":"5"}}'
    [item] = read_page(page(b"[%s]" % own)).items

    assert item.raw == own


def test_a_list_item_gets_only_what_it_lacks() -> None:
    meta = b'"metadata":{"name":"a","resourceVersion":"5"}}'
    body = page(b'[{"kind":"Own",%s,{"apiVersion":"a/v2",%s]' % (meta, meta))
    first, second = read_page(body).items

    assert first.raw == b'{"apiVersion":"v1","kind":"Own",' + meta
    assert second.raw == b'{"kind":"Pod","apiVersion":"a/v2",' + meta


def test_an_empty_list_may_be_null() -> None:
    assert read_page(page(b"null")).items == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}',
        b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}',
        page(b"[]", meta=b'"resourceVersion":""'),
        page(b"[]", meta=b'"resourceVersion":"abc"'),
        page(b'[{"metadata":{"name":"a","resourceVersion":"1"}}')[:-1],
    ],
)
def test_what_is_no_list_with_a_version_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_page(body)


def test_a_list_of_anything_is_read_where_its_items_say_what_they_are() -> None:
    [item] = read_page(page(b"[%s]" % pod("a", 5), kind="List")).items

    assert item.raw == pod("a", 5)


def test_an_item_does_not_keep_the_page_alive_that_brought_it() -> None:
    bare = [encoded({"metadata": metadata(f"pod-{n}", n), "pad": "x" * 3000}) for n in range(500)]
    body = page(b"[%s]" % b",".join(bare))
    gc.collect()
    tracemalloc.start()
    try:
        kept = read_page(bytes(bytearray(body))).items[250]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept.key == ("default", "pod-250")
    assert held < len(body) / 20


def test_a_table_tells_which_objects_it_shows_at_which_versions() -> None:
    rows = [
        {
            "cells": ["a", 1],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata("a", 5),
            },
        }
    ]
    table = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9", "continue": "next"},
        "columnDefinitions": [],
        "rows": rows,
    }
    read = read_table_versions(encoded(table))

    assert (read.version, read.continue_token) == (9, "next")
    assert [(i.key, i.version, i.raw) for i in read.items] == [(("default", "a"), 5, b"")]


def test_rows_without_objects_are_counted() -> None:
    read = read_table_versions(
        b'{"kind":"Table","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"9"},"rows":[{"cells":["a"],"object":null}]}'
    )
    assert (read.version, read.items, read.unreadable) == (9, [], 1)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (b'{"metadata":{"name":"a"}}', "PodList"),
        (b'{"metadata":{"name":"a","resourceVersion":"1"}}', "List"),
        (b"5", "PodList"),
        (b"null", "PodList"),
        (b'{"kind":"","metadata":{"name":"a","resourceVersion":"1"}}', "PodList"),
        (b'{"apiVersion":null,"metadata":{"name":"a","resourceVersion":"1"}}', "PodList"),
    ],
)
def test_an_item_that_cannot_be_read_is_counted_and_those_beside_it_are_read(
    item: bytes, kind: str
) -> None:
    good = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","resourceVersion":"2"}}'
    read = read_page(page(b"[%s,%s]" % (item, good), kind=kind))
    assert ([one.key for one in read.items], read.unreadable) == ([("", "b")], 1)
