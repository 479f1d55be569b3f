"""The PoolMember document: what is missing, what is too much, and what comes back as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_sidecar.core.pool_member import (
    MAX_CERTIFICATE,
    MAX_EVERY,
    Link,
    MemberStatus,
    OutOfBounds,
    PeerVerdict,
    PoolMember,
    Report,
    Verdict,
    is_pool_name,
    status_patch,
)

PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
BARE = {"metadata": {"name": "n4", "resourceVersion": "7"}}
NAMES = st.from_regex(r"[a-z]{1,9}", fullmatch=True)
REPORTS = st.builds(
    Report,
    st.integers(0, 2**63 - 1),
    st.integers(1, MAX_EVERY),
    st.lists(
        st.builds(
            PeerVerdict,
            NAMES,
            st.sampled_from([it for it in Verdict if it is not Verdict.ALIVE]),
            st.integers(0, 10**6),
        ),
        max_size=63,
        unique_by=lambda it: it.node,
    ).map(tuple),
)
STATUSES = st.builds(
    MemberStatus,
    addresses=st.lists(st.ip_addresses().map(str), max_size=4).map(tuple),
    certificates=st.lists(st.just(PEM), max_size=2).map(tuple),
    link=st.none() | st.sampled_from(Link),
    via=NAMES | st.just(""),
    report=st.none() | REPORTS,
)


def _parse(**more: Any) -> PoolMember:
    return PoolMember.parse(json.dumps({**BARE, **more}).encode())


@given(STATUSES)
def test_what_a_member_writes_is_what_others_read(status: MemberStatus) -> None:
    patch = json.loads(status_patch(status))
    stored = {key: value for key, value in patch["status"].items() if value is not None}
    assert _parse(status=stored).status == status


def test_a_member_that_has_said_nothing_is_one() -> None:
    documents: list[dict[str, Any]] = [
        {},
        {"spec": None, "status": None},
        {"spec": {}, "status": {}},
    ]
    for more in documents:
        member = _parse(**more)
        assert (member.name, member.resource_version, member.defect) == ("n4", 7, "")
        assert (member.pool, member.status, member.conditions) == ("", MemberStatus(), ())


def test_labels_owner_and_judgement_are_read() -> None:
    metadata = {
        **BARE["metadata"],
        "uid": "u",
        "labels": {"pool.edge-sidecars.io/pool": "f", "pool.edge-sidecars.io/may-lead": "true"},
        "ownerReferences": [{"uid": "node-uid"}],
    }
    member = _parse(metadata=metadata, spec={"judged": "Dead"})
    assert (member.uid, member.pool, member.may_lead) == ("u", "f", True)
    assert (member.owner, member.is_dead) == ("node-uid", True)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"addresses": ["10.0.0.1"] * 5}, "addresses"),
        ({"addresses": ["example.com"]}, "addresses"),
        ({"addresses": ["fe80::1%eth0"]}, "addresses"),
        ({"certificates": [PEM] * 3}, "certificates"),
        ({"certificates": ["no PEM"]}, "certificates"),
        ({"certificates": [PEM + "A" * MAX_CERTIFICATE]}, "certificates"),
        ({"link": "Borrowed"}, "link"),
        ({"link": 7}, "link"),
        ({"via": "x" * 254}, "via"),
        ({"report": {"sequence": -1, "every": 10}}, "sequence"),
        ({"report": {"sequence": 2**63, "every": 10}}, "sequence"),
        ({"report": {"sequence": True, "every": 10}}, "sequence"),
        ({"report": {"sequence": 1, "every": 0}}, "every"),
        ({"report": {"sequence": 1, "every": 10**9}}, "every"),
        ({"report": {"sequence": 1, "every": 9, "verdicts": {"n1": "Silent"}}}, "verdicts"),
        ({"report": {"sequence": 1, "every": 9, "verdicts": [{"node": "a"}]}}, "verdict"),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_status_beyond_its_bounds_is_none_and_is_named(status: Any, field: str) -> None:
    member = _parse(status=status)
    assert member.status == MemberStatus()
    assert member.defect.startswith("status.")
    assert field in member.defect


@pytest.mark.parametrize("verdicts", [63, 64])
def test_a_report_names_each_other_member_once_at_most(verdicts: int) -> None:
    named = tuple(PeerVerdict(f"n{it}", Verdict.SILENT) for it in range(verdicts))
    if verdicts < 64:
        assert len(Report(1, 10, named).verdicts) == verdicts
    else:
        with pytest.raises(OutOfBounds):
            Report(1, 10, named)
    with pytest.raises(OutOfBounds):
        Report(1, 10, (named[0], named[0]))


def test_a_report_of_one_that_is_alive_cannot_be_made() -> None:
    with pytest.raises(OutOfBounds, match="not Alive"):
        PeerVerdict("n1", Verdict.ALIVE)


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b'{"metadata":{"name":"a"}}', b"x", b'{"metadata":3}']
)
def test_what_is_no_object_of_the_api_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        PoolMember.parse(raw)


def test_a_pools_name_is_an_rfc_1123_label() -> None:
    assert all(map(is_pool_name, ("a", "factory-7", "7", "x" * 63)))
    assert not any(map(is_pool_name, ("", "A", "a.b", "-a", "a-", "a_b", "x" * 64, "ä")))
