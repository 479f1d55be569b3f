"""What is taken from a dataset's file, whatever becomes of the file between two looks."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lc.core.learning.commands import Gather
from lc.core.learning.job import FileLocation
from lc.core.learning.samples import Cursor, Segment
from lc.core.learning.state import State
from lc.learning import gathering
from lc.learning.gathering import Unreadable, gather
from lc.learning.spool import CHUNK, Halt, Halted, Spool
from tests.examples import examples


class Job:
    """Gathers as a job's worker does, from what it saved last."""

    def __init__(self, folder: Path, *, share: float = 0.5, data_format: str = "txt") -> None:
        self.data = folder / "data"
        self.data.touch()
        self.state = State()
        self.spool = Spool(folder / "spool")
        self._share = share
        self._format = data_format

    def look(self, *, is_saved: bool = True) -> None:
        while not self._look(is_saved):
            pass

    def _look(self, is_saved: bool) -> bool:
        cursor = self.state.cursor or Cursor("/data", self._format)
        command = Gather(
            source=FileLocation("/data"),
            cursor=cursor,
            train=self.state.train,
            evaluation=self.state.fresh,
            named=str(self.state.named + 1),
            gathered=self.state.gathered,
            train_probability=self._share,
        )
        reading = gather(self.data, command, self.spool, Halt())
        if is_saved:
            self.state = self.state.after(reading.gathered)
        return reading.is_all or not is_saved

    def add(self, text: str) -> None:
        with self.data.open("a", newline="") as file:
            file.write(text)

    def train(self) -> list[str]:
        return [*self._lines(self.state.train)]

    def evaluation(self) -> list[str]:
        return [*self._lines(self.state.fresh)]

    def _lines(self, segments: tuple[Segment, ...]) -> Iterator[str]:
        for line in self.spool.lines(segments, Halt()):
            yield line.decode()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_the_first_part_of_new_lines_trains_and_the_rest_judges(job: Job) -> None:
    job.add("a\nb\nc\nd\n")
    job.look()
    assert (job.train(), job.evaluation()) == (["a", "b"], ["c", "d"])
    job.look()
    assert job.state.gathered == 4
    job.add("e\nf\n")
    job.look()
    assert (job.train(), job.evaluation()) == (["a", "b", "e"], ["c", "d", "f"])


def test_samples_are_for_lc_alone_whoever_may_read_the_dataset(job: Job) -> None:
    job.data.chmod(0o600)
    job.spool.folder.mkdir(mode=0o755)  # as an earlier release made it
    job.add("1\n2\n")
    job.look()
    assert job.train()
    assert stat.S_IMODE(job.spool.folder.stat().st_mode) == 0o700


def test_an_empty_file_gives_nothing(job: Job) -> None:
    job.look()
    assert job.state.gathered == 0
    assert job.state.segments == ()


def test_a_line_that_is_being_written_is_not_torn(job: Job) -> None:
    job.add("a\nb\nc\nlong")
    job.look()
    assert job.state.gathered == 3
    job.add("er\n")
    job.look()
    assert job.state.gathered == 4
    assert job.train()[-1] == "longer"


def test_a_last_line_without_an_end_counts_once_it_stays_so(job: Job) -> None:
    job.add("a\nb")
    job.look()
    assert job.state.gathered == 1
    job.look()
    assert job.state.gathered == 2
    job.add("\nc\n")
    job.look()
    assert (job.train(), job.evaluation()) == (["b"], ["a", "c"])


def test_line_ends_of_windows_become_plain(job: Job) -> None:
    job.add("a\r\nb\r\nc")
    job.look()
    job.look()
    job.add("\r\nd\r\n")
    job.look()
    assert sorted(job.train() + job.evaluation()) == ["a", "b", "c", "d"]


def test_a_file_that_was_truncated_is_read_from_its_beginning_and_nothing_is_lost(
    job: Job,
) -> None:
    job.add("a\nb\nc\nd\n")
    job.look()
    os.truncate(job.data, 0)
    job.add("e\nf\n")
    job.look()
    assert sorted(job.train() + job.evaluation()) == ["a", "b", "c", "d", "e", "f"]


def test_a_file_that_was_exchanged_for_a_longer_one_is_another_file(job: Job) -> None:
    job.add("a\nb\n")
    job.look()
    job.data.unlink()
    job.add("c\nd\ne\nf\n")
    job.look()
    assert job.state.gathered == 6


def test_a_file_that_was_rewritten_with_more_at_its_end_is_the_same_file(job: Job) -> None:
    """Editors and rsync put a new file in the old one's place."""
    job.add("a\nb\n")
    job.look()
    text = job.data.read_text()
    job.data.unlink()
    job.add(text + "c\n")
    job.look()
    assert sorted(job.train() + job.evaluation()) == ["a", "b", "c"]


def test_what_was_written_but_not_saved_is_written_over(job: Job) -> None:
    job.add("a\nb\n")
    job.look()
    job.add("c\nd\n")
    job.look(is_saved=False)
    job.add("e\nf\n")
    job.look()
    assert sorted(job.train() + job.evaluation()) == ["a", "b", "c", "d", "e", "f"]


def test_the_header_of_a_csv_is_kept_and_is_no_sample(tmp_path: Path) -> None:
    job = Job(tmp_path, data_format="csv")
    job.add("x,y\n1,2\n3,4\n")
    job.look()
    assert (job.train(), job.evaluation()) == (["1,2"], ["3,4"])
    assert {each.header for each in job.state.segments} == {"x,y"}


def test_a_csv_with_nothing_but_its_header_has_no_samples(tmp_path: Path) -> None:
    job = Job(tmp_path, data_format="csv")
    for text in ("", "x,", "y", "\n"):
        job.add(text)
        job.look()
        assert job.state.gathered == 0


def test_columns_that_change_open_segments_of_their_own(tmp_path: Path) -> None:
    job = Job(tmp_path, share=1, data_format="csv")
    job.add("x,y\n1,2\n")
    job.look()
    os.truncate(job.data, 0)
    job.add("x,z\n5,6\n")
    job.look()
    assert [(each.header, each.samples) for each in job.state.train] == [("x,y", 1), ("x,z", 1)]


def test_a_folder_is_no_dataset(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.data.unlink()
    os.mkfifo(job.data)
    holder = os.open(job.data, os.O_RDWR)
    with pytest.raises(Unreadable):
        job.look()
    os.close(holder)
    job.data.unlink()
    job.data.mkdir()
    with pytest.raises(OSError, match="directory"):
        job.look()


def test_a_large_file_is_taken_in_bounded_parts(tmp_path: Path) -> None:
    job = Job(tmp_path, share=0.25)
    line = "x" * 1023 + "\n"
    count = gathering.LIMIT // len(line) + 100
    with job.data.open("w") as file:
        for _ in range(count):
            file.write(line)
    assert not job._look(True)
    assert gathering.LIMIT // 1024 <= job.state.gathered < count
    job.look()
    assert job.state.gathered == count
    assert sum(each.samples for each in job.state.train) == count // 4
    assert sum(each.size for each in job.state.segments) == job.data.stat().st_size


def test_lines_longer_than_a_chunk_stay_whole(job: Job) -> None:
    lines = [letter * (CHUNK + 7) for letter in "abcd"]
    job.add("\n".join(lines) + "\n")
    job.look()
    assert job.train() + job.evaluation() == lines


@pytest.mark.parametrize("data_format", ["txt", "csv"])
def test_what_does_not_end_is_no_line_and_costs_nothing(tmp_path: Path, data_format: str) -> None:
    job = Job(tmp_path, data_format=data_format)
    job.add("header\n1\n2\n")
    before = job.data.stat().st_size
    os.truncate(job.data, 1 << 40)
    job._look(True)
    count = 2 if data_format == "csv" else 3
    assert job.state.gathered == count
    with pytest.raises(Unreadable, match=f"a line from byte {before} on does not end"):
        job.look()
    # Repaired.
    os.truncate(job.data, before)
    job.add("3\n")
    job.look()
    assert job.state.gathered == count + 1


def test_a_first_line_that_does_not_end_is_no_line(job: Job) -> None:
    os.truncate(job.data, 1 << 40)
    with pytest.raises(Unreadable, match="a line from byte 0 on does not end"):
        job.look()


def test_a_process_that_ends_does_not_wait_for_a_long_copy(job: Job) -> None:
    job.add("a\n" * 10)
    halt = Halt()
    halt.set()
    command = Gather(
        source=FileLocation("/data"),
        cursor=Cursor("/data", "txt"),
        train=(),
        evaluation=(),
        named="1",
        gathered=0,
        train_probability=0.5,
    )
    with pytest.raises(Halted):
        gather(job.data, command, job.spool, halt)


def test_samples_that_somebody_removed_are_found_missing(job: Job) -> None:
    job.add("a\nb\nc\nd\n")
    job.look()
    (name,) = (each.name for each in job.state.train)
    os.truncate(job.spool.folder / name, 1)
    assert job.spool.lost(job.state.segments) == {name}
    with pytest.raises(OSError, match="missing"):
        job.train()
    job.add("e\nf\n")
    with pytest.raises(OSError, match="missing"):
        job.look()


def test_only_what_no_state_names_is_tidied_away(job: Job) -> None:
    job.add("a\nb\n")
    job.look()
    (job.spool.folder / "99.train.samples").write_text("left over")
    (job.spool.folder / "hot-update").write_text("/var")
    job.spool.keep(job.state.spool_files)
    kept = {each.name for each in job.spool.folder.iterdir()}
    assert kept == {"1.train.samples", "1.eval.samples", "hot-update"}


TEXT = st.lists(st.sampled_from(("a", "b", "\n", "\r\n")), max_size=12).map("".join)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(TEXT, st.booleans()), max_size=12),
    st.floats(0, 1),
)
def test_every_line_is_taken_once_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, bool]], share: float
) -> None:
    job = Job(tmp_path_factory.mktemp("job"), share=share)
    text = ""
    for part, is_saved in parts:
        job.add(part)
        text += part
        job.look(is_saved=is_saved)
    job.add("\n")
    job.look()
    whole = (text + "\n").replace("\r\n", "\n").split("\n")[:-1]
    taken = job.train() + job.evaluation()
    assert len(taken) == job.state.gathered
    # A line that stood unfinished for two looks is two, if it goes on nevertheless.
    assert "".join(sorted("".join(taken))) == "".join(sorted("".join(whole)))
