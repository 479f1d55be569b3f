"""Reports: what may come from outside, and which one takes the place of another."""

import json
from dataclasses import replace

import pytest

from edge_sidecars.sedna_api.core.report import (
    MAX_BODY,
    MalformedReport,
    Report,
    check,
    check_body,
    phase_of,
    replaced_by,
)

GOOD = Report(
    store_id="5e0c-1",
    seq=2,
    uid="8f6e-22",
    kind="dataset",
    namespace="shop",
    name="d1",
    is_event=False,
    worker="w-0",
    body=b'{"numberOfSamples":3}',
    previous=1,
)


def said(phase: str, *, worker: str = "w", is_event: bool = False, store: str = "s") -> Report:
    body = json.dumps({"phase": phase}).encode()
    return replace(GOOD, worker=worker, is_event=is_event, store_id=store, body=body)


@pytest.mark.parametrize("number", ["1" + "0" * 309, "-1" + "0" * 400])
def test_a_number_that_no_api_server_takes_is_refused(number: str) -> None:
    """A NodeReport with it would be refused as a whole, and hold all other reports up."""
    with pytest.raises(MalformedReport, match="more than a number may be"):
        check_body(b'{"output":{"ownerInfo":[{"x":%b}]}}' % number.encode())
    check_body(b'{"x":[1%b,9223372036854775808,true,-1.7e308]}' % (b"0" * 308))


def test_a_good_report_is_good() -> None:
    check(GOOD)
    check(replace(GOOD, worker="", previous=0))
    # Of Sedna's own LCs, which number nothing.
    check(replace(GOOD, seq=0, previous=0))


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, seq=-1),
        replace(GOOD, seq=2**63),
        replace(GOOD, previous=2),
        replace(GOOD, kind="pod"),
        replace(GOOD, kind="Dataset"),
        replace(GOOD, kind="nodereports"),
        replace(GOOD, uid=""),
        replace(GOOD, store_id="a b"),
        replace(GOOD, namespace="a/../b"),
        replace(GOOD, name="D1"),
        replace(GOOD, name="d" * 254),
        replace(GOOD, worker="a\nb"),
        replace(GOOD, body=b"[]"),
        replace(GOOD, body=b""),
        replace(GOOD, body=b'{"a":"\xff"}'),
        replace(GOOD, body=b'{"a":"' + b"x" * MAX_BODY + b'"}'),
    ],
    ids=repr,
)
def test_what_says_nothing_is_malformed(bad: Report) -> None:
    with pytest.raises(MalformedReport):
        check(bad)


def test_a_body_is_no_deeper_than_encoders_go() -> None:
    check_body(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}")
    for depth in (32, 900, 30_000):
        with pytest.raises(MalformedReport):
            check_body(b'{"a":' + b"[" * depth + b"]" * depth + b"}")


def test_a_phase_is_read_in_any_case_and_only_where_there_is_one() -> None:
    assert phase_of(b'{"phase":"Train","status":"Ready"}') == "train"
    assert phase_of(b'{"phase":7}') == ""
    assert phase_of(b"{}") == ""
    assert phase_of(b"nonsense") == ""


def test_a_count_takes_the_place_of_the_one_before() -> None:
    assert replaced_by(said("a"), [said("a")]) == 0
    assert replaced_by(said("a"), [said("a"), said("b")]) == 0
    assert replaced_by(said("a"), []) is None


def test_only_of_the_same_worker_phase_and_store() -> None:
    assert replaced_by(said("a"), [said("b")]) is None
    assert replaced_by(said("a"), [said("a", worker="other")]) is None
    assert replaced_by(said("a"), [said("a", store="other")]) is None


def test_never_across_an_event_and_an_event_takes_nobodys_place() -> None:
    assert replaced_by(said("a"), [said("a"), said("b", is_event=True)]) is None
    assert replaced_by(said("a", is_event=True), [said("a"), said("a", is_event=True)]) is None
