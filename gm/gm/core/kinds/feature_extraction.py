"""FeatureExtractionService: a Deployment with a model."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Merge, Mounted, Rule, SednaKind, Setting, Site, WorkerSpec, Workload
from gm.core.kinds.environment import kafka, lc_server, of_service

# GM/controllers/featureextraction: FEPort
_PORT = 6000
_MODEL = ("spec", "model", "name")


def _settings(site: Site) -> tuple[Setting, ...]:
    return (
        *of_service(site),
        lc_server(site),
        *kafka(site),
        Mounted("MODEL_URL", (site.model(*_MODEL),), is_downloaded=True),
    )


FEATURE_EXTRACTION = SednaKind(
    resource=kinds.FEATURE_EXTRACTION_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        WorkerSpec(
            # As its clients look for it: <service>-fe.
            type="fe",
            path=("spec",),
            settings=_settings,
            workload=Workload.DEPLOYMENT,
            port=_PORT,
            is_told=True,
        ),
    ),
    models=(_MODEL,),
    merge=Merge.METRICS,
)
