"""Jobs: pods that end, as far as they do.

FederatedLearningJob: workers train where the data is, one aggregates what they learned.
VideoAnalyticsJob: a pod with a model, and a Service before it. ReidJob: a pod.
"""

from collections.abc import Iterator

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    DataSource,
    Merge,
    Mounted,
    Problem,
    Rule,
    SednaKind,
    Setting,
    Site,
    Value,
    Words,
    WorkerSpec,
    downloaded,
)
from gm.core.kinds.environment import kafka, lc_server, of_job
from gm.core.names import service_name
from gm.core.tree import items, mapping, text
from gm.core.validation import url_problem

# GM/controllers/federatedlearning: aggPort; GM/controllers/videoanalytics: VideoAnalyticsPort
_AGGREGATION_PORT = 7363
_VIDEO_PORT = 4000
_MODEL = ("spec", "model", "name")
_AGGREGATED = ("spec", "aggregationWorker", "model", "name")
_PRETRAINED = ("spec", "pretrainedModel", "name")


def _aggregation(site: Site) -> tuple[Setting, ...]:
    return (*of_job(site), Value("AGG_BIND_PORT", str(_AGGREGATION_PORT)), *_federation(site))


def _train(site: Site) -> tuple[Setting, ...]:
    dataset = text(site.part, "dataset", "name")
    return (
        *of_job(site),
        Value("AGG_IP", f"{service_name(site.job, 'aggregation')}.{site.namespace}"),
        Value("AGG_PORT", str(_AGGREGATION_PORT)),
        Value("MODEL_NAME", text(site.object, *_AGGREGATED)),
        Value("DATASET_NAME", dataset),
        lc_server(site),
        downloaded("TRAIN_DATASET_URL", site.dataset(dataset)),
        *_federation(site),
    )


def _federation(site: Site) -> tuple[Setting, ...]:
    participants = len(items(site.object, "spec", "trainingWorkers"))
    common = (
        Value("PARTICIPANTS_COUNT", str(participants)),
        *_transmitter(site),
        downloaded("MODEL_URL", site.model(*_AGGREGATED)),
    )
    if not text(site.object, *_PRETRAINED):
        return common
    pretrained = site.model(*_PRETRAINED)
    return (*common, downloaded("PRETRAINED_MODEL_URL", pretrained))


def _transmitter(site: Site) -> tuple[Setting, ...]:
    s3 = mapping(site.object, "spec", "transmitter", "s3")
    if not s3:
        return (Value("TRANSMITTER", "ws"),)
    source = DataSource(text(s3, "aggDataPath"), text(s3, "credentialName"))
    return (Value("TRANSMITTER", "s3"), Mounted("AGG_DATA_PATH", (source,)))


def _check_transmitter(object_: Json) -> Iterator[Problem]:
    s3 = mapping(object_, "spec", "transmitter", "s3")
    if not s3:
        return
    field = "spec.transmitter.s3.aggDataPath"
    url = text(s3, "aggDataPath")
    if not url.startswith("s3://"):
        yield Problem(field, f"{url!r:.80} is no s3 URL", "write s3://bucket/path")
    elif problem := url_problem(field, url):
        yield problem


FEDERATED_LEARNING = SednaKind(
    resource=kinds.FEDERATED_LEARNING_JOB,
    rule=Rule.JOB,
    workers=(
        WorkerSpec(
            "Aggregation",
            ("spec", "aggregationWorker"),
            _aggregation,
            port=_AGGREGATION_PORT,
            restart_policy="OnFailure",
        ),
        WorkerSpec(
            "Train",
            ("spec", "trainingWorkers", "*"),
            _train,
            host_network=True,
            restart_policy="OnFailure",
            is_told=True,
        ),
    ),
    models=(_AGGREGATED,),
    optional_models=(_PRETRAINED,),
    datasets=(("spec", "trainingWorkers", "*", "dataset", "name"),),
    secrets=(("spec", "transmitter", "s3", "credentialName"),),
    merge=Merge.TRAINING,
    words=Words(started="", running="Training", completed="Complete"),
    times=("lastProbeTime", "lastHeartbeatTime", "lastTransitionTime"),
    check=_check_transmitter,
)


def _analytics(site: Site) -> tuple[Setting, ...]:
    name = Value("MODEL_NAME", text(site.object, *_MODEL))
    return (
        *of_job(site),
        name,
        lc_server(site),
        *kafka(site),
        downloaded("MODEL_URL", site.model(*_MODEL)),
    )


def _reid(site: Site) -> tuple[Setting, ...]:
    return (*of_job(site), lc_server(site), *kafka(site))


# The workers of both jobs serve, whatever batch/v1 demands of the template of a job: as Sedna's.
VIDEO_ANALYTICS = SednaKind(
    resource=kinds.VIDEO_ANALYTICS_JOB,
    rule=Rule.JOB,
    workers=(
        WorkerSpec(
            "videoanalytics", ("spec",), _analytics, port=_VIDEO_PORT, restart_policy="Always"
        ),
    ),
    models=(_MODEL,),
)
REID = SednaKind(
    resource=kinds.REID_JOB,
    rule=Rule.JOB,
    workers=(WorkerSpec("reid", ("spec",), _reid, restart_policy="Always"),),
)
