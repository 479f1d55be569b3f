"""What is answered from what is kept, and what goes upstream as it is."""

import pytest

from edge_sidecars.apimachinery.request.list_options import LONGEST_SELECTORS, has_long_selectors
from edge_sidecars.apimachinery.request.request_info import ListOptions, RequestInfo
from relay_sidecar.web.api import (
    MAX_REQUIREMENTS,
    has_many_requirements,
)

LABELS, FIELDS = "labelSelector=", "fieldSelector="


@pytest.mark.parametrize("verb", ["", "watch=true&"])
@pytest.mark.parametrize(
    ("query", "is_long"),
    [
        (LABELS + "a" * LONGEST_SELECTORS, False),
        (FIELDS + "a" * (LONGEST_SELECTORS + 1), True),
        (LABELS + "a" * LONGEST_SELECTORS + "&" + FIELDS + "a", True),
        # As long as they are sent, whatever of it counts.
        ("&".join([LABELS + "a" * LONGEST_SELECTORS] * 2), True),
    ],
    ids=["longest", "longer", "both", "twice"],
)
def test_long_selectors_are_told_before_anything_is_made_of_them(
    verb: str, query: str, is_long: bool
) -> None:
    info = RequestInfo.parse("GET", f"/api/v1/pods?{verb}{query}")
    assert has_long_selectors(info.query) is is_long


@pytest.mark.parametrize("count", [MAX_REQUIREMENTS, MAX_REQUIREMENTS + 1])
def test_requirements_count_labels_and_fields(count: int) -> None:
    labels = ",".join(f"a!=b{it}" for it in range(count - 1))
    query = {"labelSelector": (labels,), "fieldSelector": ("metadata.name!=x",)}
    assert has_many_requirements(ListOptions.parse(query)) is (count > MAX_REQUIREMENTS)
