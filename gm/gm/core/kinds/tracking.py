"""The workers that the services which search for and track objects have in common."""

from gm.core.kind import Setting, Site, Value, WorkerSpec, Workload
from gm.core.kinds.environment import of_service
from gm.core.names import service_name

# GM/controllers/objectsearch: reidServicePort, userWorkerPort
_REID_PORT = 9378
_USER_PORT = 9379


def _plain(site: Site) -> tuple[Setting, ...]:
    return of_service(site)


def _reid_url(site: Site) -> Value:
    host = f"{service_name(site.job, 'reidworker')}.{site.namespace}"
    return Value("EDGEMESH_URL", f"{host}:{_REID_PORT}")


def tracking_of_a_search(site: Site) -> tuple[Setting, ...]:
    """It asks the user's worker what to look for."""
    host = f"{service_name(site.job, 'userworker')}.{site.namespace}"
    return (*of_service(site), Value("USERWORKER_URL", f"{host}:{_USER_PORT}"), _reid_url(site))


def tracking(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), _reid_url(site))


REID_WORKER = WorkerSpec(
    type="reidworker",
    path=("spec", "reidWorkers"),
    settings=_plain,
    workload=Workload.DEPLOYMENT,
    port=_REID_PORT,
)
USER_WORKER = WorkerSpec(
    type="userworker",
    path=("spec", "userWorker"),
    settings=_plain,
    workload=Workload.DEPLOYMENT,
    port=_USER_PORT,
)
