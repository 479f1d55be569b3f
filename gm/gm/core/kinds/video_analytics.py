"""VideoAnalyticsJob: one pod with a model, and a Service before it."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Mounted, Rule, SednaKind, Setting, Site, Value, WorkerSpec
from gm.core.kinds.environment import kafka, lc_server, of_job
from gm.core.tree import text

# GM/controllers/videoanalytics: VideoAnalyticsPort
_PORT = 4000
_MODEL = ("spec", "model", "name")


def _settings(site: Site) -> tuple[Setting, ...]:
    return (
        *of_job(site),
        Value("MODEL_NAME", text(site.object, *_MODEL)),
        lc_server(site),
        *kafka(site),
        Mounted("MODEL_URL", (site.model(*_MODEL),), is_downloaded=True),
    )


VIDEO_ANALYTICS = SednaKind(
    resource=kinds.VIDEO_ANALYTICS_JOB,
    rule=Rule.JOB,
    workers=(
        # As Sedna's, whatever batch/v1 demands of the template of a job: the worker serves.
        WorkerSpec(
            type="videoanalytics",
            path=("spec",),
            settings=_settings,
            port=_PORT,
            restart_policy="Always",
        ),
    ),
    models=(_MODEL,),
)
