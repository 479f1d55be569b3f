"""Whatever is in a field of an object of any kind, or in a report about it, GM has a plan."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import Document
from gm.core.kind import DEFAULT_LC_SERVER, WorkerSettings
from tests.examples import examples
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import EVERY_JOB, dataset, model
from tests.unit.gm.controller.test_staged_rule import done, ready
from tests.unit.lc.test_drawn_objects import VALUES, as_it_comes, places, with_value

SETTINGS = WorkerSettings(DEFAULT_LC_SERVER, has_capabilities=True, fresh_key="ab" * 16)
SAMPLES = [make() for make in (*EVERY_JOB, dataset, model)]
REPORTS = [ready("Train", 1), done("Train", 1), {"numberOfSamples": 3}, {"problem": "none"}]


@st.composite
def changed(draw: st.DrawFn, of: list[Any], *, within: str) -> Any:
    tree = copy.deepcopy(draw(st.sampled_from(of)))
    inner = [it for it in places(tree) if not within or (it[0] == within and len(it) > 1)]
    return with_value(tree, draw(st.sampled_from(inner)), draw(VALUES))


@pytest.mark.slow
@settings(max_examples=examples(3_000), deadline=None)
@given(changed(SAMPLES, within="spec"), st.lists(changed(REPORTS, within=""), max_size=2))
def test_each_object_has_a_plan(subject: Any, reports: list[Any]) -> None:
    kind = subject["kind"].lower()
    found: Document | None = as_it_comes(subject, kind)
    if found is None:
        return
    cluster = Cluster(found.json(), settings=SETTINGS)
    for body in reports:
        try:
            json.dumps(body).encode()
        except ValueError:
            continue
        if isinstance(body, dict):
            cluster.report(body)
    plan = cluster.decide()
    for condition in (plan.status or {}).get("conditions", ()):
        assert condition["type"]
