"""What is read as a table, and which table may follow which."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from elector_sidecar.shards.table.shard_table import (
    MAX_SEQUENCE,
    MalformedTable,
    NewerTable,
    Owner,
    Table,
    TableVersion,
    _digest,
    _text,
    decode,
    encode,
    is_next,
    is_successor,
    next_sequence,
)

A = Owner("pod-a_1", 3, "ring-pod-a", "uid-a", 15.0)
B = Owner("pod-b_2", 1, "ring-pod-b", "uid-b", 15.0)
TABLE = Table(7, 1, 41, TableVersion("u", 6, "d6"), (A, A, None, B))


def version(table: Table, uid: str = "u") -> TableVersion:
    return TableVersion(uid, table.sequence, decode(encode(table))[1])


def test_a_table_is_read_as_it_was_written() -> None:
    assert decode(encode(TABLE))[0] == TABLE


def test_a_table_of_50_members_and_256_shards_is_under_24_kb() -> None:
    owners = [
        Owner(f"gm-7d9c8b6f5d-{n:05}_{'0' * 36}", 1, f"gm-gm-7d9c8b6f5d-{n:05}", "0" * 36, 30.0)
        for n in range(50)
    ]
    table = Table(1000, 0, 41, version(TABLE), tuple(owners[n % 50] for n in range(256)))
    assert len(encode(table)) <= 24_000


def edited(**changes: Any) -> str:
    return json.dumps(json.loads(encode(TABLE)) | changes)


def signed(**changes: Any) -> str:
    content = {k: v for k, v in (json.loads(encode(TABLE)) | changes).items() if k != "digest"}
    return _text(content | {"digest": _digest(content)})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "[]",
        "{}",
        "not json",
        "[" * 100_000,
        edited(owners=[None] * 4),
        edited(sequence=8),
        edited(digest="0" * 16),
        signed(owners=[9, 0, 0, 0]),
        signed(shards=5),
        signed(members=[{}]),
        signed(owners=[None], shards=1),
        signed(sequence=-1),
        signed(sequence=True),
        signed(sequence=MAX_SEQUENCE),
        signed(restored=2**63 - 1),
        signed(sequence=7.0),
        signed(base=None),
        signed(follows={"uid": "u", "sequence": "6", "digest": "d"}),
        signed(follows=[]),
        signed(members=[json.loads(encode(TABLE))["members"][0] | {"term": 2**64}], owners=[0] * 4),
        signed(
            members=[json.loads(encode(TABLE))["members"][0] | {"lease": "../x"}], owners=[0] * 4
        ),
        *(
            signed(
                members=[json.loads(encode(TABLE))["members"][0] | {"leaseDurationSeconds": it}],
                owners=[0] * 4,
            )
            for it in (math.inf, math.nan, 0, 86401, "15")
        ),
    ],
)
def test_what_somebody_edited_is_no_table(text: str | None) -> None:
    with pytest.raises(MalformedTable):
        decode(text)


def test_the_next_sequence_is_one_that_is_read() -> None:
    assert next_sequence(7, 9) == 10
    assert next_sequence(7, MAX_SEQUENCE - 1) == 8
    assert next_sequence(MAX_SEQUENCE - 1) == 1
    highest = replace(TABLE, sequence=MAX_SEQUENCE - 1)
    assert decode(encode(highest))[0] == highest
    decode(encode(highest.changed(version(highest), (A, A, A, A))))


def test_a_whole_table_of_another_format_is_told_from_nonsense() -> None:
    with pytest.raises(NewerTable, match="2"):
        decode(signed(format=2))


def test_a_table_is_followed_by_what_was_derived_from_it() -> None:
    known = version(TABLE)
    after = TABLE.changed(known, (A, A, A, B))
    assert is_successor(known, TABLE, known)
    assert is_successor(known, after, version(after))
    last = after.changed(version(after), (A, A, A, None))
    assert is_successor(known, last, version(last)), "versions between may be missed"


def test_only_what_was_written_on_the_version_that_was_seen_is_known_to_come_next() -> None:
    known = version(TABLE)
    after = replace(TABLE.changed(known, (A, A, A, B)), base=50)
    assert is_next(known, 50, after)
    assert not is_next(known, 51, after), "put back from a copy"
    assert not is_next(version(TABLE, uid="v"), 50, after)


def test_neither_an_older_nor_a_foreign_table_is_a_successor() -> None:
    known = version(TABLE)
    older = replace(TABLE, sequence=6)
    other = replace(TABLE, owners=(B, B, None, B))
    from_older = replace(TABLE, sequence=9, follows=version(older))
    assert not is_successor(known, older, version(older))
    assert not is_successor(known, other, version(other)), "same sequence, another content"
    assert not is_successor(known, from_older, version(from_older)), "written from older knowledge"
    assert not is_successor(known, TABLE, version(TABLE, uid="v")), "copied into another object"


def test_a_table_written_back_into_another_object_follows_the_lost_one() -> None:
    known = version(TABLE)
    back = replace(TABLE.changed(known, TABLE.owners), restored=2)
    assert is_successor(known, back, version(back, uid="v"))
