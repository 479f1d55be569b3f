"""Metrics as a table of texts, and their values."""

from collections.abc import Iterable

import pytest

from edge_sidecars.runtime.metrics import Histogram, Labels, histogram, measured, render

Values = dict[str, float | Iterable[tuple[str | Labels, float]]]
TEXTS = {
    "gm_leader": "1 if this GM leads.",
    "gm_objects{kind}": "By kind.",
    "gm_writes_total{verb,outcome}": "By verb and outcome.",
    "gm_shards": "With shards.",
}


def test_each_text_has_its_value_or_one_for_each_value_of_its_labels() -> None:
    values: Values = {
        "gm_leader": True,
        "gm_objects": [("Job", 2), ("Model", 1)],
        "gm_writes_total": [(("patch", "ok"), 3)],
        "gm_shards": [],
    }
    lines = render(measured(TEXTS, values)).splitlines()
    assert [it for it in lines if it.startswith(("# TYPE", "gm_"))] == [
        "# TYPE gm_leader gauge",
        "gm_leader 1",
        "# TYPE gm_objects gauge",
        'gm_objects{kind="Job"} 2',
        'gm_objects{kind="Model"} 1',
        "# TYPE gm_writes_total counter",
        'gm_writes_total{verb="patch",outcome="ok"} 3',
        "# TYPE gm_shards gauge",
    ]


def test_neither_a_value_nor_a_label_may_be_missing() -> None:
    with pytest.raises(KeyError):
        measured(TEXTS, {})
    with pytest.raises(ValueError, match="zip"):
        measured({"gm_x{a,b}": ""}, {"gm_x": [("one", 1)]})


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    waits = Histogram((0.5, 1.0))
    for seconds in (0.2, 0.5, 0.7, 9.0):
        waits.observe(seconds)
    waits.observe(0.25, times=2)
    found = histogram("relay_wait_seconds", "Waits.", [({"verb": "get"}, waits)])
    assert render([found]).splitlines() == [
        "# HELP relay_wait_seconds Waits.",
        "# TYPE relay_wait_seconds histogram",
        'relay_wait_seconds_bucket{verb="get",le="0.5"} 4',
        'relay_wait_seconds_bucket{verb="get",le="1"} 5',
        'relay_wait_seconds_bucket{verb="get",le="+Inf"} 6',
        'relay_wait_seconds_sum{verb="get"} 10.9',
        'relay_wait_seconds_count{verb="get"} 6',
    ]
    assert {name for name, _, _ in found.series()} == set(found.names)
