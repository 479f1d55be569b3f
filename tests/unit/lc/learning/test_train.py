"""When a training begins, with what, and what becomes of its samples."""

import pytest
from msgspec.structs import replace

from lc.core.learning.commands import (
    Advance,
    Gather,
    Idle,
    LoopPace,
    MakeFolder,
    Repeat,
    WriteIndex,
    WriteSamples,
)
from lc.core.learning.job import Dataset, FileLocation, Model
from lc.core.learning.next_command import LONGEST_BACKOFF, JobInputs, next_command
from lc.core.learning.samples import Cursor, Segment
from lc.core.learning.state import Lent, Returned, SegmentsLost, StageOutcome, State, TrainBegun
from tests.unit.lc.learning.jobs import DATASET, NOW, condition, job, known, later, output, samples

WAITING = condition("Train", "Waiting")
# The data was looked at just now.
FRESH = LoopPace(gathered=NOW)
ENOUGH = State(train=(samples(4),))


def test_new_samples_are_gathered_first() -> None:
    command = next_command(job(WAITING), ENOUGH, known(), pace=LoopPace(), now=NOW)
    assert command == Gather(
        source=FileLocation("/srv/d/train.txt"),
        cursor=Cursor("/srv/d/train.txt", "txt"),
        train=(samples(4),),
        evaluation=(),
        named="1",
        gathered=0,
        train_probability=0.8,
    )


def test_gathering_goes_on_where_it_was_unless_the_dataset_is_another_now() -> None:
    cursor = Cursor(DATASET.url, DATASET.format, offset=70, head="h", tail="t")
    state = replace(ENOUGH, cursor=cursor)
    same = next_command(job(WAITING), state, known(), pace=LoopPace(), now=NOW)
    assert isinstance(same, Gather)
    assert same.cursor == cursor
    edited = known(replace(DATASET, url="/srv/d/other.txt"))
    other = next_command(job(WAITING), state, edited, pace=LoopPace(), now=NOW)
    assert isinstance(other, Gather)
    assert other.cursor == Cursor("/srv/d/other.txt", "txt")


def test_a_trigger_that_fires_begins_the_round_that_gm_said() -> None:
    command = next_command(
        job(condition("Train", "Waiting", 3)), ENOUGH, known(), pace=FRESH, now=NOW
    )
    assert isinstance(command, Advance)
    assert command.tasks == (
        WriteSamples((samples(4),), FileLocation("/srv/out/data/train/3/data.txt")),
        MakeFolder(FileLocation("/srv/out/train/3")),
    )
    assert command.report == {
        "phase": "Train",
        "status": "Ready",
        "round": 3,
        "message": "num_of_samples=4 is >= 4",
        "input": {
            "models": [{"format": "pb", "url": "/srv/m/base.pb"}],
            "dataURL": "/srv/out/data/train/3/data.txt",
            "outputDir": "/srv/out/train/3",
        },
    }
    after = ENOUGH.after(command.event)
    assert (after.train, after.lent, after.train_asked) == ((), Lent(3, (samples(4),)), 3)


@pytest.mark.parametrize("operator", ["<", "<=", "!="])
def test_without_samples_no_trigger_fires(operator: str) -> None:
    """Sedna asks it with 0, and trains on an empty file."""
    below = {"condition": {"operator": operator, "threshold": 9, "metric": "num_of_samples"}}
    command = next_command(job(WAITING, train=below), State(), known(), pace=FRESH, now=NOW)
    assert isinstance(command, Idle)
    assert command.note == "there are no new samples"
    one = State(train=(samples(1),))
    assert isinstance(
        next_command(job(WAITING, train=below), one, known(), pace=FRESH, now=NOW), Advance
    )


def test_a_trigger_is_judged_once_in_its_check_period() -> None:
    """Sedna judges it every ten seconds whatever checkPeriodSeconds says."""
    seldom = {
        "checkPeriodSeconds": 300,
        "condition": {"operator": ">", "threshold": 4, "metric": "num_of_samples"},
    }
    asked = job(WAITING, train=seldom)
    first = next_command(asked, ENOUGH, known(), pace=FRESH, now=NOW)
    assert isinstance(first, Idle)
    assert first.judged_round == 1
    more = State(train=(samples(5),))
    judged = replace(FRESH, judged=NOW, judged_round=1)

    def look(seconds: float) -> object:
        pace = replace(judged, gathered=later(seconds))
        return next_command(asked, more, known(), pace=pace, now=later(seconds))

    assert isinstance(look(299), Idle)
    assert isinstance(look(300), Advance)


def test_a_new_round_is_judged_at_once() -> None:
    judged = replace(FRESH, judged=NOW, judged_round=1)
    waiting = job(condition("Train", "Waiting", 2))
    assert isinstance(next_command(waiting, ENOUGH, known(), pace=judged, now=NOW), Advance)


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    ahead = LoopPace(gathered=later(900), judged=later(900), judged_round=1)
    assert isinstance(next_command(job(WAITING), ENOUGH, known(), pace=ahead, now=NOW), Gather)
    judged = replace(ahead, gathered=NOW)
    assert isinstance(next_command(job(WAITING), ENOUGH, known(), pace=judged, now=NOW), Advance)


def test_a_repeated_waiting_begins_nothing_twice() -> None:
    """It crashes Sedna's LC."""
    begun = ENOUGH.after(TrainBegun(1, (samples(4),), ()))
    more = replace(begun, train=(samples(9, "2.train.samples"),))
    assert isinstance(next_command(job(WAITING, WAITING), more, known(), pace=FRESH, now=NOW), Idle)


def test_a_round_before_one_that_was_asked_is_begun_after_a_restore_of_etcd() -> None:
    state = replace(ENOUGH, train_asked=7)
    waiting = job(condition("Train", "Waiting", 5))
    command = next_command(waiting, state, known(), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.event == TrainBegun(5, (samples(4),), ())


def test_nothing_is_begun_on_conditions_without_a_round() -> None:
    assert isinstance(next_command(job(), ENOUGH, known(), pace=FRESH, now=NOW), Idle)
    sednas = job(condition("Train", "Waiting", None))
    assert isinstance(next_command(sednas, ENOUGH, known(), pace=FRESH, now=NOW), Idle)


def test_a_later_round_goes_on_from_the_model_that_was_trained_last() -> None:
    left = output(
        {"format": "ckpt", "url": "/srv/out/train/1/x.ckpt"},
        {"format": "pb", "url": "/srv/out/train/1/x.pb"},
    )
    history = (condition("Train", "Completed", 1, data=left), condition("Train", "Waiting", 2))
    command = next_command(job(*history), ENOUGH, known(), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.report is not None
    assert command.report["input"]["models"] == [  # type: ignore[index]
        {"format": "pb", "url": "/srv/out/train/1/x.pb"}
    ]


def test_a_later_round_begins_at_the_initial_model_if_nothing_fits_it() -> None:
    """Sedna's LC ends on it."""
    state = replace(ENOUGH, trained=StageOutcome(1, ({"format": "ckpt", "url": "/x.ckpt"},)))
    waiting = job(condition("Train", "Waiting", 2))
    command = next_command(waiting, state, known(), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.report is not None
    assert command.report["input"]["models"] == [  # type: ignore[index]
        {"format": "pb", "url": "/srv/m/base.pb"}
    ]


def test_a_model_or_dataset_that_is_not_known_yet_is_waited_for() -> None:
    unknown = job(WAITING, initialModel={"name": "nobody"})
    command = next_command(unknown, ENOUGH, known(), pace=FRESH, now=NOW)
    assert command == Idle("waits for model nobody")
    assert isinstance(next_command(job(WAITING), ENOUGH, known(None), pace=FRESH, now=NOW), Idle)


def test_columns_that_changed_do_not_share_a_file() -> None:
    old, new = samples(4, "1", "a,b"), samples(9, "2", "a,c")
    table = known(Dataset("/srv/d/t.csv", "csv", "edge-a"))
    command = next_command(job(WAITING), State(train=(old, new)), table, pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.event == TrainBegun(1, (old,), (new,))
    assert command.tasks[0] == WriteSamples((old,), FileLocation("/srv/out/data/train/1/data.csv"))


def test_remote_text_has_an_index_of_the_files_that_it_names() -> None:
    remote = Dataset("s3://b/d/train.txt", "txt", "edge-a", "keys")
    asked = job(WAITING, outputDir="s3://b/out/", credentialName="more")
    command = next_command(asked, ENOUGH, known(remote), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    index = FileLocation("s3://b/out/data/train/1/dataIndex.txt", "more")
    assert WriteIndex((samples(4),), "s3://b/d/", index) in command.tasks
    assert command.report is not None
    assert command.report["input"]["dataIndexURL"] == index.url  # type: ignore[index]


def test_remote_data_is_fetched_only_where_a_trigger_is_to_be_judged() -> None:
    remote = known(Dataset("s3://b/d/train.txt", "txt", "edge-a"))
    running = job(condition("Train", "Running"))
    begun = replace(ENOUGH, train_asked=1)
    assert isinstance(next_command(running, begun, remote, pace=LoopPace(), now=NOW), Idle)
    soon = next_command(job(WAITING), State(), remote, pace=FRESH, now=later(59))
    due = next_command(job(WAITING), State(), remote, pace=FRESH, now=later(60))
    assert (type(soon), type(due)) == (Idle, Gather)


def test_a_lifelong_job_trains_without_an_initial_model() -> None:
    asked = job(WAITING, kind="lifelonglearningjob", initialModel=None)
    command = next_command(asked, ENOUGH, known(), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.report is not None
    assert command.report["input"] == {
        "dataURL": "/srv/out/data/train/1/data.txt",
        "outputDir": "/srv/out/train/1",
    }


def failed(number: int = 2) -> tuple[object, State]:
    lent = State(train=(samples(1, "2"),), lent=Lent(1, (samples(4, "1"),)), train_asked=1)
    waiting = job(condition("Train", "Failed"), condition("Train", "Waiting", number))
    return next_command(waiting, lent, known(), pace=FRESH, now=NOW), lent


def test_samples_of_a_training_that_failed_wait_again() -> None:
    """Sedna's LC has forgotten them."""
    command, lent = failed()
    assert isinstance(command, Advance)
    assert not command.tasks
    assert command.event == Returned(1, NOW.timestamp() + 60)
    assert command.report is None
    after = lent.after(command.event)
    assert [each.name for each in after.train] == ["1", "2"]
    assert (after.lent, after.failures) == (None, 1)


def test_a_training_that_failed_is_tried_again_after_a_while_that_grows() -> None:
    command, lent = failed()
    assert isinstance(command, Advance)
    assert not command.tasks
    after = lent.after(command.event)
    waiting = job(condition("Train", "Waiting", 2))

    def look(state: State, seconds: float) -> object:
        pace = LoopPace(gathered=later(seconds))
        return next_command(waiting, state, known(), pace=pace, now=later(seconds))

    assert isinstance(look(after, 59), Idle)
    assert isinstance(look(after, 60), Advance)
    again = replace(lent, failures=1)
    second = next_command(waiting, again, known(), pace=FRESH, now=NOW)
    assert isinstance(second, Advance)
    assert second.event == Returned(1, NOW.timestamp() + 120)
    many = next_command(waiting, replace(lent, failures=50), known(), pace=FRESH, now=NOW)
    assert isinstance(many, Advance)
    assert many.event == Returned(1, NOW.timestamp() + LONGEST_BACKOFF)


def test_samples_of_a_training_that_succeeded_do_not_come_back() -> None:
    done = condition("Train", "Completed", 1, data=output())
    lost = condition("Eval", "Failed", 1)
    waiting = job(done, lost, condition("Train", "Waiting", 2))
    lent = State(train=(samples(4, "2"),), lent=Lent(1, (samples(4, "1"),)), train_asked=1)
    command = next_command(waiting, lent, known(), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.event == TrainBegun(2, (samples(4, "2"),), ())


def test_only_the_dataset_s_node_trains() -> None:
    """GM sends a job to all of its nodes."""
    command = next_command(job(WAITING), ENOUGH, known(None), pace=FRESH, now=NOW)
    assert command == Idle("Train of round 1 is begun on another node")


def test_segments_that_are_gone_are_forgotten() -> None:
    state = State(train=(samples(4, "1"),), fresh=(Segment("2", 1, 10),))
    assert state.after(SegmentsLost(frozenset({"1"}))).segments == (Segment("2", 1, 10),)


def test_a_model_of_another_format_is_asked_for_by_device_too() -> None:
    base = Model("om", "/srv/m/base.om", ("310",))
    state = replace(
        ENOUGH,
        trained=StageOutcome(
            1,
            (
                {"format": "om", "url": "/710.om", "device_soc_versions": ["710"]},
                {"format": "om", "url": "/310.om", "device_soc_versions": ["310"]},
            ),
        ),
    )
    waiting = job(condition("Train", "Waiting", 2))
    command = next_command(waiting, state, known(base=base), pace=FRESH, now=NOW)
    assert isinstance(command, Advance)
    assert command.report is not None
    assert command.report["input"]["models"][0]["url"] == "/310.om"  # type: ignore[index]


def lost() -> tuple[State, JobInputs, LoopPace]:
    """GM was told of round 1, took it, and waits for it nevertheless."""
    state = ENOUGH.after(TrainBegun(1, (samples(4),), ())).saying("Train", 1, b"{}")
    return state, replace(known(), is_acked=True), LoopPace(gathered=NOW, told=NOW)


def repeated(state: State, there: JobInputs, pace: LoopPace, *, seconds: float) -> bool:
    now = later(seconds)
    command = next_command(job(WAITING), state, there, pace=replace(pace, gathered=now), now=now)
    return command == Repeat(b"{}")


def test_what_gm_lost_is_told_again_ever_more_seldom() -> None:
    """A NodeReport that somebody deleted, or etcd restored: else both would wait for ever."""
    state, there, pace = lost()
    assert not repeated(state, there, pace, seconds=299)
    assert repeated(state, there, pace, seconds=300)
    once = replace(pace, repeats=1)
    assert not repeated(state, there, once, seconds=599)
    assert repeated(state, there, once, seconds=600)
    assert repeated(state, there, replace(pace, repeats=40), seconds=3600)


def test_what_waits_for_gm_still_is_not_told_twice() -> None:
    state, there, pace = lost()
    assert not repeated(state, replace(there, is_acked=False), pace, seconds=9000)
    assert not repeated(replace(state, said=None), there, pace, seconds=9000)
    other = state.saying("Eval", 1, b"{}")
    assert not repeated(other, there, pace, seconds=9000)
