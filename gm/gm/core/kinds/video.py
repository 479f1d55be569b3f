"""What Sedna makes of video: analytics, features, re-identification.

VideoAnalyticsJob is a pod with a model, and a Service before it; FeatureExtractionService is a
Deployment with a model; ReidJob is a pod.
"""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import (
    Merge,
    Rule,
    SednaKind,
    Setting,
    Site,
    Value,
    WorkerSpec,
    Workload,
    downloaded,
)
from gm.core.kinds.environment import kafka, lc_server, of_job, of_service
from gm.core.tree import text

# GM/controllers/videoanalytics: VideoAnalyticsPort; GM/controllers/featureextraction: FEPort
_VIDEO_PORT = 4000
_FEATURE_PORT = 6000
_MODEL = ("spec", "model", "name")


def _analytics(site: Site) -> tuple[Setting, ...]:
    name = Value("MODEL_NAME", text(site.object, *_MODEL))
    return (*of_job(site), name, lc_server(site), *kafka(site), _model(site))


def _extraction(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), lc_server(site), *kafka(site), _model(site))


def _reid(site: Site) -> tuple[Setting, ...]:
    return (*of_job(site), lc_server(site), *kafka(site))


def _model(site: Site) -> Setting:
    return downloaded("MODEL_URL", site.model(*_MODEL))


# The workers of both jobs serve, whatever batch/v1 demands of the template of a job: as Sedna's.
VIDEO_ANALYTICS = SednaKind(
    resource=kinds.VIDEO_ANALYTICS_JOB,
    rule=Rule.JOB,
    workers=(
        WorkerSpec(
            type="videoanalytics",
            path=("spec",),
            settings=_analytics,
            port=_VIDEO_PORT,
            restart_policy="Always",
        ),
    ),
    models=(_MODEL,),
)
FEATURE_EXTRACTION = SednaKind(
    resource=kinds.FEATURE_EXTRACTION_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        WorkerSpec(
            # As its clients look for it: <service>-fe.
            type="fe",
            path=("spec",),
            settings=_extraction,
            workload=Workload.DEPLOYMENT,
            port=_FEATURE_PORT,
            is_told=True,
        ),
    ),
    models=(_MODEL,),
    merge=Merge.METRICS,
)
REID = SednaKind(
    resource=kinds.REID_JOB,
    rule=Rule.JOB,
    workers=(WorkerSpec(type="reid", path=("spec",), settings=_reid, restart_policy="Always"),),
)
