"""Whatever is in a field of an object or of a worker's report, LC says what is wrong."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import Document, NotADocument
from edge_sidecars.sedna_api.core.report import MalformedReport, check_body
from lc.core.learning.commands import Advance, LoopPace, encoded
from lc.core.learning.fields import MalformedJob
from lc.core.learning.job import Dataset, Job, Model, models_in
from lc.core.learning.next_command import next_command
from lc.core.learning.outcome import Heard, hear
from lc.core.learning.state import State
from lc.core.worker_info import UnusableReport, WorkerInfo
from lc.workers.datasets import parse_dataset
from lc.workers.forwarder import FORWARDED, map_report
from lc.workers.sample_counter import CountFailed, checked
from tests.examples import examples
from tests.unit.lc.learning.jobs import NOW, condition, document, known, output

Json = dict[str, Any]
PIECES = [
    *("/", "//", "..", "srv", "out", "a" * 300, "\0", "\n", " ", "%2e", "é", "\u2028", "\uff0e"),
    *("http://", "https://", "s3://", "file://", "host", "[", "]", ":", ":99999", ":0", "@", "?"),
    *("txt", "csv", "CSV", "24:00", "01:00", "nan", "inf", "1e999", "9" * 400, "-1", "[0]", "[9"),
    *(">", "num_of_samples", "precision_delta", "Train", "Completed", "{}", "[1]", '{"input":7}'),
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**300, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(TEXTS, SCALARS, max_size=2)
)
TIMER: Json = {"timer": {"start": "01:00", "end": "24:00"}}
TRIGGER: Json = {
    "checkPeriodSeconds": 60,
    **TIMER,
    "condition": dict[str, object](operator=">", threshold=0),
}
RESULT = {"format": "pb", "url": "/srv/out/train/1/model.pb", "metrics": {"precision": [0.9]}}


def jobs() -> list[Json]:
    """At each stage, of both kinds."""
    trained = condition("Train", "Completed", data=output(RESULT))
    judged = condition("Eval", "Completed", data=output(RESULT, RESULT))
    at = [
        [condition("Train", "Waiting")],
        [trained, condition("Eval", "Waiting")],
        [trained, judged, condition("Deploy", "Waiting")],
    ]
    kinds = ("incrementallearningjob", "lifelonglearningjob")
    train = {**TRIGGER, "condition": {**TRIGGER["condition"], "metric": "num_of_samples"}}
    return [document(*it, kind=kind, train=train) for it in at for kind in kinds]


JOBS = jobs()
DATASET: Json = {"metadata": {"name": "d", "namespace": "shop"}}
DATASET |= {"spec": {"url": "/srv/d.txt", "format": "txt", "nodeName": "n", "credentialName": "k"}}
DATASET |= {"status": {"numberOfSamples": 3}}
MODEL: Json = {"metadata": {"name": "m"}, "spec": {"url": "/srv/m.pb", "format": "pb"}}
MODEL["spec"] |= {"device_soc_versions": ["310"], "credentialName": "k"}
REPORT: Json = {
    "name": "il1-train-1-0",
    "namespace": "shop",
    "ownerName": "il1",
    "ownerKind": "incrementallearningjob",
    "ownerInfo": {"currentRound": 1},
    "kind": "train",
    "status": "completed",
    "results": [RESULT],
}


def places(tree: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each field, and what holds it."""
    if path:
        yield path
    inner = tree.items() if isinstance(tree, dict) else ()
    if isinstance(tree, list):
        inner = enumerate(tree)  # type: ignore[assignment]
    for key, value in inner:
        yield from places(value, (*path, key))


def with_value(tree: Json, path: tuple[Any, ...], value: object) -> Json:
    changed = copy.deepcopy(tree)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


def as_it_comes(tree: Json, kind: str) -> Document | None:
    """None: GM's stream, or the API, refuses it before."""
    try:
        found = Document.parse(json.dumps(tree).encode(), kind)
        found.json()
    except (NotADocument, ValueError, RecursionError):
        return None
    return found


@st.composite
def broken(draw: st.DrawFn, *of: Json) -> Any:
    tree: Any = draw(st.sampled_from(of))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(places(tree))))
        tree = with_value(tree, path, draw(VALUES))
        if not isinstance(tree, dict):
            break
    return tree


@pytest.mark.slow
@settings(max_examples=examples(3_000), deadline=None)
@given(broken(DATASET))
@example({"metadata": {"name": "d"}, "spec": {"url": "http://host:99999/x", "format": "txt"}})
@example({"metadata": {"name": "d"}, "spec": {"url": "http://[::1/x", "format": "CSV"}})
def test_a_dataset_is_counted_or_its_field_is_named(tree: Json) -> None:
    found = as_it_comes(tree, "dataset")
    if found is None:
        return
    spec = parse_dataset(found).spec
    told: list[str] = []
    try:
        checked(spec.url, spec.format)
    except CountFailed as error:
        told.append(str(error))
    assert all("spec." in it for it in told)
    with suppress(MalformedJob):
        Dataset.parse(found.json())


@pytest.mark.slow
@settings(max_examples=examples(3_000), deadline=None)
@given(broken(MODEL))
def test_a_model_is_taken_or_its_field_is_named(tree: Json) -> None:
    found = as_it_comes(tree, "model")
    if found is not None:
        with suppress(MalformedJob):
            Model.of_resource(found.json())


@pytest.mark.slow
@settings(max_examples=examples(3_000), deadline=None)
@given(broken(*JOBS), broken(REPORT))
def test_a_job_goes_on_or_its_field_is_named(tree: Json, report: Json) -> None:
    found = as_it_comes({**tree, "kind": tree.get("kind")}, "incrementallearningjob")
    if found is None:
        return
    try:
        job = Job.parse(str(tree.get("kind")), found.json())
    except MalformedJob:
        return
    command = next_command(job, State(), known(), pace=LoopPace(gathered=NOW), now=NOW)
    if isinstance(command, Advance):
        saved = State().after(command.event).encode()
        State.decode(saved)
        if command.report is not None:
            encoded(command.report)
    hear_it(job, report)


@pytest.mark.slow
@settings(max_examples=examples(3_000), deadline=None)
@given(broken(REPORT))
@example({**REPORT, "name": "il1-train-" + "9" * 200 + "-0"})
@example({**REPORT, "results": [{"url": "/etc/shadow"}]})
def test_a_report_is_heard_or_told_why_not(report: Json) -> None:
    hear_it(Job.parse("incrementallearningjob", JOBS[0]), report)
    with suppress(UnusableReport, MalformedReport):
        WorkerInfo.parse(json.loads(json.dumps(report))).check_names()
    for kind in FORWARDED:
        with suppress(UnusableReport, MalformedReport):
            check_body(map_report(WorkerInfo.parse({**report, "ownerKind": kind})))


def hear_it(job: Job, report: Json) -> None:
    try:
        info = WorkerInfo.parse(report)
        models_in(info.results)
        heard = hear(job, State(), info)
    except (UnusableReport, MalformedJob):
        return
    if isinstance(heard, Heard):
        encoded(heard.report)
        State().after(heard.event).encode()
        told = [it.url for it in models_in(heard.event.results or ())]
        assert all(it.startswith(f"{job.output_dir}/") for it in told)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_a_number_is_finite(value: str) -> None:
    tree = with_value(JOBS[0], ("spec", "trainSpec", "trigger", "checkPeriodSeconds"), value)
    with pytest.raises(MalformedJob, match="not a number"):
        Job.parse("incrementallearningjob", tree)
