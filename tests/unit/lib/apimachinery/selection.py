"""What property tests select by: labels, fields and objects from vocabularies so small that
selectors meet objects, and each other, all the time."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item, read_item
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.fields import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
)
from edge_sidecars.apimachinery.selection.labels import LabelSelector, Operator, Requirement

PODS = ResourceName("", "v1", "pods")

KEYS = ("a", "in", "notin", "example.com/b")
# Numbers meet `>` and `<`, words of the grammar have to stay values.
VALUES = ("", "1", "5", "007", "in", "notin", "x-y.z")
NAMESPACES = ("one", "two")
NAMES = ("p", "q")
NODES = ("", "n", "m", r"a,b=c\d")
# Pieces of both grammars, and what breaks them.
PIECES = (*KEYS, *VALUES, *"=!<>(),\\ \t\n\0/-._", "==", "!=", "é", "x" * 64, NAME, "spec.nodeName")

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=20)

label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@st.composite
def _requirements(draw: st.DrawFn) -> Requirement:
    key, operator = draw(st.sampled_from(KEYS)), draw(st.sampled_from(Operator))
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return Requirement(key, operator)
    if operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        return Requirement(key, operator, (draw(st.sampled_from(("0", "1", "5", "7"))),))
    values = draw(st.sets(st.sampled_from(VALUES), min_size=1, max_size=3))
    return Requirement(key, operator, tuple(sorted(values)))


label_selectors = st.lists(_requirements(), max_size=4).map(LabelSelector.of)

_WORDS = {
    NAME: NAMES,
    NAMESPACE: NAMESPACES,
    "spec.nodeName": NODES,
    "spec.hostNetwork": ("true", "false", ""),
}
_field_requirements = st.sampled_from(sorted(_WORDS)).flatmap(
    lambda path: st.builds(
        FieldRequirement, st.just(path), st.booleans(), st.sampled_from(_WORDS[path])
    )
)
field_selectors = st.lists(_field_requirements, max_size=4).map(FieldSelector.of)
field_values = st.fixed_dictionaries(
    {path: st.sampled_from(words) for path, words in _WORDS.items()}
)

scopes = st.builds(
    ListScope, st.just(PODS), st.sampled_from(("", *NAMESPACES)), label_selectors, field_selectors
)


def pod(
    name: str,
    namespace: str,
    *,
    labels: dict[str, str] | None = None,
    node: str = "",
    host_network: bool | None = None,
) -> Item:
    spec = {"nodeName": node or None, "hostNetwork": host_network}
    return read_item(
        json.dumps(
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "resourceVersion": "7",
                    "labels": labels or {},
                },
                "spec": {key: value for key, value in spec.items() if value is not None},
            }
        ).encode()
    )


pods = st.builds(
    pod,
    st.sampled_from(NAMES),
    st.sampled_from(NAMESPACES),
    labels=label_sets,
    node=st.sampled_from(NODES),
    host_network=st.none() | st.booleans(),
)
