"""A learning job, its Dataset and its Models as they are in the API.

Owns the reading of an IncrementalLearningJob or LifelongLearningJob: what it wants, and where GM's
conditions say it is; everything else of `learning` sees only this. GM alone counts rounds: a
condition without `round` is of Sedna's GM, and nothing is begun on it. What cannot be read raises
`MalformedJob` with the field.

Owns the choice of a model by format and device: a training may leave several (a checkpoint to go on
from, one compiled for the edge's chip), and each place takes the one made for it. Nothing that was
trained fits: there is no model, and the caller reports so; Sedna's LC ends there.

A round has three stages (prior art: Sedna's il and ll state machine): Train > Eval > Deploy > the
next round's Train; a failure anywhere begins the next round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from edge_sidecars.sedna_api.core.file_url import is_below
from edge_sidecars.sedna_api.core.kinds import LIFELONG_LEARNING_JOB
from lc.core.learning.fields import (
    MalformedJob,
    flag_at,
    list_at,
    mapping_at,
    number_at,
    text_at,
    url_at,
)
from lc.core.learning.trigger import Trigger
from lc.core.sample_count import FORMATS


class Stage(Enum):
    TRAIN = "Train"
    EVAL = "Eval"
    DEPLOY = "Deploy"

    @classmethod
    def named(cls, text: str) -> "Stage | None":
        """In any case: workers say it in lower case."""
        return next((each for each in cls if each.value.lower() == text.lower()), None)

    @property
    def folder(self) -> str:
        return self.value.lower()


class FileLocation(msgspec.Struct, frozen=True):
    """A path below the node's root, or an address; `credential`: the Secret that opens it."""

    url: str
    credential: str = ""


class Dataset(msgspec.Struct, frozen=True):
    """`format` txt|csv; `node`: whose it is."""

    url: str
    format: str
    node: str
    credential: str = ""

    @classmethod
    def parse(cls, found: Mapping[str, object]) -> "Dataset":
        """Raises MalformedJob."""
        url, data_format = url_at(found, "spec", "url"), text_at(found, "spec", "format").lower()
        if data_format not in FORMATS:
            raise MalformedJob(f"spec.format is {data_format!r:.40}, none of {', '.join(FORMATS)}")
        node = text_at(found, "spec", "nodeName")
        return cls(url, data_format, node, text_at(found, "spec", "credentialName"))

    @property
    def place(self) -> FileLocation:
        return FileLocation(self.url, self.credential)


@dataclass(frozen=True, slots=True)
class Model:
    """`devices`: systems on chip it was made for, empty: any. `told`: all that a worker reported.

    `credential`: the Secret that opens it, of a Model in the API.
    """

    format: str
    url: str
    devices: tuple[str, ...] = ()
    credential: str = ""
    told: Mapping[str, object] = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, found: object) -> "Model":
        """Raises MalformedJob."""
        if not isinstance(found, Mapping):
            raise MalformedJob("a model is no object")
        url = text_at(found, "url")
        if not url:
            raise MalformedJob("a model has no url")
        devices = tuple(str(each) for each in list_at(found, "device_soc_versions"))
        credential = text_at(found, "credentialName")
        return cls(text_at(found, "format"), url, devices, credential, dict(found))

    @classmethod
    def of_resource(cls, found: Mapping[str, object]) -> "Model":
        """A Model in the API. Raises MalformedJob."""
        url_at(found, "spec", "url")
        return cls.parse(mapping_at(found, "spec") or {})

    def fits(self, place: "Model") -> bool:
        """A model for several devices, or for none in particular, is judged by its format alone."""
        if self.format != place.format:
            return False
        if place.devices and len(self.devices) == 1:
            return self.devices[0] in place.devices
        return True

    def as_input(self) -> dict[str, object]:
        """As GM reads it: where it is and what it is."""
        body: dict[str, object] = {"format": self.format, "url": self.url}
        if self.devices:
            body["device_soc_versions"] = list(self.devices)
        return body


def fitting(models: Iterable[Model], place: Model) -> Model | None:
    return next((each for each in models if each.fits(place)), None)


def models_in(results: Iterable[object]) -> tuple[Model, ...]:
    """Those that have an address; the others cannot be used for anything."""
    return tuple(
        Model.parse(each) for each in results if isinstance(each, Mapping) and each.get("url")
    )


def foreign(models: Iterable[Model], output_dir: str) -> str:
    """Why what a worker names must not be touched; "" where all of it lies in its job's own
    directory."""
    named = [it.url for it in models if not is_below(output_dir, it.url)]
    if not named:
        return ""
    listed = ", ".join(f"{each!r:.80}" for each in named)[:300]
    return (
        f"a worker names {listed}: only what lies below spec.outputDir {output_dir:.200} is its own"
    )


# Where GM says on which node a stage's pod last ran (Sedna's annotations).
_NODE_OF_STAGE = "sedna.io/{}"
# Where the inference worker looks for a new model (Sedna's annotation, and its value by default).
_HOT_UPDATE_CONFIG = "sedna.io/model-hot-update-config"
_HOT_UPDATE_FOLDER = "/var/lib/sedna/model-hot-update/{}/{}/{}"
_HOT_UPDATE_FILE = "model_config.json"
# A round is an int32 of the API.
MAX_ROUND = 2**31 - 1


class JobCondition(msgspec.Struct, frozen=True):
    """`type` Waiting|Ready|Starting|Running|Completed|Failed; `round` None: not known; `since` as
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
        raw = found.get("round")
        if stage is None:
            return None
        is_round = isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MAX_ROUND
        number = raw if isinstance(raw, int) and is_round else None
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
        except (msgspec.DecodeError, MalformedJob, RecursionError, UnicodeError):
            return None


class Job(msgspec.Struct, frozen=True, kw_only=True):
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
        output_dir = url_at(found, "spec", "outputDir").rstrip("/")
        if not output_dir:
            raise MalformedJob("InvalidSpec: spec.outputDir: / is no directory for a job")
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
            hot_update_config=text_at(found, "metadata", "annotations", _HOT_UPDATE_CONFIG)
            or f"{_hot_update_folder(namespace, kind, name)}/{_HOT_UPDATE_FILE}",
            nodes={stage: _node(found, stage) for stage in Stage},
            conditions=tuple(each for each in conditions if each is not None),
        )

    @property
    def is_lifelong(self) -> bool:
        return self.kind == LIFELONG_LEARNING_JOB.singular

    @property
    def has_own_hot_updates(self) -> bool:
        """Whether they lie in the directory that is the job's, and leaves with it."""
        return is_below(
            _hot_update_folder(self.namespace, self.kind, self.name), self.hot_update_config
        )

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


def _hot_update_folder(namespace: str, kind: str, name: str) -> str:
    return _HOT_UPDATE_FOLDER.format(namespace, kind, name).lower()


def _node(found: Mapping[str, object], stage: Stage) -> str:
    """Where the stage's pod last ran, else where it is to run, else ""."""
    ran = text_at(found, "metadata", "annotations", _NODE_OF_STAGE.format(stage.value))
    part = f"{stage.value.lower()}Spec"
    return ran or text_at(found, "spec", part, "template", "spec", "nodeName")
