"""Dataset and Model: records that jobs refer to.

LC counts the samples of a Dataset; a federated job writes the metrics of its Model.
"""

from collections.abc import Iterator

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import Merge, Problem, Rule, SednaKind
from gm.core.tree import text

# What LC can count: lines, and lines below a header.
FORMATS = ("txt", "csv")


def _check(object_: Json) -> Iterator[Problem]:
    format_ = text(object_, "spec", "format")
    if format_.lower() not in FORMATS:
        yield Problem("spec.format", f"{format_!r:.40} cannot be counted", "use txt or csv")
    if not text(object_, "spec", "nodeName"):
        yield Problem("spec.nodeName", "is empty", "name the node whose LC is to count it")


DATASET = SednaKind(resource=kinds.DATASET, rule=Rule.RECORD, merge=Merge.SAMPLES, check=_check)
MODEL = SednaKind(resource=kinds.MODEL, rule=Rule.RECORD)
