"""What is answered from what is kept, and what goes upstream as it is."""

import pytest
from multidict import CIMultiDict

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from relay_sidecar.web.api import LONGEST_SELECTORS, is_kept

LABELS, FIELDS = "labelSelector=", "fieldSelector="


@pytest.mark.parametrize("verb", ["", "watch=true&"])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (LABELS + "a" * LONGEST_SELECTORS, True),
        (FIELDS + "a" * (LONGEST_SELECTORS + 1), False),
        (LABELS + "a" * LONGEST_SELECTORS + "&" + FIELDS + "a", False),
        # As long as they are sent, whatever of it counts.
        ("&".join([LABELS + "a" * LONGEST_SELECTORS] * 2), False),
    ],
    ids=["longest", "longer", "both", "twice"],
)
def test_long_selectors_are_evaluated_upstream(verb: str, query: str, wanted: bool) -> None:
    info = RequestInfo.parse("GET", f"/api/v1/pods?{verb}{query}")
    assert is_kept(info, CIMultiDict()) is wanted
