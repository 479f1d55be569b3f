"""Services: workers that are to be available.

JointInferenceService: a small model on the edge asks a big one in the cloud when in doubt.
FeatureExtractionService: a Deployment with a model.
ObjectSearchService: tracking workers look for what a user asks for, others identify it again.
ObjectTrackingService: tracking workers, and those that identify again what they saw.
"""

from collections.abc import Iterator
from functools import partial

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    Merge,
    Path,
    Problem,
    Rule,
    SednaKind,
    Setting,
    Site,
    Value,
    WorkerSpec,
    Workload,
    downloaded,
)
from gm.core.kinds.environment import hard_example_mining, kafka, lc_server, of_service
from gm.core.names import service_name
from gm.core.tree import mapping, number

# GM/controllers/jointinference: BigModelPort; GM/controllers/featureextraction: FEPort;
# GM/controllers/objectsearch: reidServicePort, userWorkerPort
_BIG_MODEL_PORT = 5000
_FEATURE_PORT = 6000
_REID_PORT = 9378
_USER_PORT = 9379
_FEATURE_MODEL = ("spec", "model", "name")
_WORKERS = ("cloudWorker", "edgeWorker")
_deployed = partial(WorkerSpec, workload=Workload.DEPLOYMENT)


def _cloud(site: Site) -> tuple[Setting, ...]:
    return (
        *of_service(site),
        Value("BIG_MODEL_BIND_PORT", str(_BIG_MODEL_PORT)),
        _model(site, *_worker_model("cloudWorker")),
    )


def _edge(site: Site) -> tuple[Setting, ...]:
    return (
        *of_service(site),
        Value("BIG_MODEL_IP", _host(site, "cloud")),
        Value("BIG_MODEL_PORT", str(_BIG_MODEL_PORT)),
        *hard_example_mining(site.part),
        lc_server(site),
        _model(site, *_worker_model("edgeWorker")),
    )


def _host(site: Site, worker: str) -> str:
    return f"{service_name(site.job, worker)}.{site.namespace}"


def _model(site: Site, *path: str) -> Setting:
    return downloaded("MODEL_URL", site.model(*path))


def _worker_model(worker: str) -> Path:
    return ("spec", worker, "model", "name")


def _check_replicas(object_: Json) -> Iterator[Problem]:
    for worker in _WORKERS:
        hpa = mapping(object_, "spec", worker, "hpa")
        least, most = number(hpa, "minReplicas", default=1), number(hpa, "maxReplicas")
        if hpa and most < max(least, 1):
            yield Problem(
                f"spec.{worker}.hpa.maxReplicas",
                f"{most} is less than minReplicas ({least})",
                "let it be at least as large",
            )


JOINT_INFERENCE = SednaKind(
    resource=kinds.JOINT_INFERENCE_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        _deployed("Cloud", ("spec", "cloudWorker"), _cloud, port=_BIG_MODEL_PORT),
        _deployed("Edge", ("spec", "edgeWorker"), _edge, is_told=True, needs_node=True),
    ),
    models=tuple(map(_worker_model, _WORKERS)),
    merge=Merge.METRICS,
    check=_check_replicas,
)


def _extraction(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), lc_server(site), *kafka(site), _model(site, *_FEATURE_MODEL))


FEATURE_EXTRACTION = SednaKind(
    resource=kinds.FEATURE_EXTRACTION_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        # As its clients look for it: <service>-fe.
        _deployed("fe", ("spec",), _extraction, port=_FEATURE_PORT, is_told=True),
    ),
    models=(_FEATURE_MODEL,),
    merge=Merge.METRICS,
)


def _tracking(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), _service_url(site, "EDGEMESH_URL", "reidworker", _REID_PORT))


def _tracking_of_a_search(site: Site) -> tuple[Setting, ...]:
    """It asks the user's worker what to look for."""
    *common, reid = _tracking(site)
    return (*common, _service_url(site, "USERWORKER_URL", "userworker", _USER_PORT), reid)


def _service_url(site: Site, name: str, worker: str, port: int) -> Value:
    return Value(name, f"{_host(site, worker)}:{port}")


_REID_WORKER = _deployed("reidworker", ("spec", "reidWorkers"), of_service, port=_REID_PORT)
_USER_WORKER = _deployed("userworker", ("spec", "userWorker"), of_service, port=_USER_PORT)
_tracking_worker = partial(WorkerSpec, "trackingworker", ("spec", "trackingWorkers", "*"))

OBJECT_SEARCH = SednaKind(
    resource=kinds.OBJECT_SEARCH_SERVICE,
    rule=Rule.SERVICE,
    workers=(_REID_WORKER, _USER_WORKER, _tracking_worker(_tracking_of_a_search)),
)
OBJECT_TRACKING = SednaKind(
    resource=kinds.OBJECT_TRACKING_SERVICE,
    rule=Rule.SERVICE,
    workers=(_REID_WORKER, _tracking_worker(_tracking)),
)
