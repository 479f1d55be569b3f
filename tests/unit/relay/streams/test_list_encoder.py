"""What passes by is compared with what is held, however it comes in pieces."""

import pytest

from edge_sidecars.apimachinery.objects import Item
from relay_sidecar.streams.fanout import StreamView
from relay_sidecar.streams.list_encoder import PART, Comparison, ListBody
from tests.unit.relay.streams.samples import item


def listed(*items: Item, version: int = 10) -> ListBody:
    return ListBody(items, StreamView(), kind="PodList", api_version="v1", version=version)


def bytes_of(body: ListBody) -> bytes:
    return b"".join(body.parts())


def is_equal(passed: bytes, held: ListBody, *, head: int = 200, size: int) -> bool:
    comparison = Comparison(held)
    comparison.more(passed[:head])
    for start in range(head, len(passed), size):
        comparison.more(passed[start : start + size])
    return comparison.is_equal


MANY = tuple(item(f"pod-{number:05}", number + 1) for number in range(PART // 60))


@pytest.mark.parametrize("items", [(), MANY[:1], MANY], ids=["none", "one", "many"])
@pytest.mark.parametrize("size", [7, 1000, PART])
def test_the_same_objects_are_equal_at_another_version(items: tuple[Item, ...], size: int) -> None:
    passed = bytes_of(listed(*items, version=99))
    assert is_equal(passed, listed(*items), size=size)


def test_other_objects_are_not() -> None:
    passed = bytes_of(listed(*MANY))
    changed = item(MANY[-1].key[1], 10**6)
    for held in (MANY[:-1], MANY[1:], (*MANY[:-1], changed), (*MANY, item("x", 1))):
        assert not is_equal(passed, listed(*held), size=1000)
    assert not is_equal(passed[:-2], listed(*MANY), size=1000), "not all of it"
    assert not is_equal(b'{"kind":"PodList"', listed(), size=1000)
