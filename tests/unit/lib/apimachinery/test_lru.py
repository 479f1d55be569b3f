"""What is remembered of questions stays small, however long they are."""

import tracemalloc

import pytest

from edge_sidecars.apimachinery.lru import LONGEST, lru
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from relay_sidecar.web.reads.selection import by_name


def test_what_is_asked_again_is_worked_out_once_unless_it_is_long() -> None:
    asked = []

    @lru(2)
    def answer(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "x" * LONGEST, "x" * (LONGEST + 1)
    assert [answer(text) for text in (short, short, long, long)] == [
        LONGEST,
        LONGEST,
        LONGEST + 1,
        LONGEST + 1,
    ]
    assert asked == [short, long, long]


LONG = "x" * 7_000


@pytest.mark.parametrize(
    "target",
    [
        f"/api/v1/pods?labelSelector=a%3D{LONG}",
        f"/apis/{LONG}/v1/things/one",
        f"/api/v1/{LONG}/one",
        f"/api/v1/pods/{LONG}",
    ],
    ids=["selector", "group", "plural", "name"],
)
def test_two_hundred_long_targets_leave_nothing_behind(target: str) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(200):
            info = RequestInfo.parse("GET", target.replace("x", f"x{number}", 1))
            assert info.is_resource
            by_name(info)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000
