"""Model: jobs refer to it, and a federated job writes its metrics."""

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Kind, Rule

MODEL = Kind(resource=kinds.MODEL, rule=Rule.RECORD)
