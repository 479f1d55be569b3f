"""What is remembered of questions stays small, however long they are."""

import tracemalloc

from relay_sidecar.core.memo import LONGEST, memo
from relay_sidecar.core.request import RequestInfo


def test_what_is_asked_again_is_worked_out_once_unless_it_is_long() -> None:
    asked = []

    @memo(2)
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


def test_a_thousand_long_targets_leave_nothing_behind() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1000):
            target = f"/api/v1/pods?labelSelector=a%3D{number}{'x' * 20_000}"
            assert RequestInfo.parse("GET", target).verb == "list"
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000
