"""JointInferenceService: a small model on the edge asks a big one in the cloud when in doubt."""

from collections.abc import Iterator

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    Merge,
    Mounted,
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
from gm.core.kinds.environment import hard_example_mining, lc_server, of_service
from gm.core.names import service_name
from gm.core.tree import mapping, number

# GM/controllers/jointinference: BigModelPort
PORT = 5000
_WORKERS = ("cloudWorker", "edgeWorker")


def _cloud(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), Value("BIG_MODEL_BIND_PORT", str(PORT)), _model(site, "cloudWorker"))


def _edge(site: Site) -> tuple[Setting, ...]:
    return (
        *of_service(site),
        Value("BIG_MODEL_IP", f"{service_name(site.job, 'cloud')}.{site.namespace}"),
        Value("BIG_MODEL_PORT", str(PORT)),
        *hard_example_mining(site.part),
        lc_server(site),
        _model(site, "edgeWorker"),
    )


def _model(site: Site, worker: str) -> Mounted:
    source = site.model("spec", worker, "model", "name")
    return downloaded("MODEL_URL", source)


def _check(object_: Json) -> Iterator[Problem]:
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
        WorkerSpec(
            type="Cloud",
            path=("spec", "cloudWorker"),
            settings=_cloud,
            workload=Workload.DEPLOYMENT,
            port=PORT,
        ),
        WorkerSpec(
            type="Edge",
            path=("spec", "edgeWorker"),
            settings=_edge,
            workload=Workload.DEPLOYMENT,
            is_told=True,
            needs_node=True,
        ),
    ),
    models=tuple(("spec", worker, "model", "name") for worker in _WORKERS),
    merge=Merge.METRICS,
    check=_check,
)
