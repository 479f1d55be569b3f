"""What a member says in its own Lease is believed only as it wrote it."""

import json
from typing import Any

from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, parse_lease
from elector_sidecar.shards.member_lease import MEMBER_ANNOTATION, MemberNote, decode, encode
from elector_sidecar.shards.table import TableVersion

ME, STAMP = "pod-a_1", "2026-01-01T00:00:00.000001Z"
NOTE = MemberNote(2, 64, True, False, TableVersion("u", 7, "d"))


def lease(text: str | None, *, holder: str = ME, stamp: str = STAMP) -> Lease:
    annotations = {HOLDER_ANNOTATION: holder}
    if text is not None:
        annotations[MEMBER_ANNOTATION] = text
    metadata = {
        "name": "ring-pod-a",
        "resourceVersion": "5",
        "uid": "u",
        "annotations": annotations,
    }
    return parse_lease(
        {"metadata": metadata, "spec": {"holderIdentity": holder, "renewTime": stamp}}
    )


def edited(**changes: Any) -> str:
    return json.dumps(json.loads(encode(NOTE, identity=ME, renew_time=STAMP)) | changes)


def test_a_note_is_read_as_it_was_written() -> None:
    assert decode(lease(encode(NOTE, identity=ME, renew_time=STAMP))) == NOTE


def test_an_edited_or_outdated_note_is_no_word_of_the_member() -> None:
    text = encode(NOTE, identity=ME, renew_time=STAMP)
    assert decode(lease(edited(term=3))) is None
    assert decode(lease(text, holder="pod-a_2")) is None, "left over from another holder"
    assert decode(lease(text, stamp="2026-01-01T00:00:09.000001Z")) is None
    assert decode(lease(None)) is None
    assert decode(lease("[]")) is None
