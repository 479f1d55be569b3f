"""All kinds that GM operates, by the lower-case singular of their name."""

from collections.abc import Mapping
from types import MappingProxyType

from gm.core.kind import SednaKind
from gm.core.kinds.federated_learning import FEDERATED_LEARNING
from gm.core.kinds.incremental_learning import INCREMENTAL_LEARNING
from gm.core.kinds.joint_inference import JOINT_INFERENCE
from gm.core.kinds.lifelong_learning import LIFELONG_LEARNING
from gm.core.kinds.records import DATASET, MODEL
from gm.core.kinds.tracking import OBJECT_SEARCH, OBJECT_TRACKING
from gm.core.kinds.video import FEATURE_EXTRACTION, REID, VIDEO_ANALYTICS

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
