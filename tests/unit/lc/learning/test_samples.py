"""Which samples train, and how segments grow."""

from hypothesis import given
from hypothesis import strategies as st

from lc.core.learning.samples import Segment, appended, counted, for_training, of_one_header, opened


def test_the_first_part_of_what_is_new_trains() -> None:
    assert for_training(10, before=0, probability=0.8) == 8
    assert for_training(100, before=0, probability=0.29) == 29


def test_samples_that_come_one_by_one_train_as_well() -> None:
    """Sedna rounds each batch down: a file that grows line by line never trains there."""
    assert sum(for_training(1, before=n, probability=0.8) for n in range(10)) == 8


@given(st.lists(st.integers(0, 50), max_size=20), st.floats(0, 1))
def test_the_share_is_the_same_however_samples_come(batches: list[int], share: float) -> None:
    before, trained = 0, 0
    for new in batches:
        part = for_training(new, before=before, probability=share)
        assert 0 <= part <= new
        before, trained = before + new, trained + part
    assert trained == for_training(before, before=0, probability=share)


def test_a_segment_that_grew_takes_the_place_of_what_it_was() -> None:
    one = Segment("1", 2, 20)
    assert appended((), one) == (one,)
    assert appended((one,), Segment("1", 3, 30)) == (Segment("1", 3, 30),)
    assert appended((one,), Segment("2", 1, 10)) == (one, Segment("2", 1, 10))
    assert appended((one,), Segment("2")) == (one,)


def test_samples_of_other_columns_open_another_segment() -> None:
    one = Segment("1", 2, 20, "a,b")
    assert opened((one,), "a,b", name="2") == one
    assert opened((one,), "a,c", name="2") == Segment("2", header="a,c")
    assert opened((), "a,b", name="2") == Segment("2", header="a,b")


def test_one_file_holds_samples_of_the_same_columns() -> None:
    one, two, three = (Segment(str(n), 1, 10, header) for n, header in enumerate("aab"))
    assert of_one_header((one, two, three)) == ((one, two), (three,))
    assert of_one_header(()) == ((), ())
    assert counted((one, two, three)) == 3
