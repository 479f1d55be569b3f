"""Samples are counted as Sedna counts them, wherever a count was interrupted."""

from hypothesis import given
from hypothesis import strategies as st

from lc.core.sample_count import TAIL, Look, Position, SampleCounter, decoded, encoded

TEXT = Position("/srv/a.txt", "txt")
TABLE = Position("/srv/a.csv", "csv")
LOOK = Look(device=1, inode=2, size=0, changed_at=3)


def counted(position: Position, *chunks: bytes) -> Position:
    counter = SampleCounter(position)
    for chunk in chunks:
        counter.count(chunk)
    return counter.position(changed_at=3)


def test_nothing_is_no_sample() -> None:
    assert counted(TEXT).samples() == 0
    assert counted(TABLE).samples() == 0


def test_a_header_is_no_sample() -> None:
    assert counted(TABLE, b"x,y\n").samples() == 0
    assert counted(TABLE, b"x,y\n1,2\n3,4").samples() == 2


def test_a_last_line_without_an_end_counts_once() -> None:
    begun = counted(TEXT, b"one\ntw")
    assert begun.samples() == 2
    counter = SampleCounter(begun, before=b"one\ntw")
    counter.count(b"o\n")
    assert counter.position().samples() == 2


def test_empty_lines_count() -> None:
    assert counted(TEXT, b"\n\n\n").samples() == 3


def _lines(content: bytes) -> int:
    """As Go's bufio.Scanner splits them."""
    parts = content.split(b"\n")
    return len(parts) if parts[-1] else len(parts) - 1


@given(st.lists(st.binary(max_size=3 * TAIL // 2), max_size=6), st.integers(0, 6))
def test_interruptions_and_chunks_change_no_count(chunks: list[bytes], stop: int) -> None:
    whole = b"".join(chunks)
    first = b"".join(chunks[:stop])
    position = counted(TEXT, *chunks[:stop])
    before = first[-TAIL:]
    assert position.follows(before)
    counter = SampleCounter(position, before=before)
    for chunk in chunks[stop:]:
        counter.count(chunk)
    found = counter.position(changed_at=3)
    assert found.samples() == _lines(whole)
    assert found == counted(TEXT, whole)


def test_a_file_that_only_grew_is_counted_on() -> None:
    known = counted(TEXT.begun_anew(LOOK), b"one\n")
    assert known.is_current(Look(1, 2, 4, 3))
    assert known.may_follow(Look(1, 2, 9, 5))
    assert known.follows(b"one\n")


def test_a_file_that_was_truncated_rotated_or_rewritten_is_counted_anew() -> None:
    known = counted(TEXT.begun_anew(LOOK), b"one\n")
    assert not known.may_follow(Look(1, 2, 2, 5))
    assert not known.may_follow(Look(1, 7, 9, 5))
    assert not known.may_follow(Look(1, 2, 4, 5))
    assert not known.is_current(Look(1, 2, 4, 5))
    assert not known.follows(b"two\n")


@given(st.binary(max_size=40))
def test_a_position_survives_the_store_and_anything_else_is_none(garbage: bytes) -> None:
    known = counted(TABLE.begun_anew(LOOK), b"x\n1\n")
    assert decoded(encoded(known)) == known
    assert decoded(garbage) is None
