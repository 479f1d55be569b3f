"""The last terms of a Lease: what each write says of them, and that nothing depends on them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sidecars.runtime.formats import rfc3339
from elector_sidecar.core.election import Command, Election
from elector_sidecar.core.handover import HandoverCause, Intent
from elector_sidecar.core.history import (
    BLANKED,
    EXPIRED,
    HISTORY_ANNOTATION,
    MAX_HOLDER,
    MAX_TERMS,
    MAX_TEXT,
    RELEASED,
    RESUMED,
    TAKEN,
    TermRecord,
    encode,
    parse,
)
from elector_sidecar.core.lease import (
    ANSWERS_AT_ANNOTATION,
    HOLDER_ANNOTATION,
    Lease,
    micro_time,
    parse_lease,
)
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.timing import Timing
from tests.examples import examples
from tests.unit.elector.core.records import WALL

ME, OTHER, FOREIGN = "pod-1_a", "pod-2_b", "client-go_c"
L = Timing().lease_duration


def at(seconds: float) -> str:
    return rfc3339.stamp_of(WALL + seconds, "seconds")


def lease(
    version: int,
    holder: str = "",
    *,
    renewed: float = 0.0,
    acquired: float = 0.0,
    history: str | None = None,
    duration: int | None = None,
    more: Mapping[str, str] | None = None,
) -> Lease:
    annotations = dict(more or {})
    if holder and holder != FOREIGN:
        annotations[HOLDER_ANNOTATION] = holder
    if history is not None:
        annotations[HISTORY_ANNOTATION] = history
    return parse_lease(
        {
            "metadata": {
                "name": "controller",
                "namespace": "default",
                "uid": "uid-1",
                "resourceVersion": str(version),
                "annotations": annotations,
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration or (15 if holder else 1),
                "acquireTime": micro_time(WALL + acquired),
                "renewTime": micro_time(WALL + renewed),
                "leaseTransitions": 1,
            },
        }
    )


class Driven:
    """One candidate, which has read `first` at 0 and watches it."""

    def __init__(
        self, first: Lease, *, keeps: bool = True, answers_at: AnswersAt | None = None
    ) -> None:
        candidate = Candidate(
            ME, "default", "controller", Timing(), answers_at=answers_at, keeps_history=keeps
        )
        self.core = Election(candidate, now=0.0)
        [read] = self.core.advance(0.0, wall=WALL, chance=0.0)
        self.core.read_answered(read.id, 0.0, first)
        self.said: list[Command] = []
        self.watch = 0
        self.version = first.resource_version
        self.advance(0.0)

    def advance(self, now: float) -> list[WriteLease]:
        commands = self.core.advance(now, wall=WALL + now, chance=0.0)
        self.said += commands
        self.watch = next((it.id for it in commands if isinstance(it, WatchLease)), self.watch)
        return [it for it in commands if isinstance(it, WriteLease)]

    def sees(self, now: float, found: Lease) -> None:
        self.version = found.resource_version
        self.core.event_arrived(self.watch, now, found)

    def write(self, now: float, *, until: float) -> WriteLease:
        """The next one, without a further event."""
        while not (found := self.advance(now)):
            now = max(self.core.wake_at(now), now)
            assert now <= until, "nothing is written"
        return found[0]

    def applies(self, write: WriteLease, now: float) -> Lease:
        self.version += 1
        metadata = {**write.body["metadata"], "resourceVersion": str(self.version), "uid": "uid-1"}
        stored = parse_lease({"metadata": metadata, "spec": write.body["spec"]})
        self.core.write_answered(write.id, now, stored)
        return stored


def said(write: WriteLease) -> list[dict[str, Any]]:
    text = write.body["metadata"]["annotations"][HISTORY_ANNOTATION]
    found: list[dict[str, Any]] = json.loads(text)
    return found


def leader(first: Lease | None = None) -> tuple[Driven, Lease]:
    it = Driven(first or lease(1))
    [write] = [found for found in it.said if isinstance(found, WriteLease)]
    return it, it.applies(write, 0.0)


PAST = TermRecord("pod-0_z", at(-90), at(-60), RELEASED)


def test_the_write_that_acquires_begins_a_term() -> None:
    it, stored = leader(lease(1, history=encode([PAST])))
    assert parse(stored.annotation(HISTORY_ANNOTATION)) == (PAST, TermRecord(ME, at(0)))
    assert it.core.history == (PAST, TermRecord(ME, at(0)))


def test_a_renewal_says_the_same() -> None:
    it, stored = leader()
    renewal = it.write(2.0, until=3.0)
    assert said(renewal) == json.loads(stored.annotation(HISTORY_ANNOTATION) or "")


def test_the_release_ends_the_term_and_says_why() -> None:
    it, stored = leader()
    it.core.note_cause(HandoverCause.RESIGNATION.value)
    it.core.set_intent(5.0, Intent.RELEASE)
    commands = it.core.advance(5.0, wall=WALL + 5, chance=0.0)
    [read] = [found for found in commands if isinstance(found, ReadLease)]
    it.core.read_answered(read.id, 5.0, stored)
    release = it.write(5.0, until=6.0)
    assert said(release) == [
        {"holder": ME, "from": at(0), "to": at(5), "why": HandoverCause.RESIGNATION.value}
    ]


def test_who_takes_an_expired_lease_ends_the_term_before_at_its_last_proof() -> None:
    open_term = encode([TermRecord(OTHER, at(-40))])
    it = Driven(lease(1, OTHER, acquired=-40, renewed=-1, history=open_term))
    takeover = it.write(0.0, until=L + 1)
    [before, now] = said(takeover)
    assert before == {"holder": OTHER, "from": at(-40), "to": at(-1 + L), "why": EXPIRED}
    assert now == {"holder": ME, "from": at(takeover.sent_at)}


def test_terms_of_client_go_are_recorded_as_seen() -> None:
    ours = encode([TermRecord(OTHER, at(-40))])
    it = Driven(lease(1, OTHER, acquired=-40, renewed=-1, history=ours))
    # client-go keeps annotations, and takes the Lease as the holder is late.
    it.sees(16.0, lease(2, FOREIGN, acquired=16, renewed=16, history=ours))
    it.sees(18.0, lease(3, FOREIGN, acquired=16, renewed=18, history=ours))
    it.sees(19.0, lease(4, renewed=19, acquired=19, history=ours))
    takeover = it.write(19.0, until=60.0)
    assert said(takeover)[:2] == [
        {"holder": OTHER, "from": at(-40), "to": at(-1 + L), "why": EXPIRED},
        {"holder": FOREIGN, "from": at(16), "to": at(19), "why": RELEASED, "seen": True},
    ]
    assert said(takeover)[2]["holder"] == ME


def test_a_lead_that_is_taken_by_an_edit_says_so() -> None:
    it, stored = leader()
    history = stored.annotation(HISTORY_ANNOTATION)
    it.sees(3.0, lease(3, FOREIGN, acquired=3, renewed=3, history=history))
    assert it.core.history == (
        TermRecord(ME, at(0), at(3), TAKEN),
        TermRecord(FOREIGN, at(3), is_seen=True),
    )


def test_a_leader_that_writes_itself_back_goes_on_with_its_term() -> None:
    it, stored = leader()
    history = stored.annotation(HISTORY_ANNOTATION)
    marked = {HOLDER_ANNOTATION: ME}
    it.sees(1.0, lease(3, duration=15, history=history, more=marked))
    assert it.core.history == (TermRecord(ME, at(0), at(1), BLANKED),)
    assert said(it.write(1.0, until=2.0)) == [{"holder": ME, "from": at(0)}]


def test_a_process_that_resumes_says_that_the_one_before_had_ended() -> None:
    here = AnswersAt("uid-of-pod", "127.0.0.1:4040", "boot-1")
    before = encode([TermRecord(OTHER, at(-40))])
    where = {ANSWERS_AT_ANNOTATION: here.annotation(OTHER, -1.0)}
    found = lease(1, OTHER, acquired=-40, renewed=-1, history=before, more=where)
    it = Driven(found, answers_at=here)
    [takeover] = [each for each in it.said if isinstance(each, WriteLease)]
    assert said(takeover)[0]["why"] == RESUMED


@pytest.mark.parametrize(
    "garbled",
    [
        None,
        "",
        "x" * 1_000_000,
        "[" * MAX_TEXT,
        "7",
        "{}",
        "[7]",
        "[{}]",
        '[{"holder":"a"}]',
        '[{"holder":7,"from":"2026-11-28T21:00:00Z"}]',
        '[{"holder":"a","from":"yesterday"}]',
        '[{"holder":"a","from":"2026-11-28T21:00:00Z","why":7}]',
        '[{"holder":"a","from":"2026-11-28T21:00:00Z","to":7}]',
    ],
    ids=lambda it: str(it)[:30],
)
def test_what_is_no_history_is_replaced_by_what_the_leader_knows(garbled: str | None) -> None:
    assert parse(garbled) == ()
    it, stored = leader(lease(1, history=encode([PAST])))
    assert stored.annotation(HISTORY_ANNOTATION)
    it.sees(1.0, lease(3, ME, renewed=0.0, history=garbled))
    renewal = it.write(1.0, until=3.0)
    assert said(renewal) == [PAST.document(), {"holder": ME, "from": at(0)}]


def test_a_history_is_short_whatever_the_names() -> None:
    long = TermRecord("ö" * MAX_HOLDER, at(0), at(1), "w" * 50)
    terms = [replace(long, began=at(n)) for n in range(MAX_TERMS + 5)]
    text = encode(terms)
    assert len(text.encode()) <= MAX_TEXT
    assert parse(text)[-1] == terms[-1], "the newest stays"
    names = [f"shop-7d4f9b-x2k9{n}_{'8' * 36}" for n in range(MAX_TERMS + 2)]
    usual = [TermRecord(name, at(0), at(1), RELEASED) for name in names]
    assert parse(encode(usual)) == tuple(usual[-MAX_TERMS:])


HOLDERS = st.sampled_from(["", ME, OTHER, FOREIGN, "ö" * 1000])
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=40),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda it: st.lists(it) | st.dictionaries(st.sampled_from(["holder", "from", "to"]), it),
        max_leaves=6,
    ).map(json.dumps),
    st.just(encode([PAST, TermRecord(OTHER, at(-9))])),
)


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 20.0), HOLDERS, TEXTS, st.sampled_from(["", "9999-12-31T23:59:59-12:00"])
        ),
        max_size=6,
    )
)
@settings(max_examples=examples(300), deadline=None)
def test_no_command_depends_on_the_history(
    edits: list[tuple[float, str, str | None, str]],
) -> None:
    """The same edits with a history and without one: all that differs is the annotation."""
    with_history, without = Driven(lease(1)), Driven(lease(1), keeps=False)
    now = 0.0
    for version, (passed, holder, text, acquired) in enumerate(edits, 2):
        now += passed
        edited = lease(version, holder, renewed=now, acquired=now, history=text)
        if acquired:
            spec = edited.raw["spec"] | {"acquireTime": acquired}
            edited = parse_lease({**edited.raw, "spec": spec})
        for it in (with_history, without):
            it.sees(now, edited)
            it.advance(now)
            it.advance(now + 0.05)
    assert [_bare(it) for it in with_history.said] == [_bare(it) for it in without.said]
    for command in with_history.said:
        if isinstance(command, WriteLease):
            text = command.body["metadata"]["annotations"][HISTORY_ANNOTATION]
            assert len(text) <= MAX_TEXT


def _bare(command: Command) -> Command:
    if not isinstance(command, WriteLease):
        return command
    metadata = dict(command.body["metadata"])
    metadata["annotations"] = {**metadata["annotations"]}
    metadata["annotations"].pop(HISTORY_ANNOTATION, None)
    return replace(command, body={**command.body, "metadata": metadata})
