"""What the demo's table shows of the jobs, whatever conditions they have."""

from typing import Any, cast

import pytest

from tools.demo.sedna.jobs import Jobs
from tools.harness.pods.observers.api_observer import ApiObserver


class Observer:
    """`conditions` of the incremental job; None: there is no job."""

    def __init__(self, conditions: list[dict[str, Any]] | None) -> None:
        self._conditions = conditions

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        if kind != "incrementallearningjob" or self._conditions is None:
            return None
        return {"metadata": {"uid": "u1"}, "status": {"conditions": self._conditions}}

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        (None, ""),
        ([], ""),
        ([{"stage": "Train", "type": "Running", "round": 2}], "Train Running"),
        ([{"stage": "Train", "type": "Ready"}, {"type": "Failed"}], "Failed"),
    ],
)
def test_a_job_is_shown_also_where_its_last_condition_is_of_no_stage(
    conditions: list[dict[str, Any]] | None, shown: str
) -> None:
    assert Jobs(cast(ApiObserver, Observer(conditions))).incremental().stage == shown
