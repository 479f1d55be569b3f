"""What a member says in its own Lease is believed only as it wrote it."""

import json
from typing import Any

import pytest

from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, parse_lease
from elector_sidecar.shards.members.member_lease import (
    MEMBER_ANNOTATION,
    MemberNote,
    _digest,
    decode,
    emptied,
    encode,
    is_foreign,
)
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL, TableVersion

ME, NAME, STAMP = "pod-a_1", "ring-pod-a", "2026-01-01T00:00:00.000001Z"
NOTE = MemberNote(2, 41, 64, True, False, TableVersion("u", 7, "d"), 43)


def lease(
    text: str | None,
    *,
    holder: str = ME,
    stamp: str = STAMP,
    uid: str = "u",
    name: str = NAME,
    seconds: int = 15,
) -> Lease:
    annotations = {HOLDER_ANNOTATION: holder} if holder else {}
    if text is not None:
        annotations[MEMBER_ANNOTATION] = text
    metadata = {"name": name, "resourceVersion": "45", "uid": uid, "annotations": annotations}
    return parse_lease({"metadata": metadata, "spec": spec(holder, stamp, seconds)})


def spec(holder: str = ME, stamp: str = STAMP, seconds: int = 15) -> dict[str, Any]:
    return {"holderIdentity": holder, "renewTime": stamp, "leaseDurationSeconds": seconds}


def written(note: MemberNote = NOTE, *, holder: str = ME, uid: str = "u") -> str:
    metadata = {"name": NAME} | ({"uid": uid} if uid else {})
    return encode(note, {"metadata": metadata, "spec": spec(holder)})


def signed(**changes: Any) -> str:
    content = {k: v for k, v in (json.loads(written()) | changes).items() if k != "digest"}
    return json.dumps(content | {"digest": _digest(content, NAME, "u", spec())})


def test_a_note_is_read_as_it_was_written() -> None:
    assert decode(lease(written())) == NOTE
    assert decode(lease(written(uid=""))) == NOTE, "the write that creates it knows no uid"
    assert decode(lease(written(emptied(41), holder=""), holder="")) == emptied(41)


def test_an_edited_or_outdated_note_is_no_word_of_the_member() -> None:
    assert decode(lease(json.dumps(json.loads(written()) | {"term": 3}))) is None
    assert decode(lease(written(), holder="pod-a_2")) is None, "left over from another holder"
    assert decode(lease(written(), holder="")) is None, "blanked"
    assert decode(lease(written(emptied(41), holder=""))) is None, "left over from nobody"
    assert decode(lease(written(), stamp="2026-01-01T00:00:09.000001Z")) is None
    assert decode(lease(written(), uid="v")) is None, "of another Lease"
    assert decode(lease(written(), name="ring-pod-b")) is None, "of another Lease"
    assert decode(lease(written(), seconds=86400)) is None, "its duration was edited"
    assert decode(lease(None)) is None
    assert decode(lease("[]")) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"term": -1},
        {"term": 0},
        {"term": 1e400},
        {"term": "2"},
        {"begunOn": None},
        {"settled": 1},
        {"seen": {"uid": 1, "sequence": 7, "digest": "d"}},
        {"seen": [1]},
        {"seenAt": 2**63},
    ],
)
def test_a_note_that_somebody_signed_by_hand_is_checked_too(changes: dict[str, Any]) -> None:
    assert decode(lease(signed(**changes))) is None
    assert decode(lease(signed())) == NOTE


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({ELECTION_LABEL: "x"}, {}, False),
        ({}, {MEMBER_ANNOTATION: "{}"}, False),
        ({}, {}, True),
        ({ELECTION_LABEL: "x-b"}, {MEMBER_ANNOTATION: "{}"}, True),
    ],
)
def test_a_lease_of_another_election_that_shares_its_name_is_foreign(
    labels: dict[str, str], annotations: dict[str, str], expected: bool
) -> None:
    metadata = {"name": "x-b-c", "resourceVersion": "1", "uid": "u"}
    raw = {"metadata": metadata | {"labels": labels, "annotations": annotations}, "spec": {}}
    assert is_foreign(parse_lease(raw), "x") == expected
