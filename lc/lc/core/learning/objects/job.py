"""One learning job as it stands in the API: what it wants, and where GM's conditions say it is.

Owns the reading of an IncrementalLearningJob or LifelongLearningJob; everything else of `learning`
sees only this. GM alone counts rounds: a condition without `round` is of Sedna's GM, and nothing is
begun on it. What cannot be read raises Malformed with the field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from edge_sidecars.sedna_api.core.kinds import LIFELONG_LEARNING_JOB
from lc.core.learning.objects.fields import (
    MalformedJob,
    flag_at,
    list_at,
    mapping_at,
    number_at,
    text_at,
)
from lc.core.learning.objects.stage import Stage
from lc.core.learning.objects.trigger import Trigger

# Where GM says on which node a stage's pod last ran (Sedna's annotations).
_NODE_OF_STAGE = "sedna.io/{}"
# Where the inference worker looks for a new model (Sedna's annotation, and its value by default).
_HOT_UPDATE_CONFIG = "sedna.io/model-hot-update-config"
_HOT_UPDATE_DEFAULT = "/var/lib/sedna/model-hot-update/{}/{}/{}/model_config.json"


@dataclass(frozen=True, slots=True)
class JobCondition:
    """`type` Waiting|Ready|Starting|Running|Completed|Failed; `round` None: not told; `since` as
    GM writes it."""

    stage: Stage
    type: str
    round: int | None
    data: str
    since: str

    @classmethod
    def parse(cls, found: object) -> "JobCondition | None":
        """None: of no stage that we know."""
        if not isinstance(found, Mapping):
            raise MalformedJob("a condition is no object")
        stage = Stage.named(text_at(found, "stage"))
        told = found.get("round")
        if stage is None:
            return None
        number = told if isinstance(told, int) and not isinstance(told, bool) else None
        since = text_at(found, "lastTransitionTime")
        return cls(stage, text_at(found, "type"), number, text_at(found, "data"), since)

    def models(self, direction: str) -> tuple[Mapping[str, object], ...] | None:
        """Of "input" or "output". None: the condition says nothing of it."""
        try:
            data = msgspec.json.decode(self.data) if self.data else None
            if not isinstance(data, dict) or mapping_at(data, direction) is None:
                return None
            return tuple(
                each for each in list_at(data, direction, "models") if isinstance(each, Mapping)
            )
        except (msgspec.DecodeError, MalformedJob):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Names of Dataset and Models are of the job's namespace; "" where the job names none."""

    kind: str
    namespace: str
    name: str
    uid: str
    dataset: str
    train_probability: float
    initial_model: str
    eval_model: str
    deploy_model: str
    is_hot_updated: bool
    train_trigger: Trigger
    deploy_trigger: Trigger
    output_dir: str
    credential: str
    hot_update_config: str
    nodes: Mapping[Stage, str]
    conditions: Sequence[JobCondition]

    @classmethod
    def parse(cls, kind: str, found: Mapping[str, object]) -> "Job":
        """Raises MalformedJob."""
        namespace, name = (
            text_at(found, "metadata", "namespace"),
            text_at(found, "metadata", "name"),
        )
        probability = number_at(found, "spec", "dataset", "trainProb", default=0)
        if not 0 <= probability <= 1:
            raise MalformedJob(f"spec.dataset.trainProb is {probability:g}, not within 0 and 1")
        output_dir = text_at(found, "spec", "outputDir").rstrip("/")
        if not output_dir:
            raise MalformedJob("spec.outputDir is empty")
        hot_update_config = text_at(found, "metadata", "annotations", _HOT_UPDATE_CONFIG)
        conditions = map(JobCondition.parse, list_at(found, "status", "conditions"))
        return cls(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=text_at(found, "metadata", "uid"),
            dataset=text_at(found, "spec", "dataset", "name"),
            train_probability=probability,
            initial_model=text_at(found, "spec", "initialModel", "name"),
            eval_model=text_at(found, "spec", "evalSpec", "initialModel", "name")
            or text_at(found, "spec", "evalSpec", "initialEvalModel", "name"),
            deploy_model=text_at(found, "spec", "deploySpec", "model", "name"),
            is_hot_updated=flag_at(found, "spec", "deploySpec", "model", "hotUpdateEnabled"),
            train_trigger=Trigger.parse(mapping_at(found, "spec", "trainSpec", "trigger")),
            deploy_trigger=Trigger.parse(mapping_at(found, "spec", "deploySpec", "trigger")),
            output_dir=output_dir,
            credential=text_at(found, "spec", "credentialName"),
            hot_update_config=hot_update_config
            or _HOT_UPDATE_DEFAULT.format(namespace, kind, name).lower(),
            nodes={stage: _node(found, stage) for stage in Stage},
            conditions=tuple(each for each in conditions if each is not None),
        )

    @property
    def is_lifelong(self) -> bool:
        return self.kind == LIFELONG_LEARNING_JOB.singular

    @property
    def condition(self) -> JobCondition | None:
        """The last one is the state."""
        return self.conditions[-1] if self.conditions else None

    def completed(self, stage: Stage) -> JobCondition | None:
        """The newest success of a stage."""
        for each in reversed(self.conditions):
            if each.stage is stage and each.type == "Completed":
                return each
        return None


def _node(found: Mapping[str, object], stage: Stage) -> str:
    """Where the stage's pod last ran, else where it is to run, else ""."""
    ran = text_at(found, "metadata", "annotations", _NODE_OF_STAGE.format(stage.value))
    part = f"{stage.value.lower()}Spec"
    return ran or text_at(found, "spec", part, "template", "spec", "nodeName")
