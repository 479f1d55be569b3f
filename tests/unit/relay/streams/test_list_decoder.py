"""A list that is read while it arrives is the list that is read when it is there."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item, Malformed, Page, read_page
from relay_sidecar.core.stream.lists import ArrivingList

HEAD = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"77"},"items":['
TRICKY = st.sampled_from(
    ['},{"metadata":', '"items":[{', "]}", '\\"},{"metadata":{"name":"x', "ä\n"]
)
TEXTS = st.one_of(st.text(max_size=8), TRICKY)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(TEXTS, st.just("metadata"), st.just("items")), inner, max_size=3),
        st.lists(st.fixed_dictionaries({"metadata": inner}), max_size=4),
    ),
    max_leaves=12,
)


def contents(page: Page) -> tuple[object, ...]:
    items = [(item.key, item.version, item.raw) for item in page.items]
    return page.kind, page.api_version, page.version, page.continue_token, page.remaining, items


def arrive(body: bytes, cuts: Iterable[int]) -> tuple[Page, list[Item]]:
    """The list, and what of it was told before its end."""
    arriving, come, told = ArrivingList(), bytearray(), list[Item]()
    for cut in sorted({*cuts, len(body)}):
        come += body[len(come) : cut]
        told += arriving.more(come)
    return arriving.whole(come), told


@given(
    values=st.lists(VALUES, max_size=6),
    named=st.booleans(),
    is_custom=st.booleans(),
    tail=st.sampled_from([b"", b"\n"]),
    data=st.data(),
)
def test_wherever_it_is_cut_it_is_the_list_that_is_read_whole(
    values: list[object], named: bool, is_custom: bool, tail: bytes, data: st.DataObject
) -> None:
    names = {"kind": "Pod", "apiVersion": "v1"} if named else {}
    items = [
        {**names, "metadata": {"name": f"n{at}", "resourceVersion": str(at + 1)}, "spec": value}
        for at, value in enumerate(values)
    ]
    fields = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "77"}}
    whole = {**fields, "items": items}
    ordered = dict(sorted(whole.items())) if is_custom else whole
    body = json.dumps(ordered, separators=(",", ":")).encode() + tail
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=8))
    page, told = arrive(body, cuts)

    assert contents(page) == contents(read_page(body))
    assert [item.raw for item in told] == [item.raw for item in page.items[: len(told)]]


def test_items_are_told_before_the_last_byte_is_there() -> None:
    items = [
        b'{"metadata":{"name":"n%d","resourceVersion":"%d"}}' % (at, at + 1) for at in range(9)
    ]
    body = HEAD + b",".join(items) + b"]}\n"
    _, told = arrive(body, range(0, len(body), 50))
    assert [item.key for item in told] == [("", f"n{at}") for at in range(8)]


@pytest.mark.parametrize(
    "body",
    [
        HEAD + b'{"metadata":{"name":"a","resourceVersion":"1"}},{"metadata":{"name":"b"',
        HEAD + b'{"metadata":{"name":"a","resourceVersion":"1"}}],"items":7}',
        b"",
    ],
)
def test_what_is_no_whole_list_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        arrive(body, range(0, len(body), 7))


@pytest.mark.parametrize("at", range(4))
def test_an_item_that_cannot_be_read_is_counted(at: int) -> None:
    items = [b'{"metadata":{"name":"a%d","resourceVersion":"1"}}' % number for number in range(3)]
    items.insert(at, b'{"metadata":{"name":"b"}}')
    body = HEAD + b",".join(items) + b"]}"
    page, _ = arrive(body, range(0, len(body), 7))
    assert [item.key[1] for item in page.items] == ["a0", "a1", "a2"]
    assert page.unreadable == 1


def test_of_items_told_twice_the_last_count() -> None:
    first = b'{"metadata":{"name":"a","resourceVersion":"1"}}'
    body = HEAD + first + b"," + first + b'],"items":[]}'
    page, told = arrive(body, range(0, len(body), 7))
    assert page.items == []
    assert len(told) == 1


def test_an_object_full_of_what_looks_like_items_is_read_at_its_end() -> None:
    templates = b",".join([b'{"metadata":{}}'] * 1000)
    item = b'{"metadata":{"name":"a","resourceVersion":"1"},"spec":[' + templates + b"]}"
    body = HEAD + item + b"]}"
    assert contents(arrive(body, range(0, len(body), 100))[0]) == contents(read_page(body))
