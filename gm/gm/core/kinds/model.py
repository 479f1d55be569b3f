"""Model: jobs refer to it, and a federated job writes its metrics."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Rule, SednaKind

MODEL = SednaKind(resource=kinds.MODEL, rule=Rule.RECORD)
