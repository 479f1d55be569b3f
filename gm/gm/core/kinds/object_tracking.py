"""ObjectTrackingService: tracking workers, and those that identify again what they saw."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Rule, SednaKind, WorkerSpec
from gm.core.kinds.tracking import REID_WORKER, tracking

OBJECT_TRACKING = SednaKind(
    resource=kinds.OBJECT_TRACKING_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        REID_WORKER,
        WorkerSpec(type="trackingworker", path=("spec", "trackingWorkers", "*"), settings=tracking),
    ),
)
