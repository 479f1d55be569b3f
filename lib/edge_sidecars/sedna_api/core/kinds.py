"""The kinds of API group sedna.io: their names, where the API serves them, and the nodes' labels.

Owns the words: Kubernetes' plural and short names, the lower-case singular that Sedna's LCs and
workers say on the wire, and the label of each node, which is a legal key for any text. Knows
nothing of what an object of a kind contains.
Source: Sedna's CRDs (build/crds), manifests/crds here.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

GROUP: Final = "sedna.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """`kind` as in manifests, `plural` as in paths; all are namespaced. `prefix`: the path of the
    API group and version."""

    kind: str
    plural: str
    short: str = ""
    prefix: str = f"/apis/{API_VERSION}"

    @property
    def singular(self) -> str:
        """What Sedna's messages and workers say: the kind in lower case."""
        return self.kind.lower()

    def collection(self, namespace: str = "") -> str:
        """The path of all objects in a namespace; of all namespaces without one."""
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.prefix}{within}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """The path of one object."""
        return f"{self.collection(namespace)}/{name}"


DATASET: Final = ResourceKind("Dataset", "datasets")
MODEL: Final = ResourceKind("Model", "models")
JOINT_INFERENCE_SERVICE: Final = ResourceKind(
    "JointInferenceService", "jointinferenceservices", "ji"
)
FEDERATED_LEARNING_JOB: Final = ResourceKind("FederatedLearningJob", "federatedlearningjobs", "fl")
INCREMENTAL_LEARNING_JOB: Final = ResourceKind(
    "IncrementalLearningJob", "incrementallearningjobs", "il"
)
LIFELONG_LEARNING_JOB: Final = ResourceKind("LifelongLearningJob", "lifelonglearningjobs", "ll")
FEATURE_EXTRACTION_SERVICE: Final = ResourceKind(
    "FeatureExtractionService", "featureextractionservices", "fe"
)
VIDEO_ANALYTICS_JOB: Final = ResourceKind("VideoAnalyticsJob", "videoanalyticsjobs", "va")
REID_JOB: Final = ResourceKind("ReidJob", "reidjobs", "reid")
OBJECT_SEARCH_SERVICE: Final = ResourceKind("ObjectSearchService", "objectsearchservices", "objs")
OBJECT_TRACKING_SERVICE: Final = ResourceKind(
    "ObjectTrackingService", "objecttrackingservices", "objt"
)
NODE_REPORT: Final = ResourceKind("NodeReport", "nodereports", "nrep")

# Those that Sedna has; a NodeReport is between GM and LC.
KINDS: Final = (
    DATASET,
    MODEL,
    JOINT_INFERENCE_SERVICE,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    LIFELONG_LEARNING_JOB,
    FEATURE_EXTRACTION_SERVICE,
    VIDEO_ANALYTICS_JOB,
    REID_JOB,
    OBJECT_SEARCH_SERVICE,
    OBJECT_TRACKING_SERVICE,
)


def _names() -> Iterator[tuple[str, ResourceKind]]:
    for kind in (*KINDS, NODE_REPORT):
        for name in (kind.singular, kind.plural, kind.short):
            if name:
                yield name, kind


_BY_NAME: Final = dict(_names())


def kind_named(text: str) -> ResourceKind | None:
    """By kind, plural or short name, in any case."""
    return _BY_NAME.get(text.lower())


def kind_of(singular: str) -> ResourceKind:
    """Of an object of ours, whose kind is known: by its lower-case singular."""
    return _BY_NAME[singular]


_NODE: Final = "node."
# k8s.io/apimachinery/pkg/util/validation: qualifiedNameMaxLength, and what a name may consist of.
_LONGEST: Final = 63
_LEGAL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", re.ASCII)
_ILLEGAL: Final = re.compile(r"[^-A-Za-z0-9.]", re.ASCII)
# Hexadecimal digits: 80 bits, so that no two names have one hash by chance.
_DIGITS: Final = 20


def node_label(node: str) -> str:
    """The label of an object for each node that it concerns.

    `sedna.io/node.<node>`, or the beginning of the name and a hash where that is no label. Two
    nodes never share one: what is hashed has an underscore, which no node's name has (RFC 1123
    subdomain).
    """
    name = _NODE + node
    if len(name) <= _LONGEST and _LEGAL.fullmatch(node):
        return f"{GROUP}/{name}"
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGITS]
    head = _ILLEGAL.sub("-", name)[: _LONGEST - _DIGITS - 1]
    return f"{GROUP}/{head}_{digest}"
