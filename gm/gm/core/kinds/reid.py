"""ReidJob: one pod."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Rule, SednaKind, Setting, Site, WorkerSpec
from gm.core.kinds.environment import kafka, lc_server, of_job


def _settings(site: Site) -> tuple[Setting, ...]:
    return (*of_job(site), lc_server(site), *kafka(site))


REID = SednaKind(
    resource=kinds.REID_JOB,
    rule=Rule.JOB,
    workers=(
        # As Sedna's, whatever batch/v1 demands of the template of a job: the worker serves.
        WorkerSpec(type="reid", path=("spec",), settings=_settings, restart_policy="Always"),
    ),
)
