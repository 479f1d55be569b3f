"""Long texts in a request's head are read in a time that grows with their length.

Callers write them, and who reads them has no time for others meanwhile. What took the square of the
length took from 20 s to minutes for these.
"""

import time
from collections.abc import Callable

import pytest

from edge_sidecars.apimachinery.go_format import MAX_PARAMETERS, parse_query, quote
from edge_sidecars.apimachinery.request.accept import (
    LONGEST_ACCEPT,
    OTHER,
    WHOLE,
    representation,
)
from edge_sidecars.apimachinery.request.list_options import LONGEST_SELECTORS
from edge_sidecars.apimachinery.request.request_info import LONGEST_PATH, RequestInfo
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector

# Bytes: a quarter of http.DefaultMaxHeaderBytes.
LONGEST = 256 * 1024
# Seconds of a processor; one that is not busy takes less than one.
ENOUGH = 8.0


def many(form: str, mark: str, size: int = LONGEST) -> str:
    """`form` of one number after the other."""
    return mark.join(form.format(it, it) for it in range(size // (len(form) + len(mark) + 4)))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_query, "a&" * (MAX_PARAMETERS - 1)),
        (parse_query, many("a{}={}", "&", 4 * MAX_PARAMETERS)),
        (lambda it: RequestInfo.parse("GET", f"/api/v1/pods?{it}"), "a=1&" * (MAX_PARAMETERS - 1)),
        (quote, "\0" * LONGEST),
        (representation, "application/json," + many("a{}/b;q=0.{}", ",", LONGEST_ACCEPT - 100)),
        (representation, "application/json," + "*/*;q=0.1," * (LONGEST_ACCEPT // 10 - 10)),
        (LabelSelector.parse, many("a!=b{}", ",")),
        (FieldSelector.parse, many("metadata.name!=b{}", ",")),
    ],
    ids=lambda it: it[:16] if isinstance(it, str) else "",
)
def test_a_long_text_is_read_in_time(read: Callable[[str], object], text: str) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < ENOUGH


def test_a_long_target_is_taken_apart_no_further_than_to_pass_it_on() -> None:
    """It is, before its sender is known: others would wait for a second meanwhile."""
    name = "fieldSelector=metadata.name%3Dx"
    assert RequestInfo.parse("GET", f"/api/v1/pods?{name}").name == "x"
    labels = "labelSelector=" + "a," * (LONGEST_SELECTORS // 2)
    assert RequestInfo.parse("GET", f"/api/v1/pods?{name}&{labels}").name == ""
    long = RequestInfo.parse("GET", "/api/v1/pods/" + "%41" * LONGEST_PATH)
    assert (long.is_resource, long.is_canonical) == (False, False)
    assert representation("application/json") == WHOLE
    assert representation("application/json," + "a/b," * LONGEST_ACCEPT) == OTHER


def test_many_values_are_looked_up_in_time() -> None:
    selector = LabelSelector.parse(f"a in ({many('b{}', ',')})")
    began = time.process_time()
    assert selector.covers(selector)
    assert sum(selector.matches({"a": f"b{it}"}) for it in range(10_000)) == 10_000
    assert not selector.matches({"a": "c"})
    assert not selector.matches({})
    assert time.process_time() - began < ENOUGH


def test_a_thousand_ranges_are_a_selector() -> None:
    """More than Python's stack has place for, and less than CEL takes."""
    step = 1 << 48
    text = " || ".join(
        f"shardRange(object.metadata.uid, '0x{it * step:016x}', '0x{(it + 1) * step:016x}')"
        for it in range(0, 2400, 2)
    )
    selector = ShardSelector.parse(text)
    assert len(selector.ranges) == 1200
    assert [selector.admits(it * step) for it in range(4)] == [True, False, True, False]
