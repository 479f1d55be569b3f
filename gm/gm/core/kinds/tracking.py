"""Services that search for and track objects.

ObjectSearchService: tracking workers look for what a user asks for, others identify it again.
ObjectTrackingService: tracking workers, and those that identify again what they saw.
"""

from dataclasses import replace

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Rule, SednaKind, Setting, Site, Value, WorkerSpec, Workload
from gm.core.kinds.environment import of_service
from gm.core.names import service_name

# GM/controllers/objectsearch: reidServicePort, userWorkerPort
_REID_PORT = 9378
_USER_PORT = 9379


def _tracking(site: Site) -> tuple[Setting, ...]:
    return (*of_service(site), _url(site, "EDGEMESH_URL", "reidworker", _REID_PORT))


def _tracking_of_a_search(site: Site) -> tuple[Setting, ...]:
    """It asks the user's worker what to look for."""
    *common, reid = _tracking(site)
    return (*common, _url(site, "USERWORKER_URL", "userworker", _USER_PORT), reid)


def _url(site: Site, name: str, worker: str, port: int) -> Value:
    return Value(name, f"{service_name(site.job, worker)}.{site.namespace}:{port}")


_REID_WORKER = WorkerSpec(
    type="reidworker",
    path=("spec", "reidWorkers"),
    settings=of_service,
    workload=Workload.DEPLOYMENT,
    port=_REID_PORT,
)
_USER_WORKER = replace(
    _REID_WORKER, type="userworker", path=("spec", "userWorker"), port=_USER_PORT
)
_TRACKING_WORKER = WorkerSpec(
    type="trackingworker", path=("spec", "trackingWorkers", "*"), settings=_tracking
)

OBJECT_SEARCH = SednaKind(
    resource=kinds.OBJECT_SEARCH_SERVICE,
    rule=Rule.SERVICE,
    workers=(_REID_WORKER, _USER_WORKER, replace(_TRACKING_WORKER, settings=_tracking_of_a_search)),
)
OBJECT_TRACKING = SednaKind(
    resource=kinds.OBJECT_TRACKING_SERVICE,
    rule=Rule.SERVICE,
    workers=(_REID_WORKER, _TRACKING_WORKER),
)
