"""ObjectSearchService: tracking workers look for what a user asks for, others identify it again."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Rule, SednaKind, WorkerSpec
from gm.core.kinds.tracking import REID_WORKER, USER_WORKER, tracking_of_a_search

OBJECT_SEARCH = SednaKind(
    resource=kinds.OBJECT_SEARCH_SERVICE,
    rule=Rule.SERVICE,
    workers=(
        REID_WORKER,
        USER_WORKER,
        WorkerSpec(
            type="trackingworker",
            path=("spec", "trackingWorkers", "*"),
            settings=tracking_of_a_search,
        ),
    ),
)
