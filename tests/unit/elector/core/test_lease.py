"""The wire format: what is read from a Lease, and what a write of ours keeps and changes."""

from typing import Any

import pytest

from elector_sidecar.core.lease import (
    HOLDER_ANNOTATION,
    MalformedLease,
    held,
    micro_time,
    parse_lease,
    pod_name,
    released,
    vacant,
    wall_seconds,
)
from tests.unit.elector.core.records import WALL, ours, record


def raw(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {}}
    return body | changes


def held_by_me(base: Any = None) -> dict[str, Any]:
    return held(
        base,
        namespace="default",
        name="controller",
        holder_identity="me_1",
        lease_duration=15,
        acquire_time=micro_time(WALL),
        renew_time=micro_time(WALL + 2),
        lease_transitions=3,
    )


def test_an_empty_lease_has_no_holder_and_no_duration() -> None:
    specs: list[dict[str, Any] | None] = [{}, None]
    for spec in specs:
        lease = parse_lease(raw(spec=spec))
        assert lease.spec.holder_identity == ""
        assert lease.spec.lease_duration is None
        assert lease.spec.lease_transitions == 0
        assert lease.marked_holder is None


@pytest.mark.parametrize("nothing", [None, 0, -5])
def test_a_duration_of_null_or_0_is_unknown(nothing: int | None) -> None:
    assert parse_lease(raw(spec={"leaseDurationSeconds": nothing})).spec.lease_duration is None


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("<html>", "body"),
        ([], "body"),
        ({}, "metadata"),
        ({"metadata": {"resourceVersion": 7}}, "resourceVersion"),
        ({"metadata": {"resourceVersion": "x"}}, "resourceVersion"),
        ({"metadata": {"resourceVersion": str(2**63)}}, "resourceVersion"),
        (raw(spec=[1]), "spec"),
        (raw(spec={"holderIdentity": 5}), "holderIdentity"),
        (raw(spec={"leaseDurationSeconds": "15"}), "leaseDurationSeconds"),
        (raw(spec={"leaseDurationSeconds": True}), "leaseDurationSeconds"),
        (raw(spec={"leaseTransitions": 1.5}), "leaseTransitions"),
        (raw(spec={"renewTime": 1}), "renewTime"),
        (raw(metadata={"resourceVersion": "7", "annotations": "a"}), "annotations"),
    ],
)
def test_what_is_no_lease_is_refused_by_the_name_of_its_field(body: Any, complaint: str) -> None:
    with pytest.raises(MalformedLease, match=complaint):
        parse_lease(body)


def test_a_holder_is_ours_if_the_annotation_names_exactly_it() -> None:
    assert ours(1, "pod-1_a").is_marked
    assert not record(1, "pod-1_a").is_marked
    assert not record(1, "pod-1_a", marked="pod-1_b").is_marked
    assert not record(1, "", marked="").is_marked


def test_an_update_carries_uid_and_resource_version_of_its_base() -> None:
    metadata = held_by_me(record(41, "x"))["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("uid-1", "41")


def test_a_create_carries_neither() -> None:
    metadata = held_by_me()["metadata"]
    assert metadata == {
        "name": "controller",
        "namespace": "default",
        "annotations": {HOLDER_ANNOTATION: "me_1"},
    }


def test_an_update_keeps_other_peoples_metadata_and_unknown_spec_fields() -> None:
    base = parse_lease(
        raw(
            metadata={
                "uid": "u",
                "resourceVersion": "7",
                "labels": {"a": "b"},
                "ownerReferences": [{"name": "o"}],
                "annotations": {"theirs": "1"},
            },
            spec={"strategy": "OldestEmulationVersion", "futureField": {"x": 1}},
        )
    )
    body = held_by_me(base)
    assert body["metadata"]["labels"] == {"a": "b"}
    assert body["metadata"]["ownerReferences"] == [{"name": "o"}]
    assert body["metadata"]["annotations"] == {"theirs": "1", HOLDER_ANNOTATION: "me_1"}
    assert body["spec"]["strategy"] == "OldestEmulationVersion"
    assert body["spec"]["futureField"] == {"x": 1}


def test_an_update_leaves_its_base_as_it_was() -> None:
    base = ours(7, "other_1")
    before = repr(base.raw)
    held_by_me(base)
    released(base, now=micro_time(WALL))
    assert repr(base.raw) == before


def test_a_release_writes_what_client_go_writes_and_takes_our_mark_off() -> None:
    body = released(ours(7, "me_1", transitions=4), now=micro_time(WALL + 9))
    assert body["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": micro_time(WALL + 9),
        "renewTime": micro_time(WALL + 9),
        "leaseTransitions": 4,
    }
    assert HOLDER_ANNOTATION not in body["metadata"]["annotations"]
    assert body["metadata"]["resourceVersion"] == "7"


def test_a_reservation_names_no_holder_but_is_marked() -> None:
    body = vacant(namespace="default", name="c", holder_identity="me_1", lease_duration=15)
    assert body["spec"] == {"leaseDurationSeconds": 15}
    assert body["metadata"]["annotations"] == {HOLDER_ANNOTATION: "me_1"}


@pytest.mark.parametrize(
    ("wall", "stamp"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.0, "2023-11-14T22:13:20.000000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250000Z"),
    ],
)
def test_a_micro_time_has_six_digits_even_when_they_are_zero(wall: float, stamp: str) -> None:
    assert micro_time(wall) == stamp
    assert wall_seconds(stamp) == wall


@pytest.mark.parametrize(
    "stamp",
    ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20.000000+01:00", "2023-11-14T22:13:20.000"],
)
def test_times_that_others_wrote_are_read_in_any_precision_and_zone(stamp: str) -> None:
    assert wall_seconds(stamp) == WALL


@pytest.mark.parametrize("stamp", [None, "", "yesterday"])
def test_an_unreadable_time_is_none(stamp: str | None) -> None:
    assert wall_seconds(stamp) is None


@pytest.mark.parametrize(
    ("identity", "pod"),
    [("web-0_3f2a", "web-0"), ("a_b_uuid", "a_b"), ("bare", "bare"), ("_x", "_x"), ("", "")],
)
def test_the_pod_is_what_stands_before_the_last_underscore(identity: str, pod: str) -> None:
    assert pod_name(identity) == pod


@pytest.mark.parametrize("seconds", [2**31, 10**400, float("inf")])
def test_a_duration_that_no_api_server_stores_is_refused(seconds: float) -> None:
    raw = {"metadata": {"resourceVersion": "1"}, "spec": {"leaseDurationSeconds": seconds}}
    with pytest.raises(MalformedLease, match="leaseDurationSeconds"):
        parse_lease(raw)
