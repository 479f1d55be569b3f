"""All kinds that GM operates, by the lower-case singular of their name; each is one row.

Dataset and Model are mere records that jobs refer to: LC counts the samples of a Dataset; a
federated job writes the metrics of its Model.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import Merge, Problem, Rule, SednaKind
from gm.core.kinds.jobs import FEDERATED_LEARNING, REID, VIDEO_ANALYTICS
from gm.core.kinds.learning import INCREMENTAL_LEARNING, LIFELONG_LEARNING
from gm.core.kinds.services import (
    FEATURE_EXTRACTION,
    JOINT_INFERENCE,
    OBJECT_SEARCH,
    OBJECT_TRACKING,
)
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

_ROWS = (
    DATASET,
    MODEL,
    JOINT_INFERENCE,
    FEDERATED_LEARNING,
    INCREMENTAL_LEARNING,
    LIFELONG_LEARNING,
    FEATURE_EXTRACTION,
    VIDEO_ANALYTICS,
    REID,
    OBJECT_SEARCH,
    OBJECT_TRACKING,
)

KINDS: Mapping[str, SednaKind] = MappingProxyType({row.resource.singular: row for row in _ROWS})
