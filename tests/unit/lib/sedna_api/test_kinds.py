"""The kinds: their names and paths."""

import pytest

from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    INCREMENTAL_LEARNING_JOB,
    KINDS,
    NODE_REPORT,
    kind_named,
)


def test_there_are_sednas_eleven_kinds_and_a_node_report_is_none_of_them() -> None:
    assert len({kind.plural for kind in KINDS}) == 11
    assert NODE_REPORT not in KINDS


def test_paths_are_those_of_the_api() -> None:
    assert DATASET.collection() == "/apis/sedna.io/v1alpha1/datasets"
    assert DATASET.collection("shop") == "/apis/sedna.io/v1alpha1/namespaces/shop/datasets"
    assert DATASET.path("shop", "d1") == f"{DATASET.collection('shop')}/d1"


@pytest.mark.parametrize(
    "text",
    [
        "IncrementalLearningJob",
        "incrementallearningjob",
        "incrementallearningjobs",
        "INCREMENTALLEARNINGJOBS",
        "il",
    ],
)
def test_a_kind_is_found_by_any_of_its_names_in_any_case(text: str) -> None:
    assert kind_named(text) is INCREMENTAL_LEARNING_JOB
    assert INCREMENTAL_LEARNING_JOB.singular == "incrementallearningjob"


def test_what_is_no_kind_is_not_found() -> None:
    assert kind_named("pod") is None
    assert kind_named("") is None
