"""Node labels are legal label keys, and each node has its own."""

import re

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.kinds import node_label

# k8s.io/apimachinery/pkg/util/validation: qualifiedNameFmt.
LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
NODES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?", fullmatch=True)


def test_a_node_stands_in_its_label_by_name() -> None:
    assert node_label("edge-a") == "sedna.io/node.edge-a"
    assert node_label("a" * 58) == "sedna.io/node." + "a" * 58


def test_a_name_that_does_not_fit_is_hashed_and_its_beginning_stays() -> None:
    label = node_label("a" * 59)

    assert label.startswith("sedna.io/node.aaaaaaaa")
    assert label != node_label("a" * 60)


@given(NODES)
def test_the_label_of_a_node_is_legal(node: str) -> None:
    prefix, _, name = node_label(node).partition("/")

    assert prefix == "sedna.io"
    assert LABEL_NAME.fullmatch(name)
    assert len(name) <= 63


@given(st.text())
def test_so_is_that_of_what_can_be_no_node(text: str) -> None:
    _, _, name = node_label(text).partition("/")

    assert LABEL_NAME.fullmatch(name)
    assert len(name) <= 63


@given(NODES, NODES)
def test_two_nodes_have_two_labels(one: str, other: str) -> None:
    assert (node_label(one) == node_label(other)) is (one == other)


def test_no_node_can_be_named_as_the_hash_of_another() -> None:
    hashed = node_label("a" * 80).removeprefix("sedna.io/node.")

    assert node_label(hashed) != node_label("a" * 80)
