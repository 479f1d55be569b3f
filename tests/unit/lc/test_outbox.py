"""Reports of one object are numbered once and for good, and say what they say once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.report import Report
from lc.core.outbox import (
    MAX_WORKERS,
    Queue,
    acknowledged,
    enqueue,
    in_line,
    refused,
    restamped,
)

STORE = "store-1"
NOTHING = Queue("uid-1")


def said(body: str, *, worker: str = "w", is_event: bool = False) -> Report:
    return Report("", 0, "uid-1", "dataset", "shop", "d1", is_event, worker, body.encode())


def after(queue: Queue, *words: Report) -> Queue:
    for each in words:
        queue = enqueue(queue, each, store_id=STORE, now=0.0).queue
    return queue


def numbers(queue: Queue) -> list[int]:
    return [report.seq for report in in_line(queue)]


def test_each_report_has_the_next_number() -> None:
    queue = after(NOTHING, said('{"a":1}', is_event=True), said('{"a":2}', is_event=True))
    assert numbers(queue) == [1, 2]


def test_the_same_words_again_are_the_same_report() -> None:
    queue = after(NOTHING, said('{"n":5}'))
    again = enqueue(queue, said('{"n":5}'), store_id=STORE, now=1.0)
    assert not again.is_new
    assert again.queue is queue
    assert again.report == next(in_line(queue))


def test_the_same_words_again_keep_their_number_after_the_acknowledgement() -> None:
    queue, done = acknowledged(after(NOTHING, said('{"n":5}', is_event=True)), 1)
    assert [each.report.seq for each in done] == [1]
    again = enqueue(queue, said('{"n":5}', is_event=True), store_id=STORE, now=1.0)
    assert again.report.seq == 1
    assert numbers(again.queue) == []


def test_what_is_repeated_on_purpose_is_news_once_it_waits_no_more() -> None:
    queue = after(NOTHING, said("{}", is_event=True))
    waits = enqueue(queue, said("{}", is_event=True), store_id=STORE, now=0.0, is_repeated=True)
    assert not waits.is_new
    queue, _ = acknowledged(queue, 1)
    taken = enqueue(queue, said("{}", is_event=True), store_id=STORE, now=0.0, is_repeated=True)
    assert taken.is_new
    assert numbers(taken.queue) == [2]


def test_words_that_were_said_before_the_last_ones_are_news() -> None:
    queue = after(NOTHING, said('{"n":5}'), said('{"n":6}'), said('{"n":5}'))
    assert numbers(queue) == [3]


def test_an_event_and_a_state_of_the_same_words_are_two() -> None:
    assert numbers(after(NOTHING, said("{}"), said("{}", is_event=True))) == [1, 2]


def test_a_newer_state_takes_the_place_of_an_older_one_with_a_new_number() -> None:
    queue = after(NOTHING, said('{"n":1}', worker="a"), said('{"n":1}', worker="b"))
    queue = after(queue, said('{"n":2}', worker="a"))
    assert [(it.seq, it.previous) for it in in_line(queue)] == [(2, 0), (3, 2)]


def test_states_of_another_phase_stand_beside_each_other() -> None:
    train, evaluate = said('{"phase":"Train","n":1}'), said('{"phase":"eval","n":1}')
    queue = after(NOTHING, train, evaluate, said('{"phase":"train","n":2}'))
    assert numbers(queue) == [2, 3]


def test_no_state_is_replaced_across_an_event() -> None:
    queue = after(NOTHING, said('{"n":1}'), said("{}", is_event=True), said('{"n":2}'))
    assert [(it.seq, it.previous) for it in in_line(queue)] == [(1, 0), (2, 1), (3, 2)]


def test_an_acknowledgement_covers_what_came_before() -> None:
    queue = after(NOTHING, *(said(f'{{"n":{n}}}', is_event=True) for n in range(5)))
    assert numbers(acknowledged(queue, 3)[0]) == [4, 5]


def test_a_refusal_takes_out_one_report_alone() -> None:
    queue = after(NOTHING, *(said(f'{{"n":{n}}}', is_event=True) for n in range(3)))
    left, done = refused(queue, 2)
    assert numbers(left) == [1, 3]
    assert len(done) == 1
    assert refused(left, 2) == (left, ())


def test_another_store_id_changes_no_number() -> None:
    queue = restamped(after(NOTHING, said("{}", is_event=True)), "store-2")
    assert [(it.store_id, it.seq) for it in in_line(queue)] == [("store-2", 1)]


def test_only_so_many_workers_are_remembered() -> None:
    queue = after(NOTHING, *(said("{}", worker=f"w{n}") for n in range(MAX_WORKERS)))
    done = enqueue(queue, said("{}", worker="one-more"), store_id=STORE, now=0.0)
    assert done.forgotten == ("w0",)
    assert len(done.queue.heard) == MAX_WORKERS


WORDS = st.builds(
    said,
    st.sampled_from(('{"phase":"a","n":1}', '{"phase":"a","n":2}', '{"phase":"b"}')),
    worker=st.sampled_from(("v", "w")),
    is_event=st.booleans(),
)


@given(st.lists(st.one_of(WORDS, st.integers(0, 30)), max_size=40))
def test_numbers_only_grow_and_nothing_that_waits_is_lost(steps: list[Report | int]) -> None:
    queue, acked = NOTHING, 0
    for step in steps:
        if isinstance(step, int):
            acked = max(acked, min(step, queue.last))
            queue, _ = acknowledged(queue, step)
            continue
        done = enqueue(queue, step, store_id=STORE, now=0.0)
        assert done.is_new == (done.report.seq > queue.last)
        assert done.queue.last == queue.last + done.is_new
        queue = done.queue
        # Said last by somebody: it waits, or it is safe.
        assert done.report.seq <= acked or replace(done.report, previous=0) in [
            replace(each, previous=0) for each in in_line(queue)
        ]
    line = list(in_line(queue))
    assert [it.seq for it in line] == sorted({it.seq for it in line})
    assert [it.previous for it in line] == [0, *(it.seq for it in line)][: len(line)]
