"""ObjectTrackingService: tracking workers, and those that identify again what they saw."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Kind, Rule, Worker
from gm.core.kinds.tracking import REID_WORKER, tracking

OBJECT_TRACKING = Kind(
    resource=kinds.OBJECT_TRACKING_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        REID_WORKER,
        Worker(type="trackingworker", path=("spec", "trackingWorkers", "*"), settings=tracking),
    ),
)
